//! Backups on a schedule, for a year, unattended: when each account is due, what
//! came of it, and who has to know.
//!
//! * [`condition`]: how an account fares, as plain data
//! * [`problems`]: what is wrong, and the news about it
//! * [`message`]: news as messages, signed
//! * [`outbox`]: messages on their way

pub mod condition;
pub mod message;
pub mod outbox;
pub mod problems;

pub use condition::Condition;
