//! Vaults in an object store, with the cargo feature `fleet`.
//!
//! A vault's objects are immutable copies of its file, `<sequence>-<digest>.db.zst`, and `HEAD`,
//! which names the current one and is replaced only by conditional put. A machine works on a local
//! copy of the vault: it fetches the current object before an operation, and puts a new one after
//! an operation that changed the copy. If another machine replaced `HEAD` meanwhile, the put is
//! refused and changes nothing in the store.
//!
//! Reading order: [`head`] the documents · [`decision`] what to do, as pure functions · [`objects`]
//! reads and writes objects: [`mod@bucket`] of a service, [`folder`] in a folder · [`packing`] packs a
//! vault into an object, with [`encryption`] · [`vault_store`] fetches and puts a vault ·
//! [`store_checkpoints`] puts it while it is open · [`local_copies`] bounds the local copies.

pub mod bucket;
pub mod cache;
pub mod decision;
pub mod encryption;
pub mod error;
pub mod fetch_file;
pub mod folder;
pub mod free_space;
pub mod head;
pub mod local_copies;
pub mod object_tag;
pub mod objects;
pub mod packing;
pub mod probe;
pub mod shared_delivery;
pub mod shared_state;
pub mod state_document;
pub mod store_checkpoints;
pub mod takeover;
pub mod vault_store;
