//! One page of a list, as it was received, and with its records parsed.

use crate::api::envelope::{self, ResponsePage};
use crate::api::http::Response;
use crate::model::{RecordProblem, Resource};
use crate::vault::template_match::{TemplateMatch, TemplateMatcher};

/// A received page, before it is stored.
pub(super) struct FetchedPage {
    pub response: Response,
    pub number: u64,
    pub limit: u64,
}

/// A page with its records, ready to be stored.
pub(super) struct ParsedPage<'f> {
    pub page: ResponsePage<'f>,
    pub records: Vec<TemplateMatch<'f>>,
    /// Why the other records could not be read.
    pub faults: Vec<RecordProblem>,
}

impl<'f> ParsedPage<'f> {
    /// Parses a page of `resource`, or of the items of channel `parent`.
    ///
    /// # Errors
    /// As [`envelope::page`].
    pub fn new(
        resource: Resource,
        parent: Option<i64>,
        fetched: &'f FetchedPage,
    ) -> Result<Self, String> {
        let page = envelope::page(&fetched.response.body, resource.spec().list_keys)?;
        let mut matcher = TemplateMatcher::new(resource, parent);
        let mut records = Vec::with_capacity(page.records.len());
        let mut faults = Vec::new();
        for raw in &page.records {
            match matcher.split(raw.get()) {
                Ok(split) => records.push(split),
                Err(problem) => faults.push(problem),
            }
        }
        Ok(Self { page, records, faults })
    }
}
