//! The program with a vault whose objects are encrypted.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;

use age::secrecy::ExposeSecret as _;
use age::x25519;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::folder_store::snapshots;
use super::s3_servers::{S3Server, answering, create_bucket, refusal};
use crate::support::{LiveService, TestEnvironment};

/// A new identity, as `age-keygen` writes it.
pub fn new_identity() -> (String, x25519::Identity) {
    let identity = x25519::Identity::generate();
    let secret = identity.to_string().expose_secret().to_owned();
    (format!("# public key: {}\n{secret}\n", identity.to_public()), identity)
}

fn secret(identity: &x25519::Identity) -> String {
    identity.to_string().expose_secret().to_owned()
}

/// A folder with the vault of one account.
struct Shared {
    folder: TempDir,
    service: LiveService,
}

impl Shared {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), service: LiveService::start("", "") }
    }

    fn objects(&self) -> PathBuf {
        self.folder.path().join("main")
    }

    /// A machine with these keys in `[fleet]`.
    fn machine(&self, fleet: &str) -> TestEnvironment {
        let vault = format!("vault = \"file://{}\"\n[fleet]\n{fleet}\n", self.objects().display());
        TestEnvironment::new().account_with(&self.service.url(), &vault)
    }

    /// A machine with this identity.
    fn machine_of(&self, identity: &str) -> TestEnvironment {
        let machine = self.machine("identity_file = \"worker.age\"");
        machine.file("worker.age", identity).mode("worker.age", 0o600)
    }

    fn head(&self) -> Value {
        serde_json::from_slice(&fs::read(self.objects().join("HEAD")).unwrap()).unwrap()
    }

    fn write_head(&self, change: impl FnOnce(&mut Value)) {
        let mut head = self.head();
        change(&mut head);
        fs::write(self.objects().join("HEAD"), head.to_string()).unwrap();
    }

    /// The file of the current object.
    fn object(&self) -> PathBuf {
        let head = self.head();
        let (sequence, digest) = (head["sequence"].as_u64().unwrap(), &head["digest"]);
        let suffix = if head["encrypted"] == json!(true) { ".age" } else { "" };
        let name = format!("{sequence:010}-{}.db.zst{suffix}", digest.as_str().unwrap());
        self.objects().join(name)
    }
}

#[test]
fn machines_with_the_identity_share_an_encrypted_vault() {
    let shared = Shared::new();
    let (file, identity) = new_identity();
    let one = shared.machine_of(&file);
    let other = shared.machine("identity_command = [\"sh\", \"-c\", \"cat $WORKER_IDENTITY\"]");
    let other = other.file("other.age", &file);
    let at = other.path("other.age").display().to_string();
    let other = other.variable("WORKER_IDENTITY", &at);
    one.run(&["backup", "-q"]).succeeds().stderr_is("");
    other.run(&["backup", "-q"]).succeeds().stderr_is("");
    assert_eq!((snapshots(&one), snapshots(&other)), (2, 2));
    one.run(&["check"]).succeeds();
    let head = shared.head();
    assert_eq!((&head["format"], &head["encrypted"]), (&json!(2), &json!(true)));
    // The object can be read without linkvault, and has the digest of the vault in it.
    let object = fs::read(shared.object()).unwrap();
    assert!(object.starts_with(b"age-encryption.org/v1\n-> X25519 "));
    let packed = age::decrypt(&identity, &object).unwrap();
    let mut vault = Vec::new();
    zstd::Decoder::new(&packed[..]).unwrap().read_to_end(&mut vault).unwrap();
    let digest: String = Sha256::digest(&vault).iter().map(|it| format!("{it:02x}")).collect();
    assert_eq!(head["digest"], json!(digest));
    assert_eq!(head["plain_size"], json!(vault.len()));
    // No object is left as plain text, and the identity is only in its file.
    for entry in fs::read_dir(shared.objects()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(16).any(|it| it == b"SQLite format 3\0"));
    }
    let hidden = secret(&identity);
    for (path, bytes) in one.files() {
        let found = bytes.windows(hidden.len()).any(|it| it == hidden.as_bytes());
        assert_eq!(found, path.ends_with("worker.age"), "{path:?}");
    }
}

