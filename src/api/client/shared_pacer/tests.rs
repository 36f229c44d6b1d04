//! Several clients with one key against models of services, on true time.

use super::*;
use crate::api::pacer::tests::model::{
    Flight, Form, Service, Trip, WALL, Window, even, forms, known, skews, trips, windows,
};
use crate::api::rate_limit_headers::ResetTime;
use crate::clock::SleepOutcome;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clock of a process that started at `start`.
struct ProcessClock {
    now: Arc<AtomicI64>,
    start: i64,
    /// By how much the wall clock was set forward.
    ahead: Arc<AtomicI64>,
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Relaxed);
        Timestamp(self.now.load(Ordering::Relaxed) + WALL + ahead)
    }
    fn monotonic(&self) -> Duration {
        let now = self.now.load(Ordering::Relaxed);
        Duration::from_millis(u64::try_from(now - self.start).unwrap())
    }
    fn sleep(&self, _: Duration) -> SleepOutcome {
        SleepOutcome::Finished
    }
    fn interrupted(&self) -> bool {
        false
    }
}

/// What a process does.
#[derive(Debug, Clone)]
struct Job {
    reserve: u64,
    cap: Option<u64>,
    width: usize,
    trips: Vec<Trip>,
}

struct Process {
    job: Job,
    pacer: SharedPacer,
    trips: VecDeque<Trip>,
    flights: Vec<Flight>,
    /// When the next request is tried; `i64::MAX` after a response of its own.
    at: i64,
    finished: i64,
    /// When it sent each request.
    sent: Vec<i64>,
}

struct Simulation {
    now: Arc<AtomicI64>,
    ahead: Arc<AtomicI64>,
    /// When the wall clock is set, and by how much.
    jumps: VecDeque<(i64, i64)>,
    service: Service,
    stored: Arc<Mutex<Option<PacerState>>>,
    processes: Vec<Process>,
    /// Arrivals of requests of killed processes.
    orphans: Vec<i64>,
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Orphan(usize),
    Arrival(usize, usize),
    Answer(usize, usize),
    Try(usize),
}

impl Simulation {
    fn new(service: Service, jobs: Vec<Job>) -> Self {
        let mut simulation = Self {
            now: Arc::new(AtomicI64::new(1_000)),
            ahead: Arc::default(),
            jumps: VecDeque::new(),
            service,
            stored: Arc::default(),
            processes: Vec::new(),
            orphans: Vec::new(),
        };
        for job in jobs {
            let pacer = simulation.pacer(&job);
            let trips = job.trips.iter().copied().collect();
            let (flights, sent) = (Vec::new(), Vec::new());
            let process = Process { job, pacer, trips, flights, at: 1_000, finished: 0, sent };
            simulation.processes.push(process);
        }
        simulation
    }

    fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The pacer of a new process.
    fn pacer(&self, job: &Job) -> SharedPacer {
        let start = self.now() - 700;
        let clock: Arc<dyn Clock> =
            Arc::new(ProcessClock { now: self.now.clone(), start, ahead: self.ahead.clone() });
        let known = self.stored.lock().unwrap().clone();
        let pacer = known.map_or_else(
            || Pacer::new(job.reserve),
            |known| Pacer::restore(job.reserve, &known, clock.monotonic(), clock.now()),
        );
        let stored = self.stored.clone();
        SharedPacer::new(pacer.capped(job.cap), clock).shared(Box::new(move |change| {
            let mut stored = stored.lock().unwrap();
            // As in the file.
            let text = serde_json::to_string(&change(stored.clone())).unwrap();
            *stored = Some(serde_json::from_str(&text).unwrap());
            StoreOutcome::Stored
        }))
    }

    fn next(&self) -> Option<(i64, Happens)> {
        let orphans = self.orphans.iter().enumerate().map(|(nth, at)| (*at, Happens::Orphan(nth)));
        let processes = self.processes.iter().enumerate();
        let rest = processes.flat_map(|(who, process)| {
            let flights = process.flights.iter().enumerate();
            let flights = flights.map(move |(nth, flight)| match flight.response {
                None => (flight.arrives, Happens::Arrival(who, nth)),
                Some(_) => (flight.answers, Happens::Answer(who, nth)),
            });
            let waits = !process.trips.is_empty() && process.at < i64::MAX;
            flights.chain(waits.then_some((process.at, Happens::Try(who))))
        });
        orphans.chain(rest).min_by_key(|(at, _)| *at)
    }

