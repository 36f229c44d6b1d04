//! The status of the accounts as metrics for Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::clock::Timestamp;
use crate::health::account_status::AccountStatus;
use crate::health::attempt::ProblemKind;
use crate::health::fleet_state::FleetState;
use crate::ui::accounts::{AccountList, FleetEntry, FleetList};

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// The Prometheus text format, the default.
    Text,
    /// The OpenMetrics text format.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl MetricsFormat {
    /// The preferred format of a client, from the values of its `Accept` headers.
    #[must_use]
    pub fn accepted<'a>(headers: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut text, mut open) = (0.0_f32, 0.0_f32);
        for range in headers.into_iter().flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut quality, mut known) = (1.0_f32, true);
            for part in parts {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                let value = value.trim().trim_matches('"');
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => quality = value.parse().unwrap_or(0.0),
                    "version" if kind == OPEN_METRICS => known = value == "1.0.0",
                    _ => {}
                }
            }
            match kind.as_str() {
                OPEN_METRICS if known => open = open.max(quality),
                "text/plain" | "text/*" | "*/*" => text = text.max(quality),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Self::OpenMetrics } else { Self::Text }
    }

    /// The `Content-Type` header.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountLabels {
    account: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    account: String,
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    account: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    account: String,
    health: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FleetStateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountStateLabels {
    account: String,
    state: &'static str,
}

/// A fleet of more accounts has no metric with an account as its label.
const MOST_FLEET_ACCOUNTS: usize = 100;

type Level<L> = Family<L, Gauge<f64, AtomicU64>>;
type Count<L> = Family<L, Counter<f64, AtomicU64>>;

/// All metrics as text. Unknown values are omitted. `alive` becomes the metric `up`.
#[must_use]
pub fn metrics(list: &AccountList, alive: bool, format: MetricsFormat) -> String {
    let mut registry = Registry::with_prefix("linkvault");
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "The program", build);
    let up = Gauge::<f64, AtomicU64>::default();
    up.set(f64::from(u8::from(alive)));
    registry.register("up", "Whether the program works as intended", up);
    match list {
        AccountList::Vaults(account_statuses) => {
            accounts(&mut registry, account_statuses);
            last(&mut registry, account_statuses);
            totals(&mut registry, account_statuses);
        }
        AccountList::Fleet(list) => fleet(registry.sub_registry_with_prefix("fleet"), list),
    }
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        // Writing to a string does not fail; if it did, an empty result is valid.
        text.clear();
        let _ = writeln!(text, "# EOF");
    }
    match format {
        MetricsFormat::OpenMetrics => text,
        MetricsFormat::Text => prometheus(&text),
    }
}