#[test]
fn a_machine_without_the_identity_is_refused_and_overwrites_nothing() {
    let shared = Shared::new();
    let (file, _) = new_identity();
    let machine = shared.machine_of(&file);
    machine.run(&["backup", "-q"]).succeeds();
    let before = shared.head();
    let (wrong, _) = new_identity();
    let cases = [
        (shared.machine(""), "is encrypted, and this machine has no identity"),
        (shared.machine_of(&wrong), "is encrypted to another identity, or damaged"),
    ];
    for (other, message) in cases {
        for command in ["snapshots", "backup"] {
            let refused = other.run(&[command, "main", "-q"]).exits_with(1).stderr_has(message);
            assert_eq!(refused.stderr().matches("error: ").count(), 1, "{}", refused.stderr());
            refused
                .stderr_has("cannot fetch the vault of main at file:///")
                .stderr_has("hint: name the identity that encrypted it with `identity_file`");
        }
        assert!(!other.path("vaults/main.db").exists());
    }
    // A machine whose local copy is current, and that lost its identity.
    let config = machine.text("config.toml").replace("identity_file", "# identity_file");
    machine.write("config.toml", &config);
    machine.run(&["backup", "-q"]).exits_with(1).stderr_has("this machine has no identity");
    assert_eq!(shared.head(), before);
}

#[test]
fn a_plain_vault_is_encrypted_by_the_next_put_and_a_restored_copy_is_plain_again() {
    let shared = Shared::new();
    let plain = shared.machine("");
    plain.run(&["backup", "-q"]).succeeds();
    assert_eq!((&shared.head()["format"], &shared.head()["encrypted"]), (&json!(1), &Value::Null));
    let (file, _) = new_identity();
    let machine = shared.machine_of(&file);
    for sequence in [2, 3] {
        machine.run(&["backup", "-q"]).succeeds();
        let head = shared.head();
        assert_eq!((&head["sequence"], &head["encrypted"]), (&json!(sequence), &json!(true)));
    }
    let names = fs::read_dir(shared.objects()).unwrap().flatten();
    let names: Vec<_> = names.map(|it| it.file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".zst")), "{names:?}");
    plain.run(&["backup", "-q"]).exits_with(1);
    fs::copy(machine.path("vaults/main.db"), plain.path("copy.db")).unwrap();
    let restored = plain.run(&["vault", "restore", "copy.db", "--to", "main", "--yes"]);
    restored.succeeds().stderr_has("this machine has no identity");
    assert_eq!(shared.head()["encrypted"], Value::Null);
    assert_eq!((snapshots(&plain), snapshots(&machine)), (3, 3));
}

#[test]
fn a_replaced_key_reads_the_objects_of_the_one_before() {
    let shared = Shared::new();
    let ((old, _), (new, _)) = (new_identity(), new_identity());
    shared.machine_of(&old).run(&["backup", "-q"]).succeeds();
    shared.machine_of(&format!("{new}{old}")).run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&shared.machine_of(&new)), 2);
}

#[test]
fn a_damaged_encrypted_object_is_one_error_and_the_local_copy_stays() {
    let shared = Shared::new();
    let (file, _) = new_identity();
    let [one, other] = [(); 2].map(|()| shared.machine_of(&file));
    one.run(&["backup", "-q"]).succeeds();
    assert_eq!(snapshots(&other), 1);
    one.run(&["backup", "-q"]).succeeds();
    let (head, object) = (fs::read(shared.objects().join("HEAD")).unwrap(), shared.object());
    let whole = fs::read(&object).unwrap();
    let before = fs::read(other.path("vaults/main.db")).unwrap();
    let refused = |message: &str| {
        let refused = other.run(&["snapshots", "main"]).exits_with(1).stderr_has(message);
        assert_eq!(refused.stderr().matches("error: ").count(), 1, "{}", refused.stderr());
        assert_eq!(fs::read(other.path("vaults/main.db")).unwrap(), before, "{message}");
        fs::write(shared.objects().join("HEAD"), &head).unwrap();
        fs::write(&object, &whole).unwrap();
    };
    for at in [0, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&object, &flipped).unwrap();
        refused("damaged");
    }
    shared.write_head(|head| head["format"] = json!(1));
    refused("HEAD has an encrypted object in an older format");
    shared.write_head(|head| head["plain_size"] = json!(head["plain_size"].as_u64().unwrap() - 1));
    refused("is damaged: its content has more than");
    assert_eq!(snapshots(&other), 2);
}

