//! How to speak to the service. Only `api::ureq` touches the network; all
//! else is decided here on plain data.

pub mod http;
