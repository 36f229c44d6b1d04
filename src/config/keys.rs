//! The keys of the configuration file. Each is declared where it is read: name, type, description
//! and the check of its value.

use std::fmt::Write as _;
use std::path::Path;

use toml::de::DeTable;

use crate::config::account::{AccountConfig, AccountLocation};
use crate::config::document;
use crate::config::fleet_settings::{FleetSettings, fleet};
use crate::config::home::Home;
use crate::config::key_source::KeySource;
use crate::config::problem::ConfigProblem;
use crate::config::settings::{
    AccountSettings, AlertSettings, DaemonSettings, ExportFormat, ExportSettings, RetentionRules,
    StatisticsSetting, Timeouts,
};
use crate::config::toml_reader::{KeySpec, TomlEntry, TomlReader, TomlTable};
use crate::config::values::{
    base_url, hook, nonzero_duration, one_of, parse_account_name, parse_duration, parse_listen,
    parse_period, parse_timezone, schedule, variable,
};
use crate::config::vault_address::parse_vault_address;
use crate::model::Resource;

/// The content of a configuration file.
pub(super) struct ConfigFile {
    /// Sorted by name.
    pub(super) accounts: Vec<AccountConfig>,
    pub(super) defaults: AccountSettings,
    pub(super) daemon: DaemonSettings,
    pub(super) fleet: FleetSettings,
}

/// Reads a configuration file.
pub(super) fn read(home: &Home, bytes: &[u8]) -> Result<ConfigFile, Vec<ConfigProblem>> {
    let text = document::text(bytes).map_err(|problem| vec![problem])?;
    let reader = TomlReader::new(text, home);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.problem(error.span().unwrap_or(0..0), "", error.message());
    }
    if !errors.is_empty() {
        // After a syntax error the other values are guesses, so they are not checked.
        return Err(reader.finish());
    }
    let (file, _) = reader.document(Some(table.get_ref()), |root| file(home, root));
    let problems = reader.finish();
    if problems.is_empty() { Ok(file) } else { Err(problems) }
}

/// The declarations of all keys.
pub(super) fn specs() -> Vec<KeySpec> {
    let home = Home::at(Path::new(""));
    TomlReader::new("", &home).document(None, |root| file(&home, root)).1
}

/// The reference of `config.toml` as Markdown: every key with its type and meaning.
#[must_use]
pub fn reference() -> String {
    let mut text = String::new();
    let specs = specs();
    let mut listed: Vec<&str> = Vec::new();
    for table in &specs {
        let name = if table.kind == "tables" { ".NAME" } else { "" };
        let _ = write!(
            text,
            "\n`[{}{name}]`: {}\n\n| Key | Value | Meaning |\n|---|---|---|\n",
            table.name, table.about
        );
        for key in table.keys.iter().filter(|key| !listed.contains(&key.name)) {
            rows(&mut text, "", key);
        }
        listed.extend(table.keys.iter().map(|key| key.name));
    }
    text
}

fn rows(text: &mut String, prefix: &str, key: &KeySpec) {
    let _ = writeln!(text, "| `{prefix}{}` | {} | {} |", key.name, key.kind, key.about);
    for inner in &key.keys {
        rows(text, &format!("{prefix}{}.", key.name), inner);
    }
}

fn file(home: &Home, root: &TomlTable<'_, '_>) -> ConfigFile {
    let about = "values for every account that does not set its own";
    let defaults = root
        .table("defaults", about, |table| settings(table, AccountSettings::default()))
        .unwrap_or_default();
    let about = "an account; it may also set each key of `[defaults]`";
    let accounts = root.tables("accounts", about, parse_account_name, |name, table| {
        account(home, name, table, &defaults)
    });
    let about = "the daemon itself, read when it starts";
    let daemon = root.table("daemon", about, daemon).unwrap_or_default();
    let about = "this machine as a part of a fleet, and its object stores";
    let fleet = root.table("fleet", about, fleet).unwrap_or_default();
    ConfigFile { accounts, defaults, daemon, fleet }
}

fn account(
    home: &Home,
    name: &str,
    table: &TomlTable<'_, '_>,
    defaults: &AccountSettings,
) -> Option<AccountConfig> {
    let place = place(table);
    let about = "the vault's file (default `vaults/NAME.db`), or its address in an object store, \
                 such as `s3://bucket/prefix/NAME`";
    let entry = table.key("vault", "path or address", about);
    let (vault, store) = match &entry {
        Some(entry) if entry.is_address() => (None, entry.checked(parse_vault_address)),
        entry => (entry.as_ref().and_then(|entry| entry.path()), None),
    };
    let vault = vault.unwrap_or_else(|| home.vault_file(name));
    let settings = settings(table, defaults.clone());
    Some(AccountConfig { name: name.to_owned(), place: place?, vault, store, settings })
}

