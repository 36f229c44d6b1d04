//! Checkpoints: copies of an open vault in the store in which it lives, so that another machine can
//! continue its crawl or its run.

use std::fmt;

/// Puts a vault that is open into its store.
pub trait Checkpoints: Send {
    /// Whether the last checkpoint is so old that the next one is to be made.
    fn is_due(&self) -> bool;

    /// Puts the committed content of the vault.
    ///
    /// # Errors
    /// If the store cannot be written, or another machine has put a newer vault.
    fn put(&mut self) -> Result<(), CheckpointError>;

    /// Whether it was not known a moment ago that no other machine has put a newer vault.
    fn is_unconfirmed(&self) -> bool;

    /// Asks the store whether another machine has put a newer vault.
    ///
    /// # Errors
    /// If one has, or the store cannot be read.
    fn confirm(&mut self) -> Result<(), CheckpointError>;

    /// Reports a checkpoint that failed and without which the work goes on. The next one is due
    /// later.
    fn postpone(&mut self, error: &CheckpointError);
}

/// Why a checkpoint was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointError {
    /// Whether another machine has put a newer vault, so that this machine must stop.
    pub is_lost: bool,
    /// The reason, for people.
    pub what: String,
}

impl std::error::Error for CheckpointError {}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}
