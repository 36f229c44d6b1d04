//! Fuzz targets of linkvault. `tests/fuzz.rs` of the main package runs the same
//! targets with its own mutations; `src/afl.rs` runs them under AFL++.

pub mod targets;
