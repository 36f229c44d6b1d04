//! The program from end to end, a file for each command or concern.

mod accounts;
mod applying;
mod backup;
mod bounds;
mod diff_files;
mod disk;
mod export;
mod guards;
mod help;
mod importing;
mod keys;
mod killed;
mod malformed;
mod migrating;
mod output;
mod partial;
mod reading;
mod reference;
mod rehearsing;
mod resuming;
mod sandbox;
mod saved_plans;
mod strangers;
mod traces;
mod undoing;
mod vaults;
