//! The socket of the web UI: HTTP/1.1 with a limited number of connections and a time limit for the
//! head of each request.

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
use crate::ui::connection_slots::{BusyFlag, ConnectionSlots, client};

/// The most open connections.
const MAX_CONNECTIONS: usize = 256;

/// The most open connections of one client.
const MAX_PER_CLIENT: usize = 64;

/// Time limit for the head of a request.
pub(crate) const HEADER_TIME: Duration = Duration::from_secs(5);

/// The longest life of a connection, for clients that never read the response.
const MAX_LIFETIME: Duration = Duration::from_secs(600);

/// The connection of a request.
#[derive(Clone)]
pub(crate) struct Connection {
    pub client: IpAddr,
    pub busy: BusyFlag,
}

pub(crate) fn serve(
    listen: SocketAddr,
    router: Router,
    header_time: Duration,
) -> io::Result<Server> {
    let listener = TcpListener::bind(listen)?;
    let slots = ConnectionSlots::new(MAX_CONNECTIONS, MAX_PER_CLIENT);
    Server::start("page", listener, move |stream, address| {
        let (router, client) = (router.clone(), client(address.ip()));
        let (close, mut closed) = oneshot::channel::<()>();
        let place = slots.enter(client, close);
        async move {
            let Some(place) = place else { return };
            let connection = Connection { client, busy: place.busy.clone() };
            tokio::select! {
                () = serve_connection(stream, connection, router, header_time) => {}
                _ = &mut closed => {}
            }
        }
    })
}

async fn serve_connection(
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
    // An error on a connection affects only its client.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(MAX_LIFETIME, served).await;
}