fn place(table: &TomlTable<'_, '_>) -> Option<AccountLocation> {
    let url = table.key("url", "string", "the service's address, everything before `/api`");
    if url.is_none() {
        table.problem("`url` is missing: the service's address, everything before `/api`");
    }
    let key = key_source(table);
    let allow_http = table
        .key("allow_http", "boolean", "whether the API key may travel unencrypted (default false)")
        .and_then(|entry| entry.boolean())
        .unwrap_or_default();
    let url = url.and_then(|entry| entry.checked(|text| base_url(text, allow_http)));
    Some(AccountLocation::Service { url: url?, key: key?, allow_http })
}

/// Exactly one of the three sources of a key.
fn key_source(table: &TomlTable<'_, '_>) -> Option<KeySource> {
    let sources = [
        table.key("key_env", "string", "the environment variable that holds the API key"),
        table.key("key_file", "path", "the file that holds the API key"),
        table.key(
            "key_command",
            "list of strings",
            "the program that prints the API key, run without a shell",
        ),
    ];
    let mut given = sources.iter().flatten();
    let Some(first) = given.next() else {
        table.problem("the API key has no source; add `key_env`, `key_file` or `key_command`");
        return None;
    };
    let mut clash = false;
    for other in given {
        other.problem(format!("the API key already has a source: `{}`; keep only one", first.key));
        clash = true;
    }
    let source = match &sources {
        [Some(name), ..] => name.checked(variable).map(KeySource::Variable),
        [_, Some(file), _] => file.path().map(KeySource::File),
        _ => first.words().map(KeySource::Command),
    };
    source.filter(|_| !clash)
}

fn settings(table: &TomlTable<'_, '_>, base: AccountSettings) -> AccountSettings {
    AccountSettings {
        schedule: table
            .text("schedule", "when the daemon backs up, in crontab syntax", schedule)
            .or(base.schedule),
        timezone: table
            .text(
                "timezone",
                "the time zone of the schedule and of dates (default: that of the machine)",
                parse_timezone,
            )
            .or(base.timezone),
        reserve: table
            .count("reserve", "requests of each window left to other tools (default 0)", 0)
            .unwrap_or(base.reserve),
        limit: table
            .count(
                "limit",
                "maximum number of requests in any minute, also if the service allows more",
                1,
            )
            .or(base.limit),
        max_staleness: table
            .duration(
                "max_staleness",
                "the maximum age of a list that a write depends on (default 5m)",
                parse_duration,
            )
            .or(base.max_staleness),
        keep: table.table("keep", "the snapshots that `forget` keeps", keep).or(base.keep),
        skip: table
            .key(
                "skip",
                "list of strings",
                "resources that are not backed up, such as those missing from the subscription",
            )
            .and_then(|entry| skip(&entry))
            .unwrap_or(base.skip),
        stats: table
            .text(
                "stats",
                "QR codes whose statistics are fetched: changed (the default), all or none",
                |text| one_of(text, &StatisticsSetting::NAMES),
            )
            .unwrap_or(base.stats),
        stats_budget: table
            .count(
                "stats_budget",
                "the maximum number of QR codes whose statistics one backup fetches",
                0,
            )
            .or(base.stats_budget),
        timeouts: table
            .table("timeouts", "timeouts of requests", |table| timeouts(table, base.timeouts))
            .unwrap_or(base.timeouts),
        ca_file: table
            .path(
                "ca_file",
                "trusted certificates, instead of `SSL_CERT_FILE` or the built-in ones",
            )
            .or(base.ca_file),
        max_records: table
            .count("max_records", "the maximum number of records of one list (default 5000000)", 1)
            .or(base.max_records),
        max_bytes: table
            .count("max_bytes", "the maximum number of bytes of one list (default 4000000000)", 1)
            .or(base.max_bytes),
        max_in_flight: table
            .count("max_in_flight", "the maximum number of reads at the same time (default 4)", 1)
            .or(base.max_in_flight),
        export: table
            .table("export", "what the daemon exports after each backup", export)
            .flatten()
            .or(base.export),
        copy: table
            .path("copy", "the folder for the daemon's copy of the vault after each backup")
            .or(base.copy),
        heartbeat: table
            .text("heartbeat", "the URL that the daemon requests after each complete backup", hook)
            .or(base.heartbeat),
        alerts: table
            .table("alerts", "alerts when a problem begins and when it ends", |table| {
                alerts(table, base.alerts.clone())
            })
            .unwrap_or(base.alerts),
    }
}

