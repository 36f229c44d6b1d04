//! Fetches the statistics of QR codes, with one request for each code that needs it.

use super::crawler::{Crawler, StatisticsReport};
use super::error::{CrawlError, is_fatal};
use super::options::StatisticsMode;
use crate::api::envelope;
use crate::api::error::ApiErrorKind;
use crate::model::{Resource, Verb};
use crate::progress::Event;
use crate::vault::snapshot::ReadState;
use crate::vault::statistics::{DueStatistics, StoredStatistics};

fn statistics_path(code: i64) -> String {
    let path = Resource::QrCodes.spec().endpoint(Verb::Read).map_or("", |it| it.path);
    path.replace(":id", &code.to_string())
}

/// Number of codes without statistics, and none with, after which no more are requested.
const MAX_MISSING: u64 = 3;

impl Crawler<'_> {
    /// Fetches the statistics that are needed, those fetched longest ago first, within the budget.
    pub(super) fn statistics(&mut self) -> Result<StatisticsReport, CrawlError> {
        let mut summary = StatisticsReport::default();
        let snapshot = self.vault.snapshot(self.snapshot)?;
        let codes = snapshot.outcome(Resource::QrCodes).map(|outcome| outcome.state);
        let left_out = [ReadState::Skipped, ReadState::Excluded, ReadState::NotOffered];
        let unread = codes.is_none_or(|state| left_out.contains(&state));
        if unread || self.options.stats == StatisticsMode::None {
            return Ok(summary);
        }
        let all = self.options.stats == StatisticsMode::All;
        let due = self.vault.statistics_to_fetch(self.snapshot, all)?;
        let total = due.len() as u64;
        let budget = self.options.stats_budget.unwrap_or(total).min(total);
        summary.left = total - budget;
        tracing::debug!("statistics: {total} QR codes are due, {budget} of them are fetched");
        self.announce(budget);
        let mut first_failure = None;
        let mut unknown = 0;
        let due = &due[..usize::try_from(budget).unwrap_or(usize::MAX).min(due.len())];
        for (at, one) in due.iter().enumerate() {
            self.client.announce(due[at..].iter().map(|it| statistics_path(it.code)));
            match self.fetch_statistics(*one) {
                Ok(()) => summary.fetched += 1,
                Err(error) if is_fatal(&error) => return Err(error),
                Err(CrawlError::Api(error)) => {
                    if !matches!(error.kind, ApiErrorKind::NotOffered { .. }) {
                        summary.failed += 1;
                        first_failure.get_or_insert_with(|| error.to_string());
                    } else {
                        // A code that went away since it was listed has none to tell.
                        unknown += 1;
                    }
                }
                Err(error) => return Err(error),
            }
            let done = summary.fetched + summary.failed;
            if unknown >= MAX_MISSING && done == 0 {
                let text = "the service does not offer the statistics of QR codes";
                self.progress.event(&Event::Warning { text });
                summary.left = total;
                break;
            }
            let resource = "qr_statistics";
            self.progress.event(&Event::Records { resource, done, total: Some(budget) });
        }
        if let Some(failure) = first_failure {
            self.mark_incomplete(summary.failed, &failure)?;
        }
        Ok(summary)
    }

    /// Announces the duration of a long series of requests.
    fn announce(&self, requests: u64) {
        let time = self.client.estimate(requests);
        if time.as_secs() > 60 {
            let minutes = time.as_secs().div_ceil(60);
            let text = format!(
                "{requests} QR codes have new statistics: about {minutes} min at the service's \
                 limit (--stats-budget N bounds it)"
            );
            self.progress.event(&Event::Warning { text: &text });
        }
    }

    fn fetch_statistics(
        &mut self,
        DueStatistics { code, scans }: DueStatistics,
    ) -> Result<(), CrawlError> {
        let path = statistics_path(code);
        let response = self.client.get(&path)?;
        let body = envelope::single(&response.body, "data")
            .map_err(|why| self.client.malformed_response(&path, &response, &why))?;
        self.confirm_after_pause()?;
        self.vault.put_statistics(&StoredStatistics {
            snapshot: self.snapshot,
            code,
            scans,
            body: body.get(),
            now: self.clock.now(),
            usage: self.usage(),
        })?;
        self.vault.checkpoint_if_due()?;
        Ok(())
    }

    /// Records in the snapshot that statistics are missing.
    fn mark_incomplete(&mut self, failed: u64, first: &str) -> Result<(), CrawlError> {
        let snapshot = self.vault.snapshot(self.snapshot)?;
        let outcome = snapshot.outcome(Resource::QrCodes);
        let state = outcome.map_or(ReadState::Failed, |outcome| outcome.state);
        let known = outcome.and_then(|outcome| outcome.message.clone());
        let codes = if failed == 1 { "code" } else { "codes" };
        let text = format!("the statistics of {failed} {codes} could not be read, first {first}");
        let message = known.map_or(text.clone(), |known| format!("{known}; {text}"));
        self.vault.conclude(self.snapshot, Resource::QrCodes, state, Some(&message))?;
        Ok(())
    }
}