/// Converts OpenMetrics to the Prometheus text format, in which a family has the name of its
/// samples and fewer types exist. The samples are the same.
fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.rsplit_once(' '))
        {
            let (end, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            let _ = writeln!(text, "# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}");
        } else if !line.starts_with('#') {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn of(account_status: &AccountStatus) -> AccountLabels {
    AccountLabels { account: account_status.account.clone() }
}

fn seconds(time: Timestamp) -> f64 {
    time.0 as f64 / 1000.0
}

/// Registers a gauge per account; accounts for which `read` returns `None` have none.
fn gauge(
    registry: &mut Registry,
    account_statuses: &[AccountStatus],
    (name, help): (&str, &str),
    read: impl Fn(&AccountStatus) -> Option<f64>,
) {
    let family = Level::<AccountLabels>::default();
    for account_status in account_statuses {
        if let Some(value) = read(account_status) {
            family.get_or_create(&of(account_status)).set(value);
        }
    }
    registry.register(name, help, family);
}

fn accounts(registry: &mut Registry, account_statuses: &[AccountStatus]) {
    let health = Level::<State>::default();
    let problems = Level::<ProblemLabels>::default();
    let records = Level::<Of>::default();
    for it in account_statuses {
        let account = it.account.clone();
        let state = State { account, health: it.health.name() };
        health.get_or_create(&state).set(1.0);
        for kind in ProblemKind::ALL {
            let open = it.problems.iter().any(|problem| problem.kind == kind);
            let problem = ProblemLabels { account: it.account.clone(), kind: kind.name() };
            problems.get_or_create(&problem).set(f64::from(u8::from(open)));
        }
        for (resource, count) in &it.records {
            let of = Of { account: it.account.clone(), resource: resource.clone() };
            records.get_or_create(&of).set(*count as f64);
        }
    }
    registry.register("health", "Health of the account", health);
    registry.register("problem", "Whether there is a problem of this kind", problems);
    registry.register("records", "Records in the newest snapshot", records);
    let text = ("unknown_writes", "Writes whose outcome is not known");
    gauge(registry, account_statuses, text, |it| Some(it.unknown_writes as f64));
    let text = ("undelivered_alerts", "Alerts that could not be delivered");
    gauge(registry, account_statuses, text, |it| Some(it.undelivered_alerts as f64));
    let text = ("running", "Whether a backup is running");
    gauge(registry, account_statuses, text, |it| Some(f64::from(u8::from(it.running.is_some()))));
    let text = ("limit_requests_per_minute", "Requests per minute that the service allows");
    gauge(registry, account_statuses, text, |it| it.limit.map(|limit| limit as f64));
    let text = ("next_run_timestamp_seconds", "Start of the next scheduled backup");
    gauge(registry, account_statuses, text, |it| it.next.map(seconds));
    let text = ("last_success_timestamp_seconds", "End of the newest complete or partial backup");
    gauge(registry, account_statuses, text, |it| it.last_success.map(seconds));
    let text = ("last_complete_timestamp_seconds", "End of the newest complete backup");
    gauge(registry, account_statuses, text, |it| it.last_complete.map(seconds));
}

fn last(registry: &mut Registry, account_statuses: &[AccountStatus]) {
    let text = ("last_duration_seconds", "Duration of the newest backup");
    gauge(registry, account_statuses, text, |it| {
        it.last.as_ref().map(|last| last.ended.since(last.started).as_secs_f64())
    });
    let text = ("last_requests", "Requests of the newest backup");
    gauge(registry, account_statuses, text, |it| it.last.as_ref().map(|last| last.requests as f64));
    let text = ("last_throttled", "Requests of the newest backup that the rate limit refused");
    gauge(registry, account_statuses, text, |it| {
        it.last.as_ref().map(|last| last.throttled as f64)
    });
    let text = ("last_waited_seconds", "Time that the newest backup waited for the rate limit");
    gauge(registry, account_statuses, text, |it| {
        it.last.as_ref().map(|last| last.waited.as_secs_f64())
    });
}

fn totals(registry: &mut Registry, account_statuses: &[AccountStatus]) {
    let mut counter = |name: &str, help: &str, read: fn(&AccountStatus) -> f64| {
        let family = Count::<AccountLabels>::default();
        for account_status in account_statuses {
            family.get_or_create(&of(account_status)).inc_by(read(account_status));
        }
        registry.register(name, help, family);
    };
    counter("backups", "Backups that ended", |it| it.totals.backups as f64);
    counter("complete", "Complete backups", |it| it.totals.complete as f64);
    counter("failures", "Failed backups", |it| it.totals.failures as f64);
    counter("requests", "Requests to the service", |it| it.totals.requests as f64);
    counter("throttled", "Requests that the rate limit refused", |it| it.totals.throttled as f64);
    counter("waited_seconds", "Time spent waiting for the rate limit", |it| {
        it.totals.waited.as_secs_f64()
    });
}

/// What Temporal knows of a fleet.
fn fleet(registry: &mut Registry, list: &FleetList) {
    let entries = &list.entries;
    let level = |count: usize| {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(count as f64);
        gauge
    };
    let states = Level::<FleetStateLabels>::default();
    for state in FleetState::ALL {
        let count = entries.iter().filter(|it| it.state == state).count();
        states.get_or_create(&FleetStateLabels { state: state.name() }).set(count as f64);
    }
    registry.register("accounts", "Accounts by their state in Temporal", states);
    let running = level(entries.iter().filter(|it| it.running.is_some()).count());
    registry.register("running", "Accounts with a backup that is under way or waits", running);
    let read = level(0);
    read.set(seconds(list.read));
    registry.register("list_timestamp_seconds", "When Temporal was asked", read);
    if entries.len() > MOST_FLEET_ACCOUNTS {
        return;
    }
    let states = Level::<AccountStateLabels>::default();
    for it in entries.iter() {
        let labels = AccountStateLabels { account: it.account.clone(), state: it.state.name() };
        states.get_or_create(&labels).set(1.0);
    }
    registry.register("state", "State of the account in Temporal", states);
    let mut gauge = |name: &str, help: &str, read: fn(&FleetEntry) -> Option<Timestamp>| {
        let family = Level::<AccountLabels>::default();
        for it in entries.iter() {
            if let Some(time) = read(it) {
                let labels = AccountLabels { account: it.account.clone() };
                family.get_or_create(&labels).set(seconds(time));
            }
        }
        registry.register(name, help, family);
    };
    let last = |it: &FleetEntry| it.last.map(|(start, _)| start);
    gauge("last_start_timestamp_seconds", "Start of the newest backup", last);
    let help = "Start of the newest complete backup that Temporal remembers";
    gauge("last_complete_start_timestamp_seconds", help, |it| it.last_complete);
    gauge("next_start_timestamp_seconds", "Start of the next backup", |it| it.next);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use crate::health::account_status::Health;
    use crate::ui::metrics::*;
    use crate::ui::tests::account_status;

    #[test]
    fn each_account_has_metrics_and_hostile_names_are_escaped() {
        let mut bad = account_status("a\"}\nb\\", Health::Failing);
        bad.problems[0].kind = ProblemKind::KeyRefused;
        let all = vec![account_status("main", Health::Good), bad];
        let text = metrics(&AccountList::Vaults(all), true, MetricsFormat::OpenMetrics);
        for line in [
            "linkvault_build_info{version=\"0.1.0\"} 1",
            "linkvault_up 1.0",
            "linkvault_health{account=\"main\",health=\"good\"} 1.0",
            "linkvault_records{account=\"main\",resource=\"campaigns\"} 12.0",
            "linkvault_last_complete_timestamp_seconds{account=\"main\"} 1760000000.0",
            "linkvault_problem{account=\"a\\\"}\\nb\\\\\",kind=\"key_refused\"} 1.0",
            "linkvault_problem{account=\"main\",kind=\"key_refused\"} 0.0",
            "linkvault_requests_total{account=\"main\"} 480.0",
            "linkvault_last_waited_seconds{account=\"main\"} 1.5",
            "linkvault_unknown_writes{account=\"main\"} 0.0",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn unknown_values_are_omitted() {
        let mut new = account_status("new", Health::New);
        (new.last, new.last_complete, new.next) = (None, None, None);
        let text = metrics(&AccountList::Vaults(vec![new]), false, MetricsFormat::Text);
        assert!(text.contains("linkvault_up 0.0"));
        for name in ["last_complete_timestamp", "next_run_timestamp", "last_duration"] {
            assert!(!text.contains(&format!("linkvault_{name}_seconds{{")), "{name}\n{text}");
        }
    }

    #[test]
    fn the_text_format_has_the_same_samples_under_the_names_of_its_families() {
        let all = AccountList::Vaults(vec![account_status("main", Health::Good)]);
        let (open, text) = (
            metrics(&all, true, MetricsFormat::OpenMetrics),
            metrics(&all, true, MetricsFormat::Text),
        );
        let samples = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            // The order of families is not defined.
            lines.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        assert_eq!(samples(&open), samples(&text));
        for line in [
            "# TYPE linkvault_build_info gauge",
            "# TYPE linkvault_requests_total counter",
            "# TYPE linkvault_health gauge",
            "# HELP linkvault_requests_total Requests to the service.",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    }

    #[test]
    fn a_fleet_has_totals_and_at_most_a_hundred_accounts_as_labels() {
        let entry = |nth: usize| FleetEntry {
            account: format!("account-{nth}"),
            state: if nth == 0 { FleetState::Failed } else { FleetState::Good },
            words: String::new(),
            last: Some((Timestamp(5000), "complete")),
            last_complete: (nth > 0).then_some(Timestamp(5000)),
            next: Some(Timestamp(7000)),
            running: (nth == 1).then_some(Timestamp(5000)),
        };
        let text = |count| {
            let entries = Arc::new((0..count).map(entry).collect());
            let list = FleetList { entries, read: Timestamp(6000), notice: None };
            metrics(&AccountList::Fleet(list), true, MetricsFormat::Text)
        };
        let few = text(MOST_FLEET_ACCOUNTS);
        for line in [
            "linkvault_fleet_accounts{state=\"failed\"} 1.0",
            "linkvault_fleet_accounts{state=\"good\"} 99.0",
            "linkvault_fleet_accounts{state=\"paused\"} 0.0",
            "linkvault_fleet_running 1.0",
            "linkvault_fleet_list_timestamp_seconds 6.0",
            "linkvault_fleet_state{account=\"account-0\",state=\"failed\"} 1.0",
            "linkvault_fleet_last_start_timestamp_seconds{account=\"account-0\"} 5.0",
            "linkvault_fleet_last_complete_start_timestamp_seconds{account=\"account-1\"} 5.0",
            "linkvault_fleet_next_start_timestamp_seconds{account=\"account-1\"} 7.0",
        ] {
            assert!(few.lines().any(|it| it == line), "{line} is not in\n{few}");
        }
        assert!(!few.contains(
            "linkvault_fleet_last_complete_start_timestamp_seconds{account=\"account-0\"}"
        ));
        let many = text(MOST_FLEET_ACCOUNTS + 1);
        assert!(many.contains("linkvault_fleet_accounts{state=\"good\"} 100.0"), "{many}");
        assert!(!many.contains("account=\""), "{many}");
    }

    #[test]
    fn open_metrics_is_served_if_preferred() {
        let prometheus = "application/openmetrics-text;version=1.0.0,\
                          application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (&[prometheus][..], MetricsFormat::OpenMetrics),
            (&["application/openmetrics-text"], MetricsFormat::OpenMetrics),
            (
                &["Application/OpenMetrics-Text; Version=\"1.0.0\"; charset=utf-8"],
                MetricsFormat::OpenMetrics,
            ),
            (&["text/html", "application/openmetrics-text;q=0.4"], MetricsFormat::OpenMetrics),
            (&[], MetricsFormat::Text),
            (&["*/*"], MetricsFormat::Text),
            (&["text/html,*/*;q=0.8"], MetricsFormat::Text),
            (&["text/plain;version=0.0.4"], MetricsFormat::Text),
            (&["application/openmetrics-text;version=0.0.1"], MetricsFormat::Text),
            (&["application/openmetrics-text;version=2.0.0,text/plain;q=0.1"], MetricsFormat::Text),
            (&["application/openmetrics-text;q=0"], MetricsFormat::Text),
            (&["application/openmetrics-text;q=0.3,text/plain;q=0.9"], MetricsFormat::Text),
            (&[";;;q=", ",,", "application/openmetrics-text;q=x"], MetricsFormat::Text),
        ] {
            assert_eq!(MetricsFormat::accepted(accept.iter().copied()), expected, "{accept:?}");
        }
    }
}