#[test]
fn each_unusable_identity_is_one_error_before_a_request() {
    let shared = Shared::new();
    let (file, identity) = new_identity();
    let hidden = secret(&identity);
    let wrong = file.replace(&hidden, &hidden[..hidden.len() - 1]);
    let command = |script: &str| {
        let words = json!(["sh", "-c", script]);
        shared.machine(&format!("identity_command = {words}"))
    };
    let cases = [
        (shared.machine("identity_file = \"missing\""), "cannot read the identity file"),
        (shared.machine_of(""), "is empty; it should hold the identity"),
        (shared.machine_of("one word"), "does not hold an age identity"),
        (shared.machine_of(&wrong), "cannot use the identity: the identity is not valid"),
        (
            shared.machine_of("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n"),
            "is encrypted with a passphrase",
        ),
        (command(&format!("echo {hidden}; echo {hidden} >&2; exit 3")), "failed (exit code 3)"),
        (command("true"), "the output of the identity command `sh` is empty"),
        (
            shared.machine("identity_command = [\"no-such-program\"]"),
            "cannot run the identity command `no-such-program`",
        ),
    ];
    for (machine, message) in cases {
        for verbose in ["-q", "-vv"] {
            let failed = machine.run(&["backup", verbose]);
            assert_eq!(failed.stderr().matches("error: ").count(), 1, "{}", failed.stderr());
            let text = String::from_utf8(failed.stderr_has(message).bytes()).unwrap();
            assert!(!text.contains(&hidden[20..50]), "{text}");
        }
        let vaults = [shared.objects().join("HEAD"), machine.path("vaults/main.db")];
        assert!(!vaults.iter().any(|it| it.exists()));
    }
    assert_eq!(shared.service.request_count(), 0);
    let readable = shared.machine_of(&file).mode("worker.age", 0o644);
    readable.run(&["backup", "-q"]).succeeds().stderr_has("worker.age");
}

#[test]
fn machines_share_an_encrypted_vault_on_an_s3_server() {
    let Some(server) = S3Server::moto() else { return };
    let service = LiveService::start("", "");
    create_bucket(&server.url, "vaults");
    let (file, identity) = new_identity();
    let machine = |endpoint: &str| {
        let more = "vault = \"s3://vaults/prefix/main\"\n[fleet]\nidentity_file = \"worker.age\"\n";
        TestEnvironment::new()
            .account_with(&service.url(), more)
            .file("worker.age", &file)
            .mode("worker.age", 0o600)
            .variable("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
            .variable("AWS_SECRET_ACCESS_KEY", "s3cr3t-0f-the-st0re")
            .variable("AWS_REGION", "us-east-1")
            .variable("AWS_ENDPOINT_URL", endpoint)
    };
    let [one, other] = [(); 2].map(|()| machine(&server.url));
    one.run(&["backup", "-q"]).succeeds().stderr_is("");
    other.run(&["backup", "-q"]).succeeds();
    assert_eq!((snapshots(&one), snapshots(&other)), (2, 2));
    // A server that repeats the identity in its error.
    let hidden = secret(&identity);
    let answer = refusal("403 Forbidden", "AccessDenied", &format!("Access Denied {hidden}"));
    let refused = machine(&answering(move |_| answer.clone())).run(&["backup", "-vv"]);
    let text = String::from_utf8(refused.stderr_has("Access Denied [redacted]").bytes()).unwrap();
    assert!(!text.contains(&hidden), "{text}");
}
