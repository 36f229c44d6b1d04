//! The socket of the page: HTTP/1.1 on threads of its own. A bounded number of
//! connections, each of which must say what it wants in good time.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::server::Server;
use crate::ui::connection_slots::{ConnectionSlots, TooManyConnections, client};

/// The most connections at once.
const CONNECTIONS: usize = 256;

/// The most connections of one client.
const OF_ONE_CLIENT: usize = 64;

/// How long a connection may take to say what it wants.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(5);

/// How long a connection lives at most, for one that never reads its answer.
const LIFE: Duration = Duration::from_secs(600);

/// The connection on which a request came.
#[derive(Clone)]
pub(crate) struct Connection {
    pub client: IpAddr,
    pub busy: TooManyConnections,
}

pub(crate) fn serve(
    listen: SocketAddr,
    router: Router,
    header_time: Duration,
) -> io::Result<Server> {
    let listener = TcpListener::bind(listen)?;
    let places = ConnectionSlots::new(CONNECTIONS, OF_ONE_CLIENT);
    Server::start("page", listener, move |stream, address| {
        let (router, client) = (router.clone(), client(address.ip()));
        let (close, mut closed) = oneshot::channel::<()>();
        let place = places.enter(client, close);
        async move {
            let Some(place) = place else { return };
            let connection = Connection { client, busy: place.busy.clone() };
            tokio::select! {
                () = converse(stream, connection, router, header_time) => {}
                _ = &mut closed => {}
            }
        }
    })
}

async fn converse(
    stream: TcpStream,
    connection: Connection,
    router: Router,
    header_time: Duration,
) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(connection.clone());
        router.call(request)
    });
    // An error on a connection is for the client alone.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(LIFE, served).await;
}
