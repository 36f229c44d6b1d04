//! The web UI over a socket.

pub mod serving;
