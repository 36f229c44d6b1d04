//! Sends several reads at once, each on a thread and a connection of its own.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::http::{FinishedRead, Request, Response, Transport, TransportError};
use super::redact::Redactor;
use crate::clock::Clock;

/// Makes a further transport to the same service.
pub type MakeTransport = Box<dyn FnMut() -> Option<Box<dyn Transport>> + Send>;

/// A transport that sends several reads at once, with further transports to the same service.
///
/// A thread begins with the first read that it sends, and ends before a long pause, or when this
/// value is dropped and the read has ended.
pub struct ParallelTransport {
    first: Box<dyn Transport>,
    make: MakeTransport,
    clock: Arc<dyn Clock>,
    redactor: Redactor,
    lanes: usize,
    workers: Vec<Sender<(u64, Request)>>,
    /// Workers without a request.
    idle: Vec<usize>,
    /// The worker of each running read.
    running: BTreeMap<u64, usize>,
    report: Sender<FinishedRead>,
    finished: Receiver<FinishedRead>,
    interrupted_since: Option<Duration>,
}

/// Time after an interrupt in which the running reads may still end.
const PATIENCE: Duration = Duration::from_secs(1);
/// From this time without requests on, threads end. Services close idle connections about then.
const LONG_PAUSE: Duration = Duration::from_secs(15);
/// Time until an interrupt is noticed during a wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

impl ParallelTransport {
    /// Sends up to `lanes` reads at once, and everything else through `first`. `clock` tells how long
    /// each read takes. Removes the secrets of `redactor` from the reads on their own threads.
    #[must_use]
    pub fn new(
        first: Box<dyn Transport>,
        lanes: usize,
        make: MakeTransport,
        clock: Arc<dyn Clock>,
        redactor: Redactor,
    ) -> Self {
        let (report, finished) = channel();
        let (workers, idle, running) = (Vec::new(), Vec::new(), BTreeMap::new());
        let interrupted_since = None;
        Self {
            first,
            make,
            clock,
            redactor,
            lanes,
            workers,
            idle,
            running,
            report,
            finished,
            interrupted_since,
        }
    }

    /// Whether the user interrupted the program, and the running reads had time to end.
    fn is_given_up(&mut self) -> bool {
        if !self.clock.interrupted() {
            return false;
        }
        let now = self.clock.monotonic();
        let since = *self.interrupted_since.get_or_insert(now);
        now.saturating_sub(since) >= PATIENCE
    }

    fn ended(&mut self, finished: FinishedRead) -> Option<FinishedRead> {
        self.idle.extend(self.running.remove(&finished.id));
        Some(finished)
    }

    /// A worker without a request; starts one if there may be more.
    fn worker(&mut self) -> Option<usize> {
        if let Some(idle) = self.idle.pop() {
            return Some(idle);
        }
        if self.workers.len() >= self.lanes {
            return None;
        }
        let transport = (self.make)()?;
        let (send, requests) = channel();
        let (report, clock) = (self.report.clone(), Arc::clone(&self.clock));
        let redactor = self.redactor.clone();
        let thread = std::thread::Builder::new().name("read".to_owned());
        thread.spawn(move || work(transport, &requests, &report, &*clock, &redactor)).ok()?;
        self.workers.push(send);
        Some(self.workers.len() - 1)
    }
}

fn work(
    mut transport: Box<dyn Transport>,
    requests: &Receiver<(u64, Request)>,
    report: &Sender<FinishedRead>,
    clock: &dyn Clock,
    redactor: &Redactor,
) {
    for (id, request) in requests {
        let start = clock.monotonic();
        // Without a result, the caller would wait for ever.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let outcome = transport.send(&request);
            let time = clock.monotonic().saturating_sub(start);
            let removed = redactor.removed_secrets();
            let outcome = redactor.outcome(&request, outcome);
            FinishedRead { id, outcome, time, removed: Some(removed) }
        }));
        let read = outcome.unwrap_or_else(|_| {
            let text = "internal error: the request ended early".to_owned();
            let outcome = Err(TransportError::Unknown(text));
            FinishedRead { id, outcome, time: Duration::ZERO, removed: None }
        });
        if report.send(read).is_err() {
            return;
        }
    }
}

