//! Copies of a vault that only their recipients can read.

use std::fs;
use std::sync::{Arc, Mutex};

use age::x25519;
use linkvault::change::plan::Plan;
use linkvault::clock::{SimulatedClock, Timestamp};
use linkvault::config::{Config, Home};
use linkvault::ops::post_backup::post_backup;
use linkvault::ops::{Env, Events, NoEvents, OpError};
use linkvault::progress::Progress;
use linkvault::vault::Vault;

use super::encrypted_store::new_identity;
use crate::support::{LiveService, TestEnvironment};

/// The warnings of an operation.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Events for Warnings {
    fn warning(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn note(&self, text: &str) {
        NoEvents.note(text);
    }

    fn progress(&self, account: &str) -> Arc<dyn Progress + Send + Sync> {
        NoEvents.progress(account)
    }

    fn catch_interrupts(&self) {}

    fn planned(&self, plan: &Plan, is_answer: bool) -> Result<(), OpError> {
        NoEvents.planned(plan, is_answer)
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        NoEvents.confirm(question)
    }
}

const DONE: (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());

struct Setup {
    service: LiveService,
    environment: TestEnvironment,
    identity: x25519::Identity,
}

impl Setup {
    fn new() -> Self {
        let service = LiveService::start("", "");
        let environment = TestEnvironment::new().account(&service.url());
        let (_, identity) = new_identity();
        let setup = Self { service, environment, identity };
        setup.encrypt(true);
        setup
    }

    fn encrypt(&self, encrypt: bool) {
        let recipients = format!("encrypt_to = [\"{}\"]", self.identity.to_public());
        let text = format!(
            "[accounts.main]\nurl = \"{}\"\nkey_env = \"LINKS_KEY\"\ncopy = \"copies\"\n\
             [fleet]\n{}\n",
            self.service.url(),
            if encrypt { recipients } else { String::new() }
        );
        self.environment.write("config.toml", &text);
    }

    /// A backup, and the work after it. Returns its failures and warnings.
    fn back_up(&self) -> (Vec<String>, Vec<String>) {
        self.environment.run(&["backup", "-q"]).succeeds();
        let home = Home::at(&self.environment.path(""));
        let account = Config::load(&home).unwrap().account("main").unwrap();
        let clock = Arc::new(SimulatedClock::new(Timestamp(1_800_000_000_000)));
        let warnings = Arc::new(Warnings::default());
        let env = Env::new(clock, Arc::clone(&warnings) as _).with_home(home);
        let failures = post_backup(&env, &account).into_iter().map(|it| it.message).collect();
        (failures, warnings.0.lock().unwrap().clone())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let found = fs::read_dir(self.environment.path(folder)).unwrap().flatten();
        let mut names: Vec<_> = found.map(|it| it.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Decrypts the copy to `main-copy.db`. Returns the number of its snapshots.
    fn decrypt(&self) -> usize {
        let copy = fs::read(self.environment.path("copies/main.db.age")).unwrap();
        let plain = age::decrypt(&self.identity, &copy).unwrap();
        let file = self.environment.path("main-copy.db");
        fs::write(&file, plain).unwrap();
        let mut vault = Vault::open_read_only(&file).unwrap();
        assert_eq!(vault.check().unwrap().problems, [""; 0]);
        vault.snapshots().unwrap().len()
    }
}

#[test]
fn an_encrypted_copy_is_read_by_its_recipient_and_restored() {
    let setup = Setup::new();
    let environment = &setup.environment;
    // The copy of a process that was killed.
    for folder in ["vaults", "copies"] {
        fs::create_dir(environment.path(folder)).unwrap();
    }
    environment.write("vaults/.main.db.copy.part-x", "SQLite format 3");
    environment.write("copies/.main.db.age.part-x", "age-encryption.org/v1");
    assert_eq!(setup.back_up(), DONE);
    assert_eq!(setup.names("copies"), ["main.db.age"]);
    let left = setup.names("vaults");
    assert!(!left.iter().any(|name| name.contains("copy")), "{left:?}");
    assert_eq!(setup.decrypt(), 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(environment.path("copies/main.db.age")).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }
    environment.run(&["vault", "restore", "main-copy.db", "--to", "main", "--yes"]).succeeds();
    let restore = ["vault", "restore", "copies/main.db.age", "--to", "main", "--yes"];
    environment.run(&restore).exits_with(1).stderr_has("hint: it is encrypted; decrypt it with");
    // The copy after a forget has no forgotten snapshot.
    assert_eq!(setup.back_up(), DONE);
    assert_eq!(setup.decrypt(), 2);
    environment.run(&["forget", "main", "--keep-last", "1", "--yes"]).succeeds();
    assert_eq!(setup.decrypt(), 1);
    assert_eq!(setup.names("copies"), ["main.db.age"]);
}

#[test]
fn a_copy_of_the_other_kind_is_left_with_a_warning() {
    let setup = Setup::new();
    setup.encrypt(false);
    assert_eq!(setup.back_up(), DONE);
    let plain = fs::read(setup.environment.path("copies/main.db")).unwrap();
    setup.encrypt(true);
    let warning = "copies/main.db is a copy that is not encrypted and no longer renewed; remove it";
    let (failures, warnings) = setup.back_up();
    assert_eq!(failures, [""; 0]);
    assert!(warnings.len() == 1 && warnings[0].ends_with(warning), "{warnings:?}");
    assert_eq!(setup.names("copies"), ["main.db", "main.db.age"]);
    assert_eq!(fs::read(setup.environment.path("copies/main.db")).unwrap(), plain);
    let forget = ["forget", "main", "--keep-last", "1", "--yes"];
    setup.environment.run(&forget).succeeds().stderr_has(warning);
    assert_eq!(fs::read(setup.environment.path("copies/main.db")).unwrap(), plain);
    setup.encrypt(false);
    let (_, warnings) = setup.back_up();
    let warning = "copies/main.db.age is a copy that is encrypted and no longer renewed; remove it";
    assert!(warnings.len() == 1 && warnings[0].ends_with(warning), "{warnings:?}");
}

#[test]
fn a_copy_that_cannot_be_written_leaves_the_one_before_and_no_plain_file() {
    let setup = Setup::new();
    let environment = &setup.environment;
    assert_eq!(setup.back_up(), DONE);
    let before = fs::read(environment.path("copies/main.db.age")).unwrap();
    fs::rename(environment.path("copies"), environment.path("moved")).unwrap();
    environment.write("copies", "a file");
    let (failures, _) = setup.back_up();
    assert!(failures[0].starts_with("the vault was not copied: "), "{failures:?}");
    let left = setup.names("vaults");
    assert!(!left.iter().any(|name| name.contains("copy")), "{left:?}");
    assert_eq!(fs::read(environment.path("moved/main.db.age")).unwrap(), before);
}
