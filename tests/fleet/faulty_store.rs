//! An object store in memory, with faults drawn from a seed.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use fastrand::Rng;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// The store, and its faults.
#[derive(Debug)]
pub struct FaultyStore {
    inner: InMemory,
    requests: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    /// One of this number of requests has a fault; none if 0.
    faults: u32,
    /// The faults of the next requests for `HEAD` and `STATE`, before those that are drawn.
    next: VecDeque<Fault>,
    /// From now on no request is answered, as if the machine were cut off.
    cut_off: bool,
    /// The content after earlier puts, for stale reads.
    before: Vec<InMemory>,
    /// Puts that arrive later.
    late: Vec<(Path, PutPayload, PutOptions)>,
}

/// A fault of a request.
#[derive(Debug)]
pub enum Fault {
    None,
    Refused,
    AnswerLost,
    Late,
    Stale,
}

impl FaultyStore {
    pub fn new(seed: u64) -> Self {
        let (rng, before, late) = (Rng::with_seed(seed), Vec::new(), Vec::new());
        let next = VecDeque::new();
        let state = State { rng, faults: 6, next, cut_off: false, before, late };
        Self { inner: InMemory::new(), requests: AtomicUsize::new(0), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Lets the machine that was cut off reach the store again.
    pub fn reconnect(&self) {
        self.state().cut_off = false;
    }

    /// No request is answered from now on.
    pub fn cut_off(&self) {
        self.state().cut_off = true;
    }

    /// Has no faults from now on.
    pub fn heal(&self) {
        let mut state = self.state();
        (state.faults, state.cut_off) = (0, false);
    }

    /// The next requests for `HEAD` and `STATE` have these faults.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().next.extend(faults);
    }

    /// Forgets the planned faults.
    pub fn clear_plan(&self) {
        self.state().next.clear();
    }

    /// The store without its faults.
    pub fn inner(&self) -> InMemory {
        self.inner.fork()
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn fault(&self, path: &Path) -> Option<Fault> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(path.filename(), Some("HEAD" | "STATE"))
            && let Some(planned) = state.next.pop_front()
        {
            return Some(planned).filter(|it| !matches!(it, Fault::None));
        }
        if state.cut_off {
            return Some(Fault::Refused);
        }
        let faults = state.faults;
        if faults == 0 || state.rng.u32(..faults) > 0 {
            return None;
        }
        if state.rng.u8(..4) == 0 {
            state.cut_off = true;
        }
        Some(match state.rng.u8(..8) {
            0..3 => Fault::Refused,
            3..6 => Fault::AnswerLost,
            6 => Fault::Late,
            _ => Fault::Stale,
        })
    }

    /// The store as it was before one of the last puts.
    fn earlier(&self) -> InMemory {
        let mut state = self.state();
        let count = state.before.len();
        let place = state.rng.usize(..count.max(1)).max(count.saturating_sub(5));
        state.before.get(place).unwrap_or(&self.inner).fork()
    }

    /// Puts that were late arrive now.
    async fn deliver(&self) {
        let arrived = {
            let mut state = self.state();
            if state.rng.bool() { std::mem::take(&mut state.late) } else { Vec::new() }
        };
        for (path, payload, options) in arrived {
            let _ = self.inner.put_opts(&path, payload, options).await;
        }
    }
}

fn failed<T>(what: &str) -> Result<T> {
    Err(Error::Generic { store: "FaultyStore", source: what.into() })
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl ObjectStore for FaultyStore {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(async move {
            self.deliver().await;
            let fault = self.fault(path);
            match fault {
                Some(Fault::Refused) => return failed("503 Service Unavailable"),
                Some(Fault::Late) => {
                    self.state().late.push((path.clone(), payload, options));
                    return failed("timed out");
                }
                _ => {}
            }
            let earlier = self.inner.fork();
            let done = self.inner.put_opts(path, payload, options).await;
            if done.is_ok() {
                self.state().before.push(earlier);
            }
            if matches!(fault, Some(Fault::AnswerLost)) { failed("connection reset") } else { done }
        })
    }

    fn get_opts<'a, 'b, 'c>(&'a self, path: &'b Path, options: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
    {
        Box::pin(async move {
            self.deliver().await;
            match self.fault(path) {
                Some(Fault::Stale) => self.earlier().get_opts(path, options).await,
                Some(_) => failed("503 Service Unavailable"),
                None => self.inner.get_opts(path, options).await,
            }
        })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
    {
        self.inner.put_multipart_opts(path, options)
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'c, 'd>(
        &'a self,
        from: &'b Path,
        to: &'c Path,
        options: CopyOptions,
    ) -> Answer<'d, ()>
    where
        'a: 'd,
        'b: 'd,
        'c: 'd,
    {
        self.inner.copy_opts(from, to, options)
    }
}
