//! Alerts that are not delivered yet. Failed deliveries are retried with growing pauses, also by
//! the next process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::doubling;
use crate::clock::{Clock, Timestamp};
use crate::health::attempt::Alert;

/// How an alert is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertChannel {
    /// An HTTP POST to a URL.
    Webhook,
    /// A program on this machine.
    Command,
}

/// An alert that is not delivered yet on one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingAlert {
    /// The alert.
    pub alert: Alert,
    /// How it is to be delivered.
    pub channel: AlertChannel,
    /// Failed deliveries so far.
    pub tries: u32,
    /// Earliest time of the next delivery.
    pub next: Timestamp,
    /// Why the last delivery failed.
    #[serde(default)]
    pub error: Option<String>,
}

impl PendingAlert {
    /// Whether both are the same alert on the same channel, whatever the failed deliveries.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.channel == other.channel && self.alert == other.alert
    }
}

/// Alerts and a heartbeat that are not delivered yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PendingAlerts {
    /// The pending alerts, oldest first.
    pub outbox: Vec<PendingAlert>,
    /// Whether a heartbeat is pending.
    pub heartbeat: bool,
    /// Why its last delivery failed.
    pub heartbeat_error: Option<String>,
}

/// Alerts and a heartbeat whose delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeliveredAlerts {
    /// Number of alerts that wait because the delivery of one failed.
    pub alerts: u64,
    /// When the first of them was made; `None` if only the heartbeat failed.
    pub since: Option<Timestamp>,
    /// Why the last delivery failed.
    pub error: String,
}

impl PendingAlerts {
    /// What could not be delivered; `None` if no delivery failed. Later alerts of a channel wait
    /// for the failed one.
    #[must_use]
    pub fn undelivered(&self) -> Option<UndeliveredAlerts> {
        let failed = self.outbox.iter().filter(|it| it.tries > 0);
        let channels: Vec<_> = failed.clone().map(|it| it.channel).collect();
        let waiting = || self.outbox.iter().filter(|it| channels.contains(&it.channel));
        let error = failed.filter_map(|it| it.error.clone()).next_back();
        let heartbeat = self.heartbeat_error.clone().filter(|_| self.heartbeat);
        let unknown = || "the reason is not known".to_owned();
        let error = error.or(heartbeat).or_else(|| (!channels.is_empty()).then(unknown))?;
        let since = waiting().map(|it| it.alert.at).min();
        Some(UndeliveredAlerts { alerts: waiting().count() as u64, since, error })
    }
}

/// The most pending alerts; beyond that, the oldest are dropped.
pub(super) const MAX_PENDING: usize = 200;
/// An alert that cannot be delivered for this long is dropped.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);
const MAX_PAUSE: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Adds each alert once for every channel. Beyond `MAX_PENDING`, drops the oldest.
pub fn enqueue(outbox: &mut Vec<PendingAlert>, alerts: &[Alert], channels: &[AlertChannel]) {
    for alert in alerts {
        outbox.extend(channels.iter().map(|channel| PendingAlert {
            alert: alert.clone(),
            channel: *channel,
            tries: 0,
            next: alert.at,
            error: None,
        }));
    }
    outbox.drain(..outbox.len().saturating_sub(MAX_PENDING));
}

/// Why an alert was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// The delivery failed, for this reason.
    Failed(String),
    /// Not attempted: the target did not answer shortly before.
    CircuitOpen,
}

/// A delivery that fails after this time opens the circuit.
const SLOW: Duration = Duration::from_secs(5);
/// How long the circuit of a target stays open.
const OPEN_TIME: Duration = Duration::from_secs(60);

/// Stops deliveries to hosts and programs that did not answer, so that a thousand accounts with the
/// same webhook do not wait for it one after the other.
#[derive(Debug, Default)]
pub struct CircuitBreaker(Mutex<BTreeMap<String, Duration>>);

impl CircuitBreaker {
    /// Calls `send` for `target`, unless its circuit is open.
    ///
    /// # Errors
    /// [`DeliveryError::CircuitOpen`] also while the program is asked to stop.
    pub fn call(
        &self,
        clock: &dyn Clock,
        target: String,
        send: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), DeliveryError> {
        let breaker = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = clock.monotonic();
        // An interrupted delivery would fail; the next process delivers the alert.
        if clock.interrupted() || breaker().get(&target).is_some_and(|until| begun < *until) {
            return Err(DeliveryError::CircuitOpen);
        }
        let sent = send();
        if sent.is_err() && clock.interrupted() {
            return Err(DeliveryError::CircuitOpen);
        }
        let now = clock.monotonic();
        if sent.is_err() && now.saturating_sub(begun) >= SLOW {
            breaker().insert(target, now + OPEN_TIME);
        } else {
            breaker().remove(&target);
        }
        sent.map_err(DeliveryError::Failed)
    }
}

