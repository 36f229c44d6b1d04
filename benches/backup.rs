//! What a backup costs, against the least that it could.

fn main() {}
