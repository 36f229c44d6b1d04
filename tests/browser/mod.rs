//! The web UI in a real browser. `.ci/run` installs Chromium and the packages of
//! `package.json` into `target/browser`, and runs this with `--ignored`.
//!
//! `LINKVAULT_BLESS=1` writes the screenshots of the documentation to `docs/`;
//! `LINKVAULT_PICTURES=FOLDER` writes all of them there.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use linkvault::sandbox::Store;
use serde_json::Value;

use crate::support::{TestEnvironment, vault_with_history};

/// The screenshots of README.md and `docs/daemon.md`.
const SHOWN: [&str; 4] = [
    "page-overview-light-desk.png",
    "page-account-light-desk.png",
    "page-account-dark-desk.png",
    "page-account-light-phone.png",
];

/// A history of commands on one account.
fn work(day: u32, store: &mut Store) {
    for (id, code) in store.qr_codes.iter_mut() {
        // Busy on weekends, and more so from week to week.
        let busy = if day % 7 >= 5 { 3 } else { 1 };
        code.scans.base += busy * (4 + u64::from(day) / 2 + id * 7 % 5 + u64::from(day) * 11 % 6);
        code.scans.period = 0;
    }
    if day % 3 == 1 {
        store.add_campaign(
            &format!("Week {}: new arrivals", day / 3 + 1),
            None,
            day.is_multiple_of(2),
        );
    }
    if day == 20 {
        store.channels.get_mut(2).unwrap().name = "Social media".to_owned();
    }
    if day == 30 {
        store.remove_qr(3);
    }
    if day == 44 {
        store.channels.get_mut(4).unwrap().name = "Schools & libraries".to_owned();
        store.channels.get_mut(1).unwrap().starred = false;
    }
}

/// A home with accounts that fare in different ways.
fn home() -> TestEnvironment {
    let environment = TestEnvironment::new();
    let mut config = String::new();
    for (name, schedule) in [("main", "0 3 * * *"), ("shop", "30 4 * * *"), ("later", "0 5 * * 1")]
    {
        config += &format!(
            "[accounts.{name}]\nurl = \"https://links.example\"\nkey_env = \"LINKS_KEY\"\n\
             schedule = \"{schedule}\"\nlimit = 30\n"
        );
    }
    let environment = environment.config(&config);
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.write("channels.csv", "id,name\n1,Shop windows\n,Trade fairs\n");
    let import = ["import", "channels.csv", "--to", "sandbox", "--yes", "-q"];
    environment.run(&import).succeeds();
    let vault = |name: &str| environment.path("vaults").join(format!("{name}.db"));
    vault_with_history(&vault("main"), 45, "", work);
    vault_with_history(&vault("shop"), 3, "html@/api/pixels", |day, store| {
        if day == 1 {
            store.add_campaign("<script>alert(1)</script> \u{202e}\"><img onerror=x>", None, true);
        }
    });
    environment
}

/// `linkvault ui` on a port of its own, and its URL.
fn started(environment: &TestEnvironment, more: &[&str]) -> (Child, String) {
    let all = [&["ui", "--listen", "127.0.0.1:0", "--json"], more].concat();
    let mut command = environment.command(&all);
    let mut page = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(page.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    (page, told["url"].as_str().unwrap().to_owned())
}

#[test]
#[ignore = "needs Chromium and packages for Node; .ci/run has them"]
fn the_ui_works_in_a_browser_in_both_themes_and_sizes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let environment = home();
    let environment =
        environment.file("page.token", "open-sesame-of-the-page").mode("page.token", 0o600);
    let (mut page, url) = started(&environment, &[]);
    let (mut locked, locked_url) = started(&environment, &["--token-file", "page.token"]);
    let pictures = std::env::var("LINKVAULT_PICTURES")
        .map_or_else(|_| environment.path("pictures"), |folder| Path::new(&folder).to_owned());
    std::fs::create_dir_all(&pictures).unwrap();
    let output = Command::new("node")
        .arg(root.join("tests/browser/look.mjs"))
        .args([url, locked_url])
        .arg(root.join("target/browser"))
        .arg(&pictures)
        .output();
    for page in [&mut page, &mut locked] {
        let _ = page.kill();
        let _ = page.wait();
    }
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}{error}");
    println!("{told}");
    if std::env::var_os("LINKVAULT_BLESS").is_some() {
        for name in SHOWN {
            std::fs::copy(pictures.join(name), root.join("docs").join(name)).unwrap();
        }
    }
}
