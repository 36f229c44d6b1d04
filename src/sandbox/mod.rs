//! A service of our own that speaks the whole API: for trying, testing and rehearsing.
