//! A plan as a file.
