//! Backups on a schedule, for a year, unattended: when each account is due, what
//! came of it, and who has to know.
//!
//! * [`facts`]: what is known, as plain data
//! * [`condition`]: how an account fares
//! * [`problems`]: what is wrong, and the news about it
//! * [`message`]: news as messages, signed
//! * [`outbox`]: messages on their way
//! * [`schedule`]: when something is due, as crontab means it
//! * [`agenda`]: whose turn it is
//! * [`notes`]: what is remembered of an account between two processes
//! * [`board`]: what is known while the daemon runs
//! * [`service`]: the loop

pub mod agenda;
pub mod board;
pub mod condition;
pub mod facts;
pub mod message;
pub mod notes;
pub mod outbox;
pub mod problems;
pub mod schedule;
pub mod service;

pub use board::{Board, Charge, Mail};
pub use condition::Condition;
pub use schedule::Schedule;
pub use service::{Finished, News, Service, Work};
