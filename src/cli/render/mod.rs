//! How what came of an operation is shown: text for people, one document for programs.

pub mod plan;
pub mod run;