    fn run(&mut self) {
        let mut events = 0;
        while let Some((at, what)) = self.next() {
            events += 1;
            assert!(events < 1_000_000, "no progress at {at}");
            self.now.store(at.max(self.now()), Ordering::Relaxed);
            let now = self.now();
            while let Some((_, by)) = self.jumps.pop_front_if(|(at, _)| *at <= now) {
                self.ahead.fetch_add(by, Ordering::Relaxed);
            }
            match what {
                Happens::Orphan(nth) => {
                    self.orphans.swap_remove(nth);
                    self.service.handle(now + WALL);
                }
                Happens::Arrival(who, nth) => {
                    let response = self.service.handle(now + WALL);
                    self.processes[who].flights[nth].response = Some(response);
                }
                Happens::Answer(who, nth) => self.answer(who, nth),
                Happens::Try(who) => self.try_one(who),
            }
        }
    }

    fn answer(&mut self, who: usize, nth: usize) {
        let now = self.now();
        let process = &mut self.processes[who];
        let flight = process.flights.swap_remove(nth);
        let time = process.pacer.clock.monotonic();
        match flight.response.filter(|_| !flight.lost) {
            None => process.pacer.lost(flight.sent, time),
            Some(response) => {
                process.pacer.answered(flight.sent, time, &RateLimitHeaders::read(&response));
            }
        }
        process.finished = now;
        if process.at == i64::MAX {
            process.at = now;
        }
    }

    fn try_one(&mut self, who: usize) {
        let now = self.now();
        let process = &mut self.processes[who];
        let may = match process.flights.len() {
            0 => true,
            some => {
                some < process.job.width
                    && process.pacer.state().may_overlap(process.pacer.clock.monotonic())
            }
        };
        if !may {
            process.at = i64::MAX;
            return;
        }
        if process.flights.is_empty() {
            let wait = process.pacer.wait();
            if !wait.is_zero() {
                process.at = now + i64::try_from(wait.as_millis()).unwrap();
                return;
            }
        }
        let trip = process.trips[0];
        let sent = match process.pacer.try_send() {
            Ok(sent) => sent,
            Err(wait) if process.flights.is_empty() => {
                assert!(!wait.is_zero());
                process.at = now + i64::try_from(wait.as_millis()).unwrap();
                return;
            }
            Err(_) => {
                process.at = i64::MAX;
                return;
            }
        };
        process.trips.pop_front();
        process.sent.push(now);
        let arrives = now + trip.up;
        let answers = arrives + trip.down;
        process.flights.push(Flight { sent, arrives, answers, lost: trip.lost, response: None });
        process.at = now + trip.pause;
        if trip.killed > 0 {
            if trip.killed == 2 {
                process.flights.pop();
            }
            let open = process.flights.drain(..).filter(|flight| flight.response.is_none());
            self.orphans.extend(open.map(|flight| flight.arrives));
            let job = self.processes[who].job.clone();
            self.processes[who].pacer = self.pacer(&job);
        }
    }

    fn finished(&self) -> i64 {
        self.processes.iter().map(|process| process.finished).max().unwrap()
    }
}

/// The jobs, for a service with this limit. One that does not tell it has the assumed one.
fn without_higher_cap(jobs: Vec<Job>, form: Form) -> Vec<Job> {
    let highest = if form == Form::Nothing { 30 } else { u64::MAX };
    let lower = |job: Job| Job { cap: job.cap.map(|cap| cap.min(highest)), ..job };
    jobs.into_iter().map(lower).collect()
}

fn jobs(width: usize, most: usize) -> impl Strategy<Value = Vec<Job>> {
    let cap = prop_oneof![3 => Just(None), 1 => (1u64..60).prop_map(Some)];
    let job = (0u64..20, cap, 1..=width, trips(most, 6))
        .prop_map(|(reserve, cap, width, trips)| Job { reserve, cap, width, trips });
    prop::collection::vec(job, 2..5)
}

