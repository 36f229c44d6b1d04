//! Vaults in object stores.
//!
//! - `two_machines` simulates machines that share a vault, in a `faulty_store`.
//! - `folder_store` runs the program with a vault in a folder.
//! - `s3_servers` starts S3 servers for `s3_store`, which runs the program with vaults there.

mod faulty_store;
mod folder_store;
mod s3_servers;
mod s3_store;
mod two_machines;
