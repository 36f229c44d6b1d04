//! The program from end to end, a file for each command or concern.

mod accounts;
mod backup;
mod bounds;
mod diff_files;
mod disk;
mod export;
mod help;
mod keys;
mod killed;
mod malformed;
mod migrating;
mod output;
mod partial;
mod reading;
mod reference;
mod sandbox;
mod strangers;
mod vaults;