/// Whether an alert may be sent at `now`: the first one of a channel.
#[must_use]
pub fn has_due(outbox: &[PendingAlert], now: Timestamp) -> bool {
    let mut channels = Vec::new();
    outbox.iter().any(|item| {
        let is_first = !channels.contains(&item.channel);
        channels.push(item.channel);
        is_first && is_due(item, now)
    })
}

/// Whether the time of the alert's next delivery has come. After the clock was set back, an alert
/// waits for one pause at most.
fn is_due(item: &PendingAlert, now: Timestamp) -> bool {
    item.next <= now || item.next > now.plus(MAX_PAUSE)
}

/// Calls `send` for each alert that is ready, in order, and removes the delivered ones. After a
/// failure the channel waits until the alert's next time, so that the end of a problem never
/// arrives before its beginning. Returns the errors. An alert that is too old is dropped, unless it
/// is the newest of its channel: that one shows that the channel does not work.
pub fn deliver(
    outbox: &mut Vec<PendingAlert>,
    now: Timestamp,
    mut send: impl FnMut(&PendingAlert) -> Result<(), DeliveryError>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut blocked = Vec::new();
    let mut later: Vec<_> = outbox.iter().map(|it| it.channel).collect();
    outbox.retain_mut(|item| {
        later.remove(0);
        if blocked.contains(&item.channel) {
            return true;
        }
        if !is_due(item, now) {
            blocked.push(item.channel);
            return true;
        }
        let Err(undelivered) = send(item) else { return false };
        blocked.push(item.channel);
        let is_newest = !later.contains(&item.channel);
        let expired = !is_newest && now.since(item.alert.at) > DELIVERY_TIMEOUT;
        let DeliveryError::Failed(why) = undelivered else { return !expired };
        item.tries = item.tries.saturating_add(1);
        item.next = now.plus(pause(item.tries));
        item.error = Some(why.clone());
        failures.push(if expired { format!("{why}; the alert is dropped") } else { why });
        !expired
    });
    failures
}

