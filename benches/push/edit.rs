//! One edited record: the requests of the real program, from the plan to the verified result.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use linkvault::api::http::ApiKey;
use linkvault::clock::{Clock as _, Interrupt, SystemClock};
use linkvault::sandbox::sample_account::sample_account;
use linkvault::sandbox::{Behaviour, SandboxService};

use crate::creates::KEY;

/// The requests of `apply` of an export with one renamed campaign of the sample account.
pub fn requests(home: &Path) -> u64 {
    let store = sample_account(SystemClock::new(Interrupt::default()).now());
    let behaviour = Behaviour::parse("rate-limit=none").unwrap();
    let service = SandboxService::new(store, ApiKey::new(KEY), behaviour).with_log_limit(0);
    let service = Arc::new(Mutex::new(service));
    let (server, url) = crate::serve_account(Arc::clone(&service));
    std::fs::create_dir_all(home).unwrap();
    let config = format!("[accounts.main]\nurl = \"{url}\"\nkey_env = \"LINKS_KEY\"\n");
    std::fs::write(home.join("config.toml"), config).unwrap();
    let run = |arguments: &[&str]| {
        let before = service.lock().unwrap().totals().handled;
        let output = Command::new(env!("CARGO_BIN_EXE_linkvault"))
            .args(arguments)
            .env("LINKVAULT_HOME", home)
            .env("LINKS_KEY", KEY)
            .current_dir(home)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        service.lock().unwrap().totals().handled - before
    };
    run(&["backup", "main"]);
    run(&["export", "main", "--to", "sheets"]);
    let file = home.join("sheets/campaigns.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("Summer Sale").count(), 1);
    std::fs::write(&file, text.replace("Summer Sale", "Autumn Sale")).unwrap();
    let requests = run(&["apply", "sheets", "--to", "main", "--yes"]);
    let renamed = service.lock().unwrap().store().campaigns.get(4).unwrap().name == "Autumn Sale";
    assert!(renamed);
    server.stop();
    requests
}