/// Jobs of processes that know the clock as it was before.
fn jobs_without_kills(width: usize, most: usize) -> impl Strategy<Value = Vec<Job>> {
    jobs(width, most).prop_map(|mut jobs| {
        let trips = jobs.iter_mut().flat_map(|job| &mut job.trips);
        trips.for_each(|trip| trip.killed = 0);
        jobs
    })
}

/// Times at which the wall clock is set, and by how much: always forward, or always back.
fn jumps() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let by = prop_oneof![1i64..3_000, 1i64..90_000, 1i64..100_000_000];
    let jumps = prop::collection::vec((1_000i64..400_000, by), 1..8);
    (jumps, prop::sample::select(vec![1, -1])).prop_map(|(mut jumps, sign)| {
        jumps.sort_unstable();
        jumps.iter_mut().for_each(|(_, by)| *by *= sign);
        jumps
    })
}

/// The number of requests that `service` refuses to these jobs.
fn refusals(service: Service, jobs: Vec<Job>) -> u64 {
    let mut simulation = Simulation::new(service, jobs);
    simulation.run();
    simulation.service.refused
}

/// A case takes as long as four of one process.
fn fewer_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(4), ..usual }
}

proptest! {
    #![proptest_config(fewer_cases())]

    #[test]
    fn a_service_that_several_processes_use_never_throttles(
        window in windows(), limit in 1u64..40, form in forms(), skew in skews(),
        up in any::<bool>(), jobs in jobs(1, 80),
    ) {
        let service = Service { up, ..Service::new(window, known(limit, form), form, skew) };
        prop_assert_eq!(refusals(service, without_higher_cap(jobs, form)), 0);
    }

    #[test]
    fn a_service_never_throttles_overlapping_requests_of_several_processes(
        window in windows(), limit in 9u64..120, form in forms(), skew in skews(),
        up in any::<bool>(), jobs in jobs(6, 150),
    ) {
        let service = Service { up, ..Service::new(window, known(limit, form), form, skew) };
        prop_assert_eq!(refusals(service, without_higher_cap(jobs, form)), 0);
    }

    #[test]
    fn a_service_never_throttles_when_the_wall_clock_is_set(
        window in windows(), limit in 9u64..60, form in forms(), skew in skews(),
        jobs in jobs_without_kills(4, 100), jumps in jumps(),
    ) {
        let service = Service::new(window, known(limit, form), form, skew);
        let mut simulation = Simulation::new(service, without_higher_cap(jobs, form));
        simulation.jumps = jumps.into();
        simulation.run();
        prop_assert_eq!(simulation.service.refused, 0);
    }

    #[test]
    fn several_processes_use_at_least_90_percent_of_fixed_windows_and_share_them(
        form in forms(), skew in skews(), latency in 10i64..1_000, reserve in 0u64..20,
        processes in 2usize..5, width in 1usize..5,
    ) {
        let limit = 30;
        let service = Service::new(Window::FromFirst, limit, form, skew);
        let share = limit - reserve;
        let each = usize::try_from(share * 12).unwrap() / processes;
        let job = Job { reserve, cap: None, width, trips: even(each, latency) };
        let mut simulation = Simulation::new(service, vec![job; processes]);
        simulation.run();
        prop_assert_eq!(simulation.service.refused, 0);
        let windows = (each * processes).div_ceil(usize::try_from(share).unwrap()) as i64;
        // One at a time at the end of a window.
        let best = (windows - 1) * 60_000 + share as i64 * (latency + 40);
        let once = if form.tells() { 0 } else { 60_000 };
        let took = simulation.finished();
        prop_assert!(took - once <= best + best / 10, "{took} of {best}");
        // Until the first process has finished, none gets less than a third of its part.
        let first = simulation.processes.iter().map(|process| process.finished).min().unwrap();
        for process in &simulation.processes {
            let done = process.sent.iter().filter(|at| **at <= first).count();
            prop_assert!(done * 3 >= each, "{done} of {each}");
        }
    }
}

