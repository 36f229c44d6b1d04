//! The page in a real browser. `.ci/run` installs Chromium and the packages of
//! `package.json` into `target/browser`, and runs this with `--ignored`.
//!
//! `LINKVAULT_BLESS=1` writes the screenshots that stand in the README to `docs/`;
//! `LINKVAULT_PICTURES=FOLDER` writes all of them there.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::api::client::Client;
use linkvault::api::http::Key;
use linkvault::api::pacer::Pacer;
use linkvault::clock::{Clock, Interrupt, SimulatedClock, SystemClock, Timestamp};
use linkvault::crawl::{self, Options};
use linkvault::model::Resource;
use linkvault::progress::Silent;
use linkvault::sandbox::lifelike::lifelike;
use linkvault::sandbox::{Behaviour, SandboxTransport, Service, Store};
use linkvault::vault::Vault;
use serde_json::Value;

use crate::support::TestEnvironment;

const DAY: Duration = Duration::from_secs(86_400);

/// What stands in the README.
const SHOWN: [&str; 4] = [
    "page-overview-light-desk.png",
    "page-account-light-desk.png",
    "page-account-dark-desk.png",
    "page-account-light-phone.png",
];

/// A vault with a backup of each of `days` days, the last of them an hour ago.
fn lived(vault: &Path, days: u32, scope: &[Resource], day: impl Fn(u32, &mut Store)) {
    let now = SystemClock::new(Interrupt::default()).now();
    let past = i64::try_from((DAY * (days - 1)).as_millis()).unwrap();
    let begin = Timestamp(now.0 - 3_600_000 - past);
    let clock: Arc<dyn Clock> = Arc::new(SimulatedClock::new(begin));
    let key = Key::new("any");
    let service = Service::new(lifelike(begin), key.clone(), Behaviour::default());
    let service = Arc::new(Mutex::new(service.with_log_limit(0)));
    let transport = SandboxTransport::new(Arc::clone(&service), Arc::clone(&clock))
        .with_latency(Duration::from_millis(150));
    let mut client =
        Client::new(Box::new(transport), Arc::clone(&clock), Pacer::new(2)).with_key(key);
    let mut vault = Vault::open_or_create(vault).unwrap();
    for nth in 0..days {
        service.lock().unwrap().mutate(|store| day(nth, store));
        let options = Options { scope: scope.to_vec(), ..Options::new("https://links.example") };
        crawl::crawl(&mut client, &mut vault, &*clock, &Silent, &options).unwrap();
        let next = begin.plus(DAY * (nth + 1));
        clock.sleep(next.since(clock.now()));
    }
    vault.close().unwrap();
}

/// What somebody does with an account in the course of time.
fn work(day: u32, store: &mut Store) {
    if day % 3 == 1 {
        store.add_campaign(&format!("Week {}: new arrivals", day / 3 + 1), None, day % 2 == 0);
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
    for (name, schedule) in [("main", "0 3 * * *"), ("shop", "30 4 * * *"), ("later", "0 5 * * 1")] {
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
    lived(&vault("main"), 45, &Resource::ALL, work);
    let some: Vec<_> =
        Resource::ALL.into_iter().filter(|it| *it != Resource::Pixels).collect();
    lived(&vault("shop"), 3, &some, |day, store| {
        if day == 1 {
            store.add_campaign("<script>alert(1)</script> \u{202e}\"><img onerror=x>", None, true);
        }
    });
    environment
}

#[test]
#[ignore = "needs Chromium and packages for Node; .ci/run has them"]
fn the_page_is_sound_in_a_browser_in_both_themes_and_sizes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let environment = home();
    let mut command = environment.command(&["ui", "--listen", "127.0.0.1:0", "--json"]);
    let mut page = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(page.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let pictures = std::env::var("LINKVAULT_PICTURES").map_or_else(
        |_| environment.path("pictures"),
        |folder| Path::new(&folder).to_owned(),
    );
    std::fs::create_dir_all(&pictures).unwrap();
    let output = Command::new("node")
        .arg(root.join("tests/browser/look.mjs"))
        .arg(told["url"].as_str().unwrap())
        .arg(root.join("target/browser"))
        .arg(&pictures)
        .output();
    let _ = page.kill();
    let _ = page.wait();
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
