//! Configuration from end to end: account names and key sources.

mod account_names;
mod key_sources;
