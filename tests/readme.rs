//! The README, held against the program.