impl Transport for ParallelTransport {
    fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
        self.first.send(request)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }

    fn begin_read(&mut self, id: u64, request: &Request) -> bool {
        let Some(worker) = self.worker() else { return false };
        let begun = self.workers[worker].send((id, request.clone())).is_ok();
        if begun {
            self.running.insert(id, worker);
        }
        begun
    }

    fn next_read(&mut self) -> Option<FinishedRead> {
        if self.running.is_empty() {
            return None;
        }
        loop {
            match self.finished.recv_timeout(CHECK_INTERVAL) {
                Ok(finished) => return self.ended(finished),
                Err(RecvTimeoutError::Timeout) if !self.is_given_up() => {}
                Err(_) => return None,
            }
        }
    }

    fn try_next_read(&mut self) -> Option<FinishedRead> {
        let finished = self.finished.try_recv().ok()?;
        self.ended(finished)
    }

    fn pause(&mut self, time: Duration) {
        self.first.pause(time);
        if time >= LONG_PAUSE && self.running.is_empty() {
            self.workers.clear();
            self.idle.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::clock::{Interrupt, SimulatedClock, SystemClock, Timestamp};

    /// Responds when a second request has arrived; `/api/panic` panics.
    struct Meeting(Arc<Barrier>);

    impl Transport for Meeting {
        fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
            if request.path == "/api/panic" {
                // A panic without a message in the output of the tests.
                std::panic::resume_unwind(Box::new("as asked"));
            }
            self.0.wait();
            Ok(Response { body: request.path.clone().into_bytes(), ..Response::default() })
        }
    }

    fn parallel(lanes: usize) -> ParallelTransport {
        let barrier = Arc::new(Barrier::new(2));
        let make = move || Some(Box::new(Meeting(Arc::clone(&barrier))) as Box<dyn Transport>);
        let (first, clock) =
            (Meeting(Arc::new(Barrier::new(1))), SimulatedClock::new(Timestamp(0)));
        ParallelTransport::new(
            Box::new(first),
            lanes,
            Box::new(make),
            Arc::new(clock),
            Redactor::default(),
        )
    }

    /// Responds after 200 ms.
    struct Slow(Arc<SimulatedClock>);

    impl Transport for Slow {
        fn send(&mut self, _: &Request) -> Result<Response, TransportError> {
            self.0.sleep(Duration::from_millis(200));
            Ok(Response::default())
        }
    }

    #[test]
    fn the_time_of_a_read_ends_with_its_response_and_not_when_it_is_taken() {
        let clock = Arc::new(SimulatedClock::new(Timestamp(0)));
        let slow = Slow(Arc::clone(&clock));
        let make = move || Some(Box::new(Slow(Arc::clone(&slow.0))) as Box<dyn Transport>);
        let first = Box::new(Slow(Arc::clone(&clock)));
        let mut transport =
            ParallelTransport::new(first, 1, Box::new(make), clock.clone(), Redactor::default());
        assert!(transport.begin_read(1, &Request::get("/api/qr")));
        let arrived = transport.finished.recv().unwrap();
        clock.sleep(Duration::from_secs(3600));
        transport.report.send(arrived).unwrap();
        assert_eq!(transport.next_read().unwrap().time, Duration::from_millis(200));
    }

    #[test]
    fn reads_run_at_the_same_time_and_keep_their_numbers() {
        let mut transport = parallel(2);
        for _ in 0..3 {
            assert!(transport.begin_read(7, &Request::get("/api/seven")));
            assert!(transport.begin_read(9, &Request::get("/api/nine")));
            assert!(!transport.begin_read(11, &Request::get("/api/eleven")), "all lanes are used");
            let both = [transport.next_read(), transport.next_read()];
            for read in both.into_iter().flatten() {
                let path = if read.id == 7 { "/api/seven" } else { "/api/nine" };
                assert_eq!(read.outcome.unwrap().body, path.as_bytes());
            }
            assert!(transport.next_read().is_none());
        }
    }

    /// Never responds.
    struct Silent(Receiver<()>);

    impl Transport for Silent {
        fn send(&mut self, _: &Request) -> Result<Response, TransportError> {
            let _ = self.0.recv();
            Ok(Response::default())
        }
    }

    #[test]
    fn an_interrupt_gives_up_the_running_reads() {
        let interrupt = Interrupt::default();
        let clock = Arc::new(SystemClock::new(interrupt.clone()));
        let (silent, responses) = channel();
        let mut responses = Some(responses);
        let make = move || Some(Box::new(Silent(responses.take()?)) as Box<dyn Transport>);
        let first = Box::new(Meeting(Arc::new(Barrier::new(1))));
        let mut transport =
            ParallelTransport::new(first, 1, Box::new(make), clock, Redactor::default());
        assert!(transport.begin_read(1, &Request::get("/api/qr")));
        interrupt.raise();
        assert!(transport.next_read().is_none());
        drop(silent);
    }

    #[test]
    fn a_panic_in_a_transport_is_a_read_without_a_response() {
        let mut transport = parallel(1);
        assert!(transport.begin_read(1, &Request::get("/api/panic")));
        let read = transport.next_read().unwrap();
        assert!(matches!(read.outcome, Err(TransportError::Unknown(_))));
    }

    /// Tells when it is dropped.
    struct Kept(Sender<()>);

    impl Transport for Kept {
        fn send(&mut self, _: &Request) -> Result<Response, TransportError> {
            Ok(Response::default())
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    #[test]
    fn threads_and_their_transports_end_before_a_long_pause_and_begin_again_after_it() {
        let (dropped, drops) = channel();
        let first = Box::new(Kept(channel().0));
        let make = move || Some(Box::new(Kept(dropped.clone())) as Box<dyn Transport>);
        let clock = Arc::new(SimulatedClock::new(Timestamp(0)));
        let mut transport =
            ParallelTransport::new(first, 4, Box::new(make), clock, Redactor::default());
        for _ in 0..3 {
            assert!(transport.begin_read(1, &Request::get("/api/qr")));
            assert!(transport.begin_read(2, &Request::get("/api/links")));
            transport.pause(LONG_PAUSE);
            assert_eq!(transport.workers.len(), 2, "reads are running");
            assert!(transport.next_read().is_some() && transport.next_read().is_some());
            transport.pause(LONG_PAUSE - Duration::from_millis(1));
            assert_eq!(transport.workers.len(), 2, "the next request is near");
            transport.pause(LONG_PAUSE);
            for _ in 0..2 {
                drops.recv_timeout(Duration::from_secs(60)).expect("a thread goes on");
            }
        }
    }

    /// Responds with the path.
    struct Echo;

    impl Transport for Echo {
        fn send(&mut self, request: &Request) -> Result<Response, TransportError> {
            Ok(Response { body: request.path.clone().into_bytes(), ..Response::default() })
        }
    }

    #[test]
    fn secrets_are_removed_on_the_thread_of_the_read_and_the_result_says_which() {
        let redactor = Redactor::default();
        redactor.add("first-secret");
        let make = || Some(Box::new(Echo) as Box<dyn Transport>);
        let clock = Arc::new(SimulatedClock::new(Timestamp(0)));
        let own = redactor.clone();
        let mut transport = ParallelTransport::new(Box::new(Echo), 1, Box::new(make), clock, own);
        assert!(transport.begin_read(1, &Request::get("/api/first-secret/later-secret")));
        let read = transport.next_read().unwrap();
        assert_eq!(read.outcome.unwrap().body, b"/api/[redacted]/later-secret");
        assert_eq!(read.removed, Some(redactor.removed_secrets()));
        redactor.add("later-secret");
        assert_ne!(read.removed, Some(redactor.removed_secrets()));
        let other = Redactor::default();
        other.add("first-secret");
        assert_ne!(read.removed, Some(other.removed_secrets()));
    }
}
