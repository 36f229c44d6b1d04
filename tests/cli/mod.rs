//! The program from end to end, a file for each command or concern.

mod accounts;
mod help;
mod output;
mod reference;