/// The pause after `tries` failures: 10 s, then doubled each time, up to an hour.
fn pause(tries: u32) -> Duration {
    // The pause is at its maximum long before 20.
    let tries = tries.clamp(1, 20) as usize;
    doubling(FIRST_PAUSE, MAX_PAUSE).nth(tries - 1).unwrap_or(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use crate::clock::{Interrupt, SimulatedClock, SystemClock};
    use crate::health::attempt::AlertEvent;
    use crate::health::attempt::ProblemKind;
    use crate::health::pending_alerts::*;

    fn alert(at: i64) -> Alert {
        Alert {
            kind: ProblemKind::Failed,
            event: AlertEvent::Begun,
            since: Timestamp(at),
            at: Timestamp(at),
            message: at.to_string(),
            hint: None,
        }
    }

    fn outbox(times: &[i64]) -> Vec<PendingAlert> {
        let mut outbox = Vec::new();
        let alerts: Vec<_> = times.iter().map(|at| alert(*at)).collect();
        enqueue(&mut outbox, &alerts, &[AlertChannel::Webhook]);
        outbox
    }

    #[test]
    fn delivered_alerts_are_removed() {
        let mut outbox = outbox(&[1, 2]);
        let mut sent = Vec::new();
        let failures = deliver(&mut outbox, Timestamp(2), |item| {
            sent.push(item.alert.message.clone());
            Ok(())
        });
        assert_eq!((sent, failures.len(), outbox.len()), (vec!["1".into(), "2".into()], 0, 0));
    }

    #[test]
    fn the_end_of_a_problem_is_never_delivered_before_its_beginning() {
        let mut outbox = outbox(&[1, 2]);
        let mut tried = 0;
        let mut fail = |_: &PendingAlert| {
            tried += 1;
            Err(DeliveryError::Failed("no".to_owned()))
        };
        assert_eq!(deliver(&mut outbox, Timestamp(2), &mut fail), ["no"]);
        deliver(&mut outbox, Timestamp(3), &mut fail);
        deliver(&mut outbox, Timestamp(2).plus(FIRST_PAUSE), &mut fail);
        assert_eq!((tried, outbox.len()), (2, 2));
    }

    #[test]
    fn channels_do_not_wait_for_each_other() {
        let mut outbox = Vec::new();
        enqueue(
            &mut outbox,
            &[alert(1), alert(2)],
            &[AlertChannel::Webhook, AlertChannel::Command],
        );
        let mut ran = 0;
        deliver(&mut outbox, Timestamp(2), |item| match item.channel {
            AlertChannel::Webhook => Err(DeliveryError::Failed("no".to_owned())),
            AlertChannel::Command => {
                ran += 1;
                Ok(())
            }
        });
        assert_eq!((ran, outbox.len()), (2, 2));
    }

    #[test]
    fn alerts_that_wait_for_a_failed_one_are_undelivered() {
        let mut pending = PendingAlerts::default();
        let both = [AlertChannel::Webhook, AlertChannel::Command];
        enqueue(&mut pending.outbox, &[alert(1), alert(2)], &both);
        assert_eq!(pending.undelivered(), None, "no delivery was tried");
        deliver(&mut pending.outbox, Timestamp(2), |item| match item.channel {
            AlertChannel::Webhook => Err(DeliveryError::CircuitOpen),
            AlertChannel::Command => Err(DeliveryError::Failed("no shell".to_owned())),
        });
        let found = pending.undelivered().unwrap();
        assert_eq!((found.alerts, found.since), (2, Some(Timestamp(1))));
        assert_eq!(found.error, "no shell");
        let heartbeat_error = Some("no host".to_owned());
        let only = PendingAlerts { heartbeat: true, heartbeat_error, ..PendingAlerts::default() };
        let found = only.undelivered().unwrap();
        assert_eq!((found.alerts, found.since, found.error.as_str()), (0, None, "no host"));
        assert_eq!(PendingAlerts { heartbeat: false, ..only }.undelivered(), None);
    }

    #[test]
    fn a_dead_host_is_waited_for_once_for_a_thousand_accounts() {
        let (breaker, clock) = (CircuitBreaker::default(), SimulatedClock::new(Timestamp(0)));
        let dead = || {
            clock.sleep(Duration::from_secs(30));
            Err("timed out".to_owned())
        };
        let mut outboxes = vec![outbox(&[0]); 1000];
        let mut pass = || {
            let failures = outboxes.iter_mut().map(|outbox| {
                deliver(outbox, clock.now(), |_| breaker.call(&clock, "a".to_owned(), dead)).len()
            });
            failures.sum::<usize>()
        };
        assert_eq!((pass(), clock.monotonic().as_secs()), (1, 30));
        assert_eq!((pass(), clock.monotonic().as_secs()), (0, 30));
        clock.sleep(OPEN_TIME);
        assert_eq!((pass(), clock.monotonic().as_secs()), (1, 120));
        assert_eq!(outboxes.iter().map(|it| it[0].tries).sum::<u32>(), 2, "the others had no try");
        clock.sleep(OPEN_TIME);
        for outbox in &mut outboxes {
            deliver(outbox, clock.now(), |_| breaker.call(&clock, "a".to_owned(), || Ok(())));
        }
        assert!(outboxes.iter().all(Vec::is_empty));
    }

    #[test]
    fn nothing_is_sent_after_an_interrupt() {
        let interrupt = Interrupt::default();
        interrupt.raise();
        let clock = SystemClock::new(interrupt);
        let mut sent = 0;
        let reached = CircuitBreaker::default().call(&clock, "a".to_owned(), || {
            sent += 1;
            Ok(())
        });
        assert_eq!((reached, sent), (Err(DeliveryError::CircuitOpen), 0));
    }

    #[test]
    fn a_host_that_fails_quickly_is_tried_for_each_alert() {
        let (breaker, clock) = (CircuitBreaker::default(), SimulatedClock::new(Timestamp(0)));
        let failed = Err(DeliveryError::Failed("no".to_owned()));
        for _ in 0..2 {
            let reached = breaker.call(&clock, "a".to_owned(), || Err("no".to_owned()));
            assert_eq!(reached, failed);
        }
    }

    #[test]
    fn pauses_grow_and_old_alerts_are_dropped() {
        let pauses: Vec<_> = (1..12).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        assert_eq!(pause(u32::MAX), MAX_PAUSE);
        let mut outbox = outbox(&[0, 1]);
        let (mut now, mut tries) = (Timestamp(0), 0);
        while outbox.len() > 1 {
            tries += 1;
            assert!(tries < 200);
            deliver(&mut outbox, now, |_| Err(DeliveryError::Failed("no".to_owned())));
            now = outbox.first().map_or(now, |item| item.next.max(now));
        }
        assert!(now.since(Timestamp(0)) > DELIVERY_TIMEOUT);
        // The newest stays.
        deliver(&mut outbox, Timestamp(i64::MAX / 2), |_| Err(DeliveryError::Failed("no".into())));
        let pending = PendingAlerts { outbox, ..PendingAlerts::default() };
        let undelivered = pending.undelivered().unwrap();
        assert_eq!((undelivered.alerts, undelivered.since), (1, Some(Timestamp(1))));
        assert_eq!(undelivered.error, "no");
    }

    #[test]
    fn a_clock_set_back_does_not_delay_alerts() {
        let mut outbox = outbox(&[1_000_000_000_000]);
        deliver(&mut outbox, Timestamp(5), |_| Ok(()));
        assert!(outbox.is_empty());
    }

    #[test]
    fn the_outbox_has_a_maximum_size() {
        let times: Vec<_> = (0..500).collect();
        let outbox = outbox(&times);
        assert_eq!((outbox.len(), outbox[0].alert.message.as_str()), (MAX_PENDING, "300"));
    }
}