fn keep(table: &TomlTable<'_, '_>) -> RetentionRules {
    if table.is_empty() {
        table.problem("is empty; add what to keep, such as { last = 7, monthly = 12 }");
    }
    RetentionRules {
        last: table.count("last", "this number of the newest", 1),
        hourly: table.count("hourly", "the last of each hour, for this number of hours", 1),
        daily: table.count("daily", "the last of each day, for this number of days", 1),
        weekly: table.count("weekly", "the last of each week, for this number of weeks", 1),
        monthly: table.count("monthly", "the last of each month, for this number of months", 1),
        yearly: table.count("yearly", "the last of each year, for this number of years", 1),
        within: table.text(
            "within",
            "all within this period before the newest, such as `1y6m`",
            parse_period,
        ),
        tags: table.words("tags", "all with one of these tags").unwrap_or_default(),
    }
}

/// The resources to skip.
fn skip(entry: &TomlEntry<'_, '_>) -> Option<Vec<Resource>> {
    let mut skip = Vec::new();
    for name in entry.words()? {
        match Resource::from_name(&name) {
            Some(resource) => skip.push(resource),
            None => {
                let names: Vec<_> = Resource::ALL.iter().map(|it| it.name()).collect();
                entry.problem(format!(
                    "`{name}` is not a resource; resources are {}",
                    names.join(", ")
                ));
            }
        }
    }
    if Resource::ALL.iter().all(|resource| skip.contains(resource)) {
        entry.problem("must not contain every resource: nothing would be backed up");
    }
    Some(skip)
}

fn timeouts(table: &TomlTable<'_, '_>, base: Timeouts) -> Timeouts {
    let get = |name, about, base| table.duration(name, about, nonzero_duration).unwrap_or(base);
    Timeouts {
        connect: get("connect", "until there is a connection (default 10s)", base.connect),
        read: get("read", "between two parts of a response (default 60s)", base.read),
        overall: get("overall", "for a whole request (default 3m)", base.overall),
    }
}

fn export(table: &TomlTable<'_, '_>) -> Option<ExportSettings> {
    let to = table.key("to", "path", "the folder; each account gets one of its name in it");
    if to.is_none() {
        table.problem("`to` is missing: the folder for the files");
    }
    let format = table
        .text("format", "csv (the default), json or xlsx", |text| {
            one_of(text, &ExportFormat::NAMES)
        })
        .unwrap_or_default();
    Some(ExportSettings { folder: to?.path()?, format })
}

/// The alerts of an account; each missing key is taken from `base`.
fn alerts(table: &TomlTable<'_, '_>, base: AlertSettings) -> AlertSettings {
    let webhook = table.text("webhook", "the URL that receives each alert as JSON", hook);
    let about = "the environment variable with the secret that signs the webhook's requests";
    let name = table.text("secret_env", about, variable);
    let file = table.key("secret_file", "path", "the file with that secret");
    if let (Some(_), Some(entry)) = (&name, &file) {
        entry.problem("the secret already has a source: `secret_env`; keep only one");
    }
    let secret = name.map(KeySource::Variable);
    let secret = secret.or(file.and_then(|entry| entry.path()).map(KeySource::File));
    let command = table.words("command", "the program that reads each alert, run without a shell");
    let about = "the maximum number of removed records: a count, or a percentage, which applies \
                 from ten removed records on (default 30%)";
    let removed = table.key("removed", "integer or string", about);
    let about = "the maximum age of the newest complete backup (default: two scheduled times and \
                 an hour)";
    AlertSettings {
        webhook: webhook.or(base.webhook),
        secret: secret.or(base.secret),
        command: command.or(base.command),
        removed: removed.and_then(|entry| entry.count_or_percent()).unwrap_or(base.removed),
        max_age: table.duration("max_age", about, nonzero_duration).or(base.max_age),
    }
}

fn daemon(table: &TomlTable<'_, '_>) -> DaemonSettings {
    DaemonSettings {
        workers: table
            .key("workers", "integer", "the maximum number of concurrent backups (default 32)")
            .and_then(|entry| entry.count_up_to(1, u16::MAX)),
        listen: table.text(
            "listen",
            "the address of the web UI, or off (default 127.0.0.1:8080)",
            parse_listen,
        ),
        token_file: table.path("token_file", "the file with the token that opens the web UI"),
        allow_host: table
            .words("allow_host", "host names of the web UI, besides those of this machine")
            .unwrap_or_default(),
    }
}
