//! Messages on their way: what could not be delivered is tried again, with
//! growing pauses, also by the next process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::doubling;
use crate::clock::{Clock, Timestamp};
use crate::health::attempt::Alert;

/// The ways out of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertChannel {
    Webhook,
    Command,
}

/// An alert that is still to be delivered on one channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingAlert {
    pub alert: Alert,
    pub channel: AlertChannel,
    pub tries: u32,
    /// Not before then.
    pub next: Timestamp,
}

/// The most alerts that wait; beyond it, the oldest are dropped.
const MOST: usize = 200;
/// What could not be delivered for so long is given up.
const PATIENCE: Duration = Duration::from_secs(3 * 24 * 3600);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_secs(10);

/// Adds `alerts`, each for every channel.
pub fn enqueue(outbox: &mut Vec<PendingAlert>, alerts: &[Alert], channels: &[AlertChannel]) {
    for alert in alerts {
        outbox.extend(channels.iter().map(|channel| PendingAlert {
            alert: alert.clone(),
            channel: *channel,
            tries: 0,
            next: alert.at,
        }));
    }
    outbox.drain(..outbox.len().saturating_sub(MOST));
}

/// Why an alert was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryError {
    /// It was tried.
    Failed(String),
    /// It was not tried: its target did not answer a moment ago.
    CircuitOpen,
}

/// A delivery that failed after so long was waited for in vain.
const SLOW: Duration = Duration::from_secs(5);
/// For this long, no other delivery to that target is tried.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// Hosts and programs that were waited for in vain: where a thousand accounts
/// have one, they do not wait for it one after the other.
#[derive(Debug, Default)]
pub struct CircuitBreaker(Mutex<BTreeMap<String, Duration>>);

impl CircuitBreaker {
    /// Delivers to `target` by `send`, unless it was waited for in vain just now.
    ///
    /// # Errors
    /// Why it was not delivered.
    pub fn call(
        &self,
        clock: &dyn Clock,
        target: String,
        send: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), DeliveryError> {
        let breaker = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = clock.monotonic();
        // What would be cut short is left to the next process.
        if clock.interrupted() || breaker().get(&target).is_some_and(|until| begun < *until) {
            return Err(DeliveryError::CircuitOpen);
        }
        let sent = send();
        let now = clock.monotonic();
        if sent.is_err() && now.saturating_sub(begun) >= SLOW {
            breaker().insert(target, now + LEFT_ALONE);
        } else {
            breaker().remove(&target);
        }
        sent.map_err(DeliveryError::Failed)
    }
}

/// Tries by `send` what is due, in order; a channel that fails is left alone
/// until its next time, so that an end never overtakes its beginning. Returns
/// what went wrong.
pub fn deliver(
    outbox: &mut Vec<PendingAlert>,
    now: Timestamp,
    mut send: impl FnMut(&PendingAlert) -> Result<(), DeliveryError>,
) -> Vec<String> {
    let mut failures = Vec::new();
    let mut blocked = Vec::new();
    outbox.retain_mut(|item| {
        if blocked.contains(&item.channel) {
            return true;
        }
        // A clock that was set back holds nothing up for longer than a pause.
        let far = item.next > now.plus(LONGEST_PAUSE);
        if item.next > now && !far {
            blocked.push(item.channel);
            return true;
        }
        let Err(undelivered) = send(item) else { return false };
        blocked.push(item.channel);
        let given_up = now.since(item.alert.at) > PATIENCE;
        let DeliveryError::Failed(why) = undelivered else { return !given_up };
        item.tries = item.tries.saturating_add(1);
        item.next = now.plus(pause(item.tries));
        failures.push(if given_up { format!("{why}; given up") } else { why });
        !given_up
    });
    failures
}

/// After the first failure 10 s, then twice as long each time, up to an hour.
fn pause(tries: u32) -> Duration {
    // After so many it is the longest.
    let tries = tries.clamp(1, 20) as usize;
    doubling(FIRST_PAUSE, LONGEST_PAUSE).nth(tries - 1).unwrap_or(LONGEST_PAUSE)
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
    fn what_is_delivered_is_gone() {
        let mut outbox = outbox(&[1, 2]);
        let mut sent = Vec::new();
        let failures = deliver(&mut outbox, Timestamp(2), |item| {
            sent.push(item.alert.message.clone());
            Ok(())
        });
        assert_eq!((sent, failures.len(), outbox.len()), (vec!["1".into(), "2".into()], 0, 0));
    }

    #[test]
    fn an_end_never_overtakes_its_beginning() {
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
    fn one_channel_does_not_wait_for_the_other() {
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
    fn a_thousand_accounts_wait_for_a_dead_host_once() {
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
        clock.sleep(LEFT_ALONE);
        assert_eq!((pass(), clock.monotonic().as_secs()), (1, 120));
        assert_eq!(outboxes.iter().map(|it| it[0].tries).sum::<u32>(), 2, "the others had no try");
        clock.sleep(LEFT_ALONE);
        for outbox in &mut outboxes {
            deliver(outbox, clock.now(), |_| breaker.call(&clock, "a".to_owned(), || Ok(())));
        }
        assert!(outboxes.iter().all(Vec::is_empty));
    }

    #[test]
    fn nothing_is_begun_that_the_end_of_the_program_would_cut_short() {
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
    fn a_host_that_fails_at_once_is_tried_for_each() {
        let (breaker, clock) = (CircuitBreaker::default(), SimulatedClock::new(Timestamp(0)));
        let failed = Err(DeliveryError::Failed("no".to_owned()));
        for _ in 0..2 {
            let reached = breaker.call(&clock, "a".to_owned(), || Err("no".to_owned()));
            assert_eq!(reached, failed);
        }
    }

    #[test]
    fn pauses_grow_and_patience_ends() {
        let pauses: Vec<_> = (1..12).map(|tries| pause(tries).as_secs()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
        let mut outbox = outbox(&[0]);
        let (mut now, mut tries) = (Timestamp(0), 0);
        while !outbox.is_empty() {
            tries += 1;
            assert!(tries < 200);
            deliver(&mut outbox, now, |_| Err(DeliveryError::Failed("no".to_owned())));
            now = outbox.first().map_or(now, |item| item.next);
        }
        assert!(now.since(Timestamp(0)) > PATIENCE);
    }

    #[test]
    fn a_clock_set_back_holds_nothing_up() {
        let mut outbox = outbox(&[1_000_000_000_000]);
        deliver(&mut outbox, Timestamp(5), |_| Ok(()));
        assert!(outbox.is_empty());
    }

    #[test]
    fn the_outbox_is_bounded() {
        let times: Vec<_> = (0..500).collect();
        let outbox = outbox(&times);
        assert_eq!((outbox.len(), outbox[0].alert.message.as_str()), (MOST, "300"));
    }
}
