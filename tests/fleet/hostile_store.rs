//! Stores and files that say what is not so: sizes, addresses, the record of a fetch.

use std::fs;
use std::path::Path;

use linkvault::vault::Vault;
use serde_json::json;

use super::folder_store::{Shared, snapshots};
use crate::support::TestEnvironment;

fn refused(machine: &TestEnvironment, message: &str) {
    let before = fs::read(machine.path("vaults/main.db")).ok();
    let refused = machine.run(&["snapshots", "main"]).exits_with(1).stderr_has(message);
    let text = refused.stderr();
    assert_eq!((text.matches("error: ").count(), text.matches("hint: ").count()), (1, 1), "{text}");
    assert_eq!(fs::read(machine.path("vaults/main.db")).ok(), before);
}

#[test]
fn an_object_that_unpacks_to_more_than_it_may_is_refused() {
    let shared = Shared::new();
    shared.machine().run(&["backup", "-q"]).succeeds();
    // 64 MiB of zeros in an object of some thousand bytes.
    shared.write_object(&vec![0; 64 << 20]);
    let size = fs::metadata(shared.object()).unwrap().len();
    for plain_size in [json!(64 << 20), json!(null)] {
        shared.write_head(|head| head["plain_size"] = plain_size);
        refused(&shared.machine(), &format!("has more than {} bytes", size * 1000 + (1 << 20)));
    }
    shared.write_head(|head| head["plain_size"] = json!(4096));
    refused(&shared.machine(), "its content has more than 4096 bytes");
}

#[test]
fn a_false_size_is_refused_before_the_disk_is_full() {
    let shared = Shared::new();
    shared.machine().run(&["backup", "-q"]).succeeds();
    let size = fs::metadata(shared.object()).unwrap().len();
    shared.write_head(|head| head["size"] = json!(size - 1));
    refused(&shared.machine(), &format!("has more than {} bytes", size - 1));
    shared.write_head(|head| head["size"] = json!(size + 1));
    refused(&shared.machine(), "bytes, not");
    if cfg!(unix) {
        for key in ["size", "plain_size"] {
            shared.write_head(|head| {
                head["size"] = json!(size);
                head[key] = json!(1_u64 << 60);
            });
            refused(&shared.machine(), "bytes on the disk, which has");
        }
    }
}

#[test]
fn changes_that_were_lost_twice_are_in_two_files() {
    let shared = Shared::new();
    let [one, other] = [(); 2].map(|()| shared.machine());
    one.run(&["backup", "-q"]).succeeds();
    for name in ["main.db.lost", "main.db.lost.2", "main.db.lost.3"] {
        assert!(snapshots(&other) > 0);
        let mut vault = Vault::open(&other.path("vaults/main.db")).unwrap();
        let mut identity = vault.identity().unwrap().unwrap();
        identity.service.push_str("/x");
        vault.claim(&identity, true).unwrap();
        vault.close().unwrap();
        one.run(&["backup", "-q"]).succeeds();
        other.run(&["snapshots", "main"]).succeeds().stderr_has(&format!("vaults/{name}: another"));
        assert!(Vault::open_read_only(&other.path(&format!("vaults/{name}"))).is_ok());
    }
}

#[test]
fn a_damaged_record_of_a_fetch_is_one_error_and_the_next_fetch_after_it_was_moved_works() {
    let shared = Shared::new();
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    for damaged in ["", "<html>", "{\"base\": 1}"] {
        machine.write("vaults/main.db.fetched", damaged);
        refused(&machine, "main.db.fetched is damaged");
        let hint = machine.run(&["backup"]).exits_with(1);
        hint.stderr_has("hint: move it and the vault beside it away");
    }
    assert_eq!(shared.head()["sequence"], 1);
    fs::remove_file(machine.path("vaults/main.db.fetched")).unwrap();
    fs::rename(machine.path("vaults/main.db"), machine.path("moved.db")).unwrap();
    assert_eq!(snapshots(&machine), 1);
}

#[test]
fn the_local_copy_of_a_vault_at_another_address_is_refused() {
    let (shared, other) = (Shared::new(), Shared::new());
    let [ours, theirs] = [&shared, &other].map(|it| it.objects().display().to_string());
    let machine = shared.machine();
    machine.run(&["backup", "-q"]).succeeds();
    machine.edit("config.toml", &ours, &theirs);
    refused(&machine, &format!("vaults/main.db was made from the vault at file://{ours}"));
    machine.run(&["backup", "-q"]).exits_with(1);
    assert!(!other.objects().join("HEAD").exists());
    // The objects were moved there, and the copy too.
    copy_folder(&shared.objects(), &other.objects());
    refused(&machine, "was made from the vault at");
    fs::rename(machine.path("vaults/main.db"), machine.path("moved.db")).unwrap();
    machine.run(&["backup", "-q"]).succeeds();
    assert_eq!((&shared.head()["sequence"], &other.head()["sequence"]), (&json!(1), &json!(2)));
    // A restored copy replaces whatever was there.
    machine.edit("config.toml", &theirs, &ours);
    refused(&machine, "was made from the vault at");
    machine.run(&["vault", "restore", "moved.db", "--to", "main", "--yes"]).succeeds();
    assert_eq!(snapshots(&machine), 1);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
