//! Crawls from end to end: partial, endless and duplicate listings.

mod duplicate_records;
mod endless_listing;
mod excluded_resources;
mod overlapping_reads;
mod partial_snapshot;
