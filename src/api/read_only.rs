//! A transport that cannot change anything on the service.

use std::time::Duration;

use super::http::{FinishedRead, Method, Request, Response, Transport, TransportError};

/// Forwards `GET` requests and refuses all others with [`TransportError::NotSent`].
#[derive(Debug, Clone)]
pub struct ReadOnlyTransport<T>(pub T);

impl<T: Transport> Transport for ReadOnlyTransport<T> {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        if request.method == Method::Get {
            return self.0.send(request);
        }
        let (method, path) = (request.method, &request.path);
        Err(TransportError::NotSent(format!("{method} {path}: this account is only read")))
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        request.method == Method::Get && self.0.begin_read(id, request)
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        self.0.next_read()
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        self.0.try_next_read()
    }

    fn pause(&mut self, time: Duration) {
        self.0.pause(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u32);

    impl Transport for Counting {
        fn send(&mut self, _: &Request) -> Result<Response, TransportError> {
            self.0 += 1;
            Ok(Response::default())
        }
    }

    #[test]
    fn only_reads_reach_the_service() {
        let mut transport = ReadOnlyTransport(Counting(0));
        for method in [Method::Post, Method::Put, Method::Delete] {
            let request = Request { method, ..Request::get("/api/campaigns") };
            let refused = transport.send(&request).unwrap_err();
            let why = format!("{method} /api/campaigns: this account is only read");
            assert_eq!(refused, TransportError::NotSent(why));
        }
        assert_eq!(transport.0.0, 0);
        transport.send(&Request::get("/api/campaigns")).unwrap();
        assert_eq!(transport.0.0, 1);
    }
}
