//! A listening socket with its own threads, for the sandbox and the web UI. They implement the
//! protocol of a connection.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A running server. Dropping it stops the server without waiting for it.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a server that passes every connection to `serve`, with the address of its client.
    /// `name` is the name of the thread.
    pub(crate) fn start<S, F>(
        name: &str,
        listener: std::net::TcpListener,
        serve: S,
    ) -> io::Result<Self>
    where
        S: Fn(TcpStream, SocketAddr) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(accept(listener, serve, stopped));
            runtime.shutdown_background();
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address that the server listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, closes every connection and waits for the thread.
    pub fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<S, F>(listener: TcpListener, serve: S, mut stopped: oneshot::Receiver<()>)
where
    S: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    // Dropping the set ends every connection in it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            next = listener.accept() => match next {
                Ok((stream, client)) => {
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream, client));
                }
                // Most likely out of file descriptors: other connections must close first.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
