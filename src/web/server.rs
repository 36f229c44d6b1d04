//! The socket of the page: HTTP/1.1 on threads of its own. A bounded number of
//! connections, each of which must say what it wants in good time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

/// So many connections at once; others wait until one ends.
const CONNECTIONS: usize = 256;

/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a connection lives at most, for one that never reads its answer.
const LIFE: Duration = Duration::from_secs(600);

/// The page, served. Dropping it stops it without waiting for the end.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, closes every connection and waits for the end.
    pub fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub(super) fn serve(listen: SocketAddr, router: Router) -> io::Result<Running> {
    let listener = std::net::TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let listener = {
        let _context = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("page".to_owned()).spawn(move || {
        runtime.block_on(accept(listener, router, stopped));
        runtime.shutdown_background();
    })?;
    Ok(Running { address, stop: Some(stop), thread: Some(thread) })
}

async fn accept(listener: TcpListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropping the set ends every connection in it.
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            let place = Arc::clone(&room).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        tokio::select! {
            _ = &mut stopped => return,
            next = next => match next {
                Some((place, Ok((stream, _)))) => {
                    let router = router.clone();
                    connections.spawn(async move {
                        connection(stream, router).await;
                        drop(place);
                    });
                }
                // Out of file descriptors, most likely: others must close first.
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    // What ends badly is the business of whoever asked.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = tokio::time::timeout(LIFE, served).await;
}