#[test]
fn without_a_limit_the_state_is_exchanged_now_and_then_and_for_a_retry_after() {
    let now = Arc::new(AtomicI64::new(1_000));
    let clock = Arc::new(ProcessClock { now: now.clone(), start: 0, ahead: Arc::default() });
    let states = Arc::new(Mutex::new(Vec::new()));
    let stored = states.clone();
    let mut pacer = SharedPacer::new(Pacer::new(0), clock).shared(Box::new(move |change| {
        let state = change(None);
        stored.lock().unwrap().push(state);
        StoreOutcome::Stored
    }));
    let mut send = |signals: &RateLimitHeaders| {
        let sent = pacer.try_send().unwrap();
        let at = pacer.clock.monotonic();
        pacer.answered(sent, at, signals);
    };
    let none = RateLimitHeaders { limit: Some(0), ..RateLimitHeaders::default() };
    for _ in 0..1_000 {
        send(&none);
        now.fetch_add(1, Ordering::Relaxed);
    }
    // Twice for the first request, then four times a second.
    assert_eq!(states.lock().unwrap().len(), 2 + 3);
    let later = Some(ResetTime::Relative(30_000));
    send(&RateLimitHeaders { retry_after: later, ..none });
    assert!(states.lock().unwrap().last().unwrap().not_before.is_some());
}

#[test]
fn a_client_with_a_lower_pace_is_not_starved_by_another() {
    let told = [Form::Relative, Form::NoReset].map(|form| (form, 0, Some(10)));
    let not_told = [(Form::Nothing, 20, None), (Form::Nothing, 0, Some(10))];
    for (form, reserve, cap) in told.into_iter().chain(not_told) {
        let service = Service::new(Window::Sliding, 30, form, 0);
        let greedy = Job { reserve: 0, cap: None, width: 4, trips: even(600, 200) };
        let modest = Job { reserve, cap, width: 4, trips: even(100, 200) };
        let mut simulation = Simulation::new(service, vec![greedy, modest]);
        simulation.run();
        assert_eq!(simulation.service.refused, 0);
        // Ten a minute together, and thirty a minute when one of them has finished.
        let ended = simulation.processes.iter().map(|process| process.finished / 60_000);
        assert_eq!(ended.collect::<Vec<_>>(), [35, 19], "{form:?} {reserve} {cap:?}");
    }
}

#[test]
fn a_response_is_stored_with_the_next_request_while_one_client_has_many_left() {
    let now = Arc::new(AtomicI64::new(1_000));
    let clock = Arc::new(ProcessClock { now: now.clone(), start: 0, ahead: Arc::default() });
    let states = Arc::new(Mutex::new(Vec::<PacerState>::new()));
    let stored = states.clone();
    let mut pacer = SharedPacer::new(Pacer::new(0), clock).shared(Box::new(move |change| {
        let mut states = stored.lock().unwrap();
        let state = change(states.last().cloned());
        states.push(state);
        StoreOutcome::Stored
    }));
    // Sends a request, and returns the number of states that this stored.
    let mut send = |remaining, latency: i64| {
        let before = states.lock().unwrap().len();
        let sent = pacer.try_send().unwrap();
        now.fetch_add(latency, Ordering::Relaxed);
        let reset = Some(ResetTime::Relative(50_000));
        let (limit, remaining) = (Some(100), Some(remaining));
        let signals = RateLimitHeaders { limit, remaining, reset, ..RateLimitHeaders::default() };
        let at = pacer.clock.monotonic();
        pacer.answered(sent, at, &signals);
        states.lock().unwrap().len() - before
    };
    assert_eq!([99, 98, 97].map(|left| send(left, 1)), [2, 1, 1]);
    assert_eq!(send(96, 300), 2, "others would see it late");
    assert_eq!([12, 9, 8].map(|left| send(left, 1)), [1, 2, 2], "few are left");
    assert_eq!([90, 89].map(|left| send(left, 1)), [2, 1]);
    // Another client stores a state.
    let mut other = states.lock().unwrap().last().cloned().unwrap();
    other.requests.push((other.saved, 1));
    states.lock().unwrap().push(other);
    assert_eq!([88, 87].map(|left| send(left, 1)), [2, 2]);
    now.fetch_add(60_000, Ordering::Relaxed);
    assert_eq!([99, 98].map(|left| send(left, 1)), [1, 1]);
}
