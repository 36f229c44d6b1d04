//! The metrics of a worker for Prometheus, and the socket that serves them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::clock::Timestamp;
use crate::health::attempt::{AttemptOutcome, BackupAttempt};
use crate::server::Server;

/// Above this number of accounts no metric has an account as its label.
const MOST_ACCOUNTS: usize = 100;
/// Time limit for the head of a request.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// The longest life of a connection.
const MAX_LIFETIME: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountLabels {
    account: String,
}

/// What a worker counts.
#[derive(Default)]
pub struct WorkerMetrics {
    /// Accounts that it works on at the same time, at most.
    pub slots: Gauge<i64, AtomicI64>,
    /// Accounts that it works on now.
    pub slots_used: Gauge<i64, AtomicI64>,
    /// Activities that wait for a worker; `None` while Temporal does not tell.
    pub backlog: Mutex<Option<i64>>,
    /// Leases that ended while the worker worked on their accounts.
    pub lost: Counter<u64, AtomicU64>,
    attempts: Family<OutcomeLabels, Counter<u64, AtomicU64>>,
    requests: Counter<u64, AtomicU64>,
    complete: Mutex<BTreeMap<String, Timestamp>>,
}

impl WorkerMetrics {
    /// Counts an attempt with its requests under `outcome`.
    pub fn attempted(&self, account: &str, attempt: &BackupAttempt, outcome: AttemptOutcome) {
        self.attempts.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
        self.requests.inc_by(attempt.requests);
        if outcome == AttemptOutcome::Complete {
            let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
            if complete.len() <= MOST_ACCOUNTS {
                complete.insert(account.to_owned(), attempt.ended);
            }
        }
    }

    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix("linkvault");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program", build);
        let worker = registry.sub_registry_with_prefix("worker");
        let slots = "Accounts that the worker works on at the same time, at most";
        worker.register("slots", slots, self.slots.clone());
        worker.register("slots_used", "Accounts that it works on now", self.slots_used.clone());
        if let Some(backlog) = *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) {
            let gauge = Gauge::<i64, AtomicI64>::default();
            gauge.set(backlog);
            worker.register("backlog", "Activities that wait in the task queue", gauge);
        }
        let lost = "Accounts whose lease ended while the worker worked on them";
        worker.register("lost", lost, self.lost.clone());
        let attempts = "Backups that ended, by outcome";
        worker.register("attempts", attempts, self.attempts.clone());
        worker.register("requests", "Requests to the services", self.requests.clone());
        let complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        if complete.len() <= MOST_ACCOUNTS {
            let family = Family::<AccountLabels, Gauge<i64, AtomicI64>>::default();
            for (account, time) in complete.iter() {
                let labels = AccountLabels { account: account.clone() };
                family.get_or_create(&labels).set(time.0 / 1000);
            }
            let help = "End of the newest complete backup that this worker made";
            worker.register("last_complete_timestamp_seconds", help, family);
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

/// Serves `/metrics` and `/healthz` at `listen`.
///
/// # Errors
/// If the address cannot be listened on.
pub fn serve(listen: SocketAddr, metrics: Arc<WorkerMetrics>) -> io::Result<Server> {
    Server::start("metrics", TcpListener::bind(listen)?, move |stream, _| {
        let metrics = Arc::clone(&metrics);
        async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let response = answer(request.uri().path(), &metrics);
                async move { Ok::<_, Infallible>(response) }
            });
            // An error on a connection affects only its client.
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .serve_connection(TokioIo::new(stream), service);
            let _ = tokio::time::timeout(MAX_LIFETIME, served).await;
        }
    })
}

fn answer(path: &str, metrics: &WorkerMetrics) -> Response<Full<Bytes>> {
    let (status, kind, text) = match path {
        "/metrics" => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, kind, metrics.text())
        }
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_labels_up_to_a_bound() {
        let metrics = WorkerMetrics::default();
        let complete = |number: usize| {
            let outcome = AttemptOutcome::Complete;
            let attempt = BackupAttempt::new(Timestamp(0), Timestamp(5000), outcome);
            let attempt = BackupAttempt { requests: 3, ..attempt };
            metrics.attempted(&format!("account{number}"), &attempt, outcome);
        };
        (0..MOST_ACCOUNTS).for_each(complete);
        let text = metrics.text();
        assert!(
            text.contains(
                "linkvault_worker_last_complete_timestamp_seconds{account=\"account7\"} 5"
            ),
            "{text}"
        );
        assert!(
            text.contains("linkvault_worker_attempts_total{outcome=\"complete\"} 100"),
            "{text}"
        );
        assert!(text.contains("linkvault_worker_requests_total 300"), "{text}");
        (MOST_ACCOUNTS..2 * MOST_ACCOUNTS).for_each(complete);
        assert!(!metrics.text().contains("account7"));
    }

    #[test]
    fn only_known_paths_are_answered() {
        let metrics = WorkerMetrics::default();
        assert_eq!(answer("/metrics", &metrics).status(), StatusCode::OK);
        assert_eq!(answer("/healthz", &metrics).status(), StatusCode::OK);
        assert_eq!(answer("/", &metrics).status(), StatusCode::NOT_FOUND);
    }
}
