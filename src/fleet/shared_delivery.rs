//! Delivers the alerts of an account whose state is in a store: an alert that one machine delivered
//! is not sent by another one.
//!
//! A machine that delivers says so in `STATE` before it sends, and removes what it sent afterwards.
//! If it is killed in between, another machine sends the alerts again ten minutes later. Without
//! the store, a machine sends only the alerts that no other machine can know.

use super::error::StoreError;
use super::shared_state::{KnownState, SharedState};
use super::state_document::{DELIVERY_TIME, DeliveryClaim, StateDocument};
use crate::clock::Clock;
use crate::health::pending_alerts::{PendingAlerts, has_due};

impl SharedState {
    /// Calls `send` with what is due, unless another machine delivers. What `send` leaves is tried
    /// again by later calls.
    ///
    /// # Errors
    /// If neither the store nor the file can be written.
    pub fn deliver(
        &self,
        clock: &dyn Clock,
        send: &mut dyn FnMut(&mut PendingAlerts),
    ) -> Result<KnownState, StoreError> {
        let (by, now) = (format!("{:016x}", fastrand::u64(..)), clock.now());
        let mut may_send = false;
        let mut known = self.update(None, true, now, &mut |document| {
            let outbox = &document.state.outbox;
            may_send = match &document.delivery {
                Some(claim) => !claim.holds(now),
                None => true,
            };
            if may_send && has_due(outbox, now) {
                let until = now.plus(DELIVERY_TIME);
                document.delivery = Some(DeliveryClaim { by: by.clone(), until });
            }
        })?;
        let is_own = |it: &StateDocument| it.delivery.as_ref().is_some_and(|it| it.by == by);
        let Some(mut taken) = known.document.state.pending_alerts() else { return Ok(known) };
        if known.unshared.is_some() {
            let shared = &known.shared_outbox;
            taken.outbox.retain(|item| !shared.iter().any(|it| it.is_same(item)));
        } else if !may_send || !is_own(&known.document) {
            // The heartbeat may be sent twice.
            taken.outbox.clear();
        }
        let mut left = taken.clone();
        send(&mut left);
        if left != taken || is_own(&known.document) {
            let alone = known.unshared.take();
            known = self.update(None, false, clock.now(), &mut |document| {
                document.state.restore_pending(&taken, &left);
                if is_own(document) {
                    document.delivery = None;
                }
            })?;
            known.unshared = known.unshared.or(alone);
        }
        Ok(known)
    }
}
