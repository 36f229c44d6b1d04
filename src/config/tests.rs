//! Tests of valid configurations and of error messages.

use super::keys::specs;
use super::toml_reader::KeySpec;
use super::*;
use std::time::Duration;

use crate::api::base_url::BaseUrl;
use crate::clock::{Clock as _, Interrupt, SystemClock};

fn home() -> Home {
    Home::at(Path::new("/home"))
}

fn mistakes(text: &str) -> String {
    let problems = Config::parse(&home(), text.as_bytes()).unwrap_err();
    many(Path::new("c.toml"), &problems)
}

/// A file with one valid account and `more` lines in it.
fn account(more: &str) -> String {
    format!("[accounts.main]\nurl = \"https://a.example\"\nkey_env = \"K\"\n{more}")
}

#[test]
fn all_keys_of_an_account_are_read() {
    let text = r#"
        [defaults]
        reserve = 3
        timeouts = { read = "90s" }

        [accounts.main]
        url = "https://links.example.com/"
        key_command = ["pass", "show", "links"]
        schedule = "0 3 * * *"
        timezone = "Europe/Berlin"
        keep = { last = 7, daily = 30, within = "1y6m" }
        stats = "all"
        vault = "elsewhere/main.db"

        [accounts.other]
        url = "http://intranet.example"
        allow_http = true
        key_file = "/run/key"
        reserve = 5
    "#;
    let config = Config::parse(&home(), text.as_bytes()).unwrap();
    let main = config.account("main").unwrap();
    let key = KeySource::Command(["pass", "show", "links"].map(str::to_owned).to_vec());
    let url = BaseUrl::parse("https://links.example.com", false).unwrap();
    assert_eq!(main.place, AccountLocation::Service { url, key, allow_http: false });
    assert_eq!(main.vault, Path::new("/home/elsewhere/main.db"));
    assert_eq!(main.settings.reserve, 3);
    assert_eq!(main.settings.stats, StatisticsSetting::All);
    assert_eq!(main.settings.timezone, Some(chrono_tz::Europe::Berlin));
    assert_eq!(main.settings.timeouts.read.as_secs(), 90);
    assert_eq!(main.settings.keep.unwrap().within.unwrap().to_string(), "1y6m");
    let other = config.account("other").unwrap();
    assert_eq!(other.settings.reserve, 5);
    assert_eq!(other.vault, Path::new("/home/vaults/other.db"));
}

#[test]
fn each_mistake_has_place_key_and_reason() {
    let table: &[(&str, &str)] = &[
        (
            "shedule = \"* * * * *\"",
            "c.toml:4:1: accounts.main.shedule: unknown key; did you mean `schedule`?",
        ),
        ("colour = 1", "c.toml:4:1: accounts.main.colour: unknown key"),
        (
            "reserve = -1",
            "c.toml:4:11: accounts.main.reserve: must be a whole number from 0 to 4294967295",
        ),
        (
            "reserve = \"5\"",
            "c.toml:4:11: accounts.main.reserve: is a string, but must be an integer",
        ),
        (
            "limit = 0",
            "c.toml:4:9: accounts.main.limit: must be a whole number from 1 to 4294967295",
        ),
        (
            "allow_http = 1",
            "c.toml:4:14: accounts.main.allow_http: is an integer, but must be true or false",
        ),
        (
            "timezone = \"Europe/Berln\"",
            "c.toml:4:12: accounts.main.timezone: unknown time zone `Europe/Berln`; did you mean `Europe/Berlin`?",
        ),
        (
            "schedule = \"daily\"",
            "c.toml:4:12: accounts.main.schedule: must have the five fields of crontab (or six, with seconds), such as `0 3 * * *`, but has 1",
        ),
        (
            "stats = \"some\"",
            "c.toml:4:9: accounts.main.stats: must be one of `changed`, `all`, `none`",
        ),
        (
            "keep = {}",
            "c.toml:4:8: accounts.main.keep: is empty; add what to keep, such as { last = 7, monthly = 12 }",
        ),
        (
            "keep = { dayly = 3 }",
            "c.toml:4:10: accounts.main.keep.dayly: unknown key; did you mean `daily`?",
        ),
        (
            "keep = { within = \"soon\" }",
            "c.toml:4:19: accounts.main.keep.within: must be a period such as `7d`, `2w`, `6m` or `1y6m2d12h`",
        ),
        (
            "timeouts = { read = \"0s\" }",
            "c.toml:4:21: accounts.main.timeouts.read: must be longer than 0 seconds",
        ),
        (
            "key_file = \"k\"",
            "c.toml:4:12: accounts.main.key_file: the API key already has a source: `accounts.main.key_env`; keep only one",
        ),
        ("vault = \"\"", "c.toml:4:9: accounts.main.vault: is empty, but must be a path"),
    ];
    for (line, expected) in table {
        assert_eq!(mistakes(&account(line)), *expected, "{line}");
    }
}

