//! The socket of the page: HTTP/1.1 on threads of its own. A bounded number of
//! connections, each of which must say what it wants in good time.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use crate::server::Server;

/// So many connections at once; others wait until one ends.
const CONNECTIONS: usize = 256;

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a connection lives at most, for one that never reads its answer.
const LIFE: Duration = Duration::from_secs(600);

pub(super) fn serve(listen: SocketAddr, router: Router) -> io::Result<Server> {
    let listener = TcpListener::bind(listen)?;
    Server::start("page", listener, CONNECTIONS, move |stream| connection(stream, router.clone()))
}

async fn connection(stream: TcpStream, router: Router) {
    // What ends badly is the business of whoever asked.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(LIFE, served).await;
}
