//! Shows results of operations: text for people, one JSON document for programs.

pub mod migration;
pub mod plan;
pub mod run;