#[test]
fn mistakes_of_a_table_are_reported() {
    let table: &[(&str, &str)] = &[
        (
            "[accounts.a]\nkey_env = \"K\"",
            "c.toml:1:1: accounts.a: `url` is missing: the service's address, everything before `/api`",
        ),
        (
            "[accounts.a]\nurl = \"https://a.example\"",
            "c.toml:1:1: accounts.a: the API key has no source; add `key_env`, `key_file` or `key_command`",
        ),
        (
            "[accounts.a]\nurl = \"http://a.example\"\nkey_env = \"K\"",
            "c.toml:2:7: accounts.a.url: plain http would send the key unencrypted; use https, or set allow_http for this account",
        ),
        (
            "[accounts.a]\nurl = \"https://a.example\"\nkey_command = \"pass\"",
            "c.toml:3:15: accounts.a.key_command: is a string, but must be a list of strings, such as [\"pass\", \"show\", \"links\"]",
        ),
        ("[accounts]\na = 1", "c.toml:2:5: accounts.a: is an integer, but must be a table"),
        ("[account.a]", "c.toml:1:2: account: unknown key; did you mean `accounts`?"),
        ("[defaults]\nurl = \"x\"", "c.toml:2:1: defaults.url: unknown key"),
        ("[accounts.a", "c.toml:1:12: unclosed table, expected `]`"),
    ];
    for (text, expected) in table {
        assert_eq!(mistakes(text), *expected, "{text}");
    }
}

#[test]
fn names_of_accounts_are_checked() {
    let named = |name: &str| mistakes(&account("").replace("main", name));
    assert_eq!(
        named("sandbox"),
        "c.toml:1:11: accounts.sandbox: the account `sandbox` is built in; give this one another name"
    );
    assert!(named("\"a/b\"").starts_with("c.toml:1:11: accounts.a/b: an account's name has"));
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let text =
        "[accounts.b]\nreserve = -1\nulr = \"x\"\n[accounts.a]\nurl = 1\n[defaults]\nx = 1\n";
    let lines: Vec<_> = mistakes(text).lines().map(|line| line[7..10].to_owned()).collect();
    assert_eq!(lines, ["1:1", "1:1", "2:1", "3:1", "4:1", "5:7", "7:1"]);
}

#[test]
fn without_a_file_the_sandbox_is_the_only_account() {
    let config = Config::empty(&home());
    assert_eq!(config.account("sandbox").unwrap().place, AccountLocation::Sandbox);
    let nothing = AccountError::NothingConfigured { file: "/home/config.toml".into() };
    assert_eq!(config.account("main").unwrap_err(), nothing);
    assert_eq!(config.select(&[]).unwrap_err(), nothing);
}

#[test]
fn an_unknown_account_suggests_a_similar_name() {
    let config = Config::parse(&home(), account("").as_bytes()).unwrap();
    let Err(AccountError::Unknown { nearest, known, .. }) = config.account("mian") else {
        panic!("found");
    };
    assert_eq!(nearest.as_deref(), Some("main"));
    assert_eq!(known, ["main", "sandbox"]);
}

#[test]
fn an_account_named_twice_is_chosen_once() {
    let config = Config::parse(&home(), account("").as_bytes()).unwrap();
    let names = ["main", "sandbox", "main"].map(str::to_owned);
    let chosen = config.select(&names).unwrap();
    assert_eq!(chosen.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["main", "sandbox"]);
    assert_eq!(config.select(&[]).unwrap().len(), 1, "the sandbox is backed up when named");
}

#[test]
fn no_text_causes_a_panic() {
    for text in
        ["\u{0}", "[[accounts]]", "accounts.x.y.z = 1", "a.b=1\na=2", "\"\"=1", "[accounts.\"\"]"]
    {
        assert!(Config::parse(&home(), text.as_bytes()).is_err(), "{text}");
    }
    assert!(Config::parse(&home(), &[0xff, 0xfe]).is_err());
}

#[test]
fn the_sample_is_valid_and_has_every_key() {
    let text = include_str!("../../examples/config.toml");
    let config = Config::parse(&home(), text.as_bytes()).unwrap();
    assert_eq!(config.accounts().len(), 3);
    assert_eq!(config.daemon.workers, Some(16));
    assert_eq!(config.daemon.listen, parse_listen("0.0.0.0:8080").ok());
    assert_eq!(config.daemon.allow_host, ["backups.example"]);
    assert!(config.daemon.token_file.is_some());
    assert_eq!(config.fleet.slots, 16);
    assert_shown(&specs(), text);
}

fn assert_shown(keys: &[KeySpec], text: &str) {
    for key in keys {
        let forms = ["# = ", "[#]", "[#.", ".#]"].map(|form| form.replace('#', key.name));
        assert!(forms.iter().any(|form| text.contains(form)), "{}", key.name);
        assert_shown(&key.keys, text);
    }
}

#[test]
fn settings_of_the_daemon_are_checked() {
    let text = "[daemon]\nworkers = 0\nlisten = \"here\"\nallow_host = []\ntoken = \"x\"";
    let problems = Config::parse(&home(), text.as_bytes()).unwrap_err();
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["daemon.workers", "daemon.listen", "daemon.allow_host", "daemon.token"]);
    assert_eq!(problems[0].what, "must be a whole number from 1 to 65535");
}

#[test]
fn the_reference_has_the_real_defaults() {
    let Timeouts { connect, read, overall } = Timeouts::default();
    let reference = reference();
    for (name, time) in [("connect", connect), ("read", read), ("overall", overall)] {
        let (_, row) = reference.split_once(&format!("`timeouts.{name}`")).unwrap();
        let documented = row.split_once("default ").unwrap().1.split_once(')').unwrap().0;
        assert_eq!(parse_duration(documented).unwrap(), time, "{name}");
    }
}

#[test]
fn export_copy_and_alerts_are_read_and_inherited() {
    let text = r#"
        [defaults]
        export = { to = "exports" }
        copy = "/srv/copies"
        [defaults.alerts]
        webhook = "https://chat.example/hooks/s3cret"
        secret_env = "S"
        removed = "12.5%"

        [accounts.main]
        url = "https://links.example.com/"
        key_env = "K"
        heartbeat = "https://beat.example/x?y=z"
        [accounts.main.alerts]
        removed = 5
        max_age = "26h"
        command = ["tell"]
    "#;
    let config = Config::parse(&home(), text.as_bytes()).unwrap();
    let settings = &config.account("main").unwrap().settings;
    let export = settings.export.as_ref().unwrap();
    assert_eq!(export.folder, Path::new("/home/exports"));
    assert_eq!(export.format, ExportFormat::Csv);
    assert_eq!(settings.copy.as_deref(), Some(Path::new("/srv/copies")));
    let alerts = &settings.alerts;
    let webhook = alerts.webhook.as_ref().unwrap();
    assert_eq!(webhook.reveal(), "https://chat.example/hooks/s3cret");
    assert_eq!(alerts.secret, Some(KeySource::Variable("S".into())));
    assert_eq!(alerts.removed, crate::model::CountOrPercent::Count(5));
    assert_eq!(alerts.max_age, Some(Duration::from_secs(26 * 3600)));
    assert!(!format!("{config:?}").contains("s3cret"));
}

#[test]
fn mistakes_in_export_heartbeat_and_alerts_are_reported() {
    let more = "heartbeat = \"beat.example\"\nexport = { format = \"xml\" }\n\
                [accounts.main.alerts]\nsecret_env = \"A\"\nsecret_file = \"b\"\n\
                removed = \"many\"\nmax_age = \"0s\"\nwebhooks = \"x\"\n";
    let found = mistakes(&account(more));
    let lines: Vec<_> = found.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    let alerts = |key: &str| format!("accounts.main.alerts.{key}");
    let mut expected = vec![
        "accounts.main.heartbeat".to_owned(),
        "accounts.main.export".to_owned(),
        "accounts.main.export.format".to_owned(),
    ];
    expected.extend(["secret_file", "removed", "max_age", "webhooks"].map(alerts));
    assert_eq!(lines, expected, "{found}");
}

/// The time to read `bytes`, with the number of mistakes.
fn reading_time(text: &str) -> (Duration, usize) {
    let clock = SystemClock::new(Interrupt::default());
    let mistakes = Config::parse(&home(), text.as_bytes()).map_or_else(|them| them.len(), |_| 0);
    (clock.monotonic(), mistakes)
}

/// Each mistake was found by reading all text before it: 40,000 of them took a minute.
#[test]
fn a_long_file_is_read_in_time_whatever_its_mistakes() {
    const MANY: usize = 40_000;
    let unknown: String = (0..MANY).map(|nth| format!("schedul{nth} = 1\n")).collect();
    let nameless: String = (0..MANY).map(|nth| format!("[accounts.a{nth}]\n")).collect();
    let in_one_line: Vec<_> = (0..MANY).map(|nth| format!("k{nth} = 1")).collect();
    let in_one_line = account(&format!("alerts = {{ {} }}\n", in_one_line.join(", ")));
    const FEWER: usize = MANY / 20;
    let zones: String = (0..FEWER)
        .map(|nth| {
            let keys = "url = \"https://a.example\"\nkey_env = \"K\"\ntimezone = \"Europe/Berlim\"";
            format!("[accounts.a{nth}]\n{keys}\n")
        })
        .collect();
    for (text, least) in
        [(account(&unknown), MANY), (nameless, MANY), (in_one_line, MANY), (zones, FEWER)]
    {
        let (time, mistakes) = reading_time(&text);
        assert!(mistakes >= least, "{mistakes}");
        assert!(time < Duration::from_secs(15), "{time:?} for {}…", &text[..60]);
    }
}

#[test]
fn every_account_is_found_by_its_name() {
    let names = ["a.b", "a-b", "a", "B", "z9", "_no"].map(|name| name.trim_start_matches('_'));
    let text: String = names
        .iter()
        .map(|name| {
            format!("[accounts.\"{name}\"]\nurl = \"https://a.example\"\nkey_env = \"K\"\n")
        })
        .collect();
    let config = Config::parse(&home(), text.as_bytes()).unwrap();
    for name in names {
        assert_eq!(config.account(name).unwrap().name, name);
    }
}
