//! How the keys of the file become accounts.

use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::config::document;
use crate::config::home::Home;
use crate::config::key_source::KeySource;
use crate::config::settings::{
    AccountSettings, AlertSettings, DaemonSettings, ExportFormat, ExportSettings, RetentionRules,
    StatisticsSetting, Timeouts,
};
use crate::config::table::{
    ACCOUNT_KEYS, ALERT_KEYS, DAEMON_KEYS, DEFAULT_KEYS, EXPORT_KEYS, KEEP_KEYS, ROOT_KEYS,
    TIMEOUT_KEYS,
};
use crate::config::toml_reader::{TomlEntry, TomlReader, TomlTable};
use crate::config::values::{
    base_url, hook, parse_account_name, parse_duration, parse_listen, parse_period, parse_timezone,
    schedule,
};
use crate::config::{AccountConfig, AccountLocation, ConfigProblem};
use crate::model::Resource;

/// What a whole file holds.
pub(super) struct ConfigFile {
    /// By name.
    pub(super) accounts: Vec<AccountConfig>,
    pub(super) defaults: AccountSettings,
    pub(super) daemon: DaemonSettings,
}

/// Reads a whole file.
pub(super) fn read(home: &Home, bytes: &[u8]) -> Result<ConfigFile, Vec<ConfigProblem>> {
    let text = document::text(bytes).map_err(|problem| vec![problem])?;
    let reader = TomlReader::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.problem(error.span().unwrap_or(0..0), "", error.message());
    }
    if !errors.is_empty() {
        // What stands beside broken syntax is guesswork: its meaning is not judged.
        return Err(reader.finish());
    }
    let root = TomlTable::root(&reader, table.get_ref()).only(ROOT_KEYS);
    let defaults = root
        .get("defaults")
        .and_then(|entry| entry.section())
        .map(|section| settings(home, &section.only(DEFAULT_KEYS), &AccountSettings::default()))
        .unwrap_or_default();
    let daemon = root
        .get("daemon")
        .and_then(|entry| entry.section())
        .map(|section| daemon(home, &section.only(DAEMON_KEYS)))
        .unwrap_or_default();
    let accounts = root.get("accounts").and_then(|entry| entry.section());
    let accounts = accounts.map_or_else(Vec::new, |section| {
        let entries = section.entries().into_iter();
        entries.filter_map(|entry| account(home, entry, &defaults, &reader)).collect()
    });
    let problems = reader.finish();
    if problems.is_empty() { Ok(ConfigFile { accounts, defaults, daemon }) } else { Err(problems) }
}

type NamedEntry<'r, 't> = (String, std::ops::Range<usize>, TomlEntry<'r, 't>);

fn account(
    home: &Home,
    (name, span, entry): NamedEntry<'_, '_>,
    defaults: &AccountSettings,
    reader: &TomlReader<'_>,
) -> Option<AccountConfig> {
    if let Err(error) = parse_account_name(&name) {
        reader.problem(span, &entry.key, error.to_string());
    }
    let section = entry.section()?.only(ACCOUNT_KEYS);
    let settings = settings(home, &section, defaults);
    let vault = section.get("vault").and_then(|entry| path(home, &entry));
    let place = place(home, &section)?;
    let vault = vault.unwrap_or_else(|| home.vault_file(&name));
    Some(AccountConfig { name, place, vault, settings })
}

fn place(home: &Home, section: &TomlTable<'_, '_>) -> Option<AccountLocation> {
    let allow_http =
        section.get("allow_http").and_then(|entry| entry.boolean()).unwrap_or_default();
    let url = section.checked("url", |text| base_url(text, allow_http));
    if section.get("url").is_none() {
        section.problem("`url` is missing: the service's address, everything before `/api`");
    }
    let key = key_source(home, section);
    Some(AccountLocation::Service { url: url?, key: key?, allow_http })
}

/// Exactly one of the three sources of a key.
fn key_source(home: &Home, section: &TomlTable<'_, '_>) -> Option<KeySource> {
    let names = ["key_env", "key_file", "key_command"];
    let mut given = names.iter().filter_map(|name| section.get(name));
    let Some(first) = given.next() else {
        section.problem("the key has no source: add `key_env`, `key_file` or `key_command`");
        return None;
    };
    let mut clash = false;
    for other in given {
        other.problem(format!("the key has a source already: `{}`; keep one", first.key));
        clash = true;
    }
    let source = if section.get("key_env").is_some() {
        section.checked("key_env", crate::config::values::variable).map(KeySource::Variable)
    } else if section.get("key_file").is_some() {
        path(home, &first).map(KeySource::File)
    } else {
        first.words().map(KeySource::Command)
    };
    source.filter(|_| !clash)
}

/// A path: `~/` is the user's home, and what is relative starts at the file's folder.
fn path(home: &Home, entry: &TomlEntry<'_, '_>) -> Option<PathBuf> {
    let text = entry.text()?;
    if text.is_empty() {
        entry.problem("is empty, but must be a path");
        return None;
    }
    if let Some(rest) = text.strip_prefix("~/") {
        let Some(folders) = directories::BaseDirs::new() else {
            entry.problem("begins with `~`, but this user has no home folder");
            return None;
        };
        return Some(folders.home_dir().join(rest));
    }
    Some(home.config_folder().join(Path::new(text)))
}

fn settings(
    home: &Home,
    section: &TomlTable<'_, '_>,
    defaults: &AccountSettings,
) -> AccountSettings {
    let base = defaults.clone();
    AccountSettings {
        schedule: section.checked("schedule", schedule).or(base.schedule),
        timezone: section.checked("timezone", parse_timezone).or(base.timezone),
        reserve: section.count("reserve", 0).unwrap_or(base.reserve),
        limit: section.count("limit", 1).or(base.limit),
        max_staleness: section.checked("max_staleness", parse_duration).or(base.max_staleness),
        keep: keep(section).or(base.keep),
        skip: skip(section).unwrap_or(base.skip),
        stats: section.checked("stats", stats).unwrap_or(base.stats),
        stats_budget: section.count("stats_budget", 0).or(base.stats_budget),
        timeouts: timeouts(section, base.timeouts),
        ca_file: section.get("ca_file").and_then(|entry| path(home, &entry)).or(base.ca_file),
        max_records: section.count("max_records", 1).or(base.max_records),
        max_bytes: section.count("max_bytes", 1).or(base.max_bytes),
        export: export(home, section).or(base.export),
        copy: section.get("copy").and_then(|entry| path(home, &entry)).or(base.copy),
        heartbeat: section.checked("heartbeat", hook).or(base.heartbeat),
        alerts: alerts(home, section, base.alerts),
    }
}

fn daemon(home: &Home, section: &TomlTable<'_, '_>) -> DaemonSettings {
    let workers = section.get("workers").and_then(|entry| entry.count_up_to(1, u16::MAX));
    DaemonSettings {
        workers,
        listen: section.checked("listen", parse_listen),
        token_file: section.get("token_file").and_then(|entry| path(home, &entry)),
        allow_host: section.get("allow_host").and_then(|entry| entry.words()).unwrap_or_default(),
    }
}

fn export(home: &Home, section: &TomlTable<'_, '_>) -> Option<ExportSettings> {
    let section = section.get("export")?.section()?.only(&EXPORT_KEYS);
    let format = |text: &str| crate::config::values::one_of(text, &ExportFormat::NAMES);
    let format = section.checked("format", format).unwrap_or_default();
    if section.get("to").is_none() {
        section.problem("`to` is missing: the folder for the files");
    }
    let folder = path(home, &section.get("to")?)?;
    Some(ExportSettings { folder, format })
}

/// An account's alerts go over those of the defaults, key by key.
fn alerts(home: &Home, section: &TomlTable<'_, '_>, base: AlertSettings) -> AlertSettings {
    let Some(section) = section.get("alerts").and_then(|entry| entry.section()) else {
        return base;
    };
    let section = section.only(&ALERT_KEYS);
    let variable =
        section.checked("secret_env", crate::config::values::variable).map(KeySource::Variable);
    let file = section.get("secret_file").and_then(|entry| path(home, &entry));
    if let (Some(_), Some(entry)) = (&variable, section.get("secret_file")) {
        entry.problem("the secret has a source already: `secret_env`; keep one");
    }
    let command = section.get("command").and_then(|entry| entry.words());
    AlertSettings {
        webhook: section.checked("webhook", hook).or(base.webhook),
        secret: variable.or(file.map(KeySource::File)).or(base.secret),
        command: command.or(base.command),
        removed: section.get("removed").and_then(|entry| entry.amount()).unwrap_or(base.removed),
        max_age: section.checked("max_age", nonzero).or(base.max_age),
    }
}

/// The resources that are left out for good.
fn skip(section: &TomlTable<'_, '_>) -> Option<Vec<Resource>> {
    let entry = section.get("skip")?;
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
        entry.problem("leaves nothing to back up");
    }
    Some(skip)
}

fn stats(text: &str) -> Result<StatisticsSetting, crate::config::ConfigValueError> {
    crate::config::values::one_of(text, &StatisticsSetting::NAMES)
}

fn keep(section: &TomlTable<'_, '_>) -> Option<RetentionRules> {
    let section = section.get("keep")?.section()?.only(&KEEP_KEYS);
    let count = |name| section.count(name, 1);
    let keep = RetentionRules {
        last: count("last"),
        hourly: count("hourly"),
        daily: count("daily"),
        weekly: count("weekly"),
        monthly: count("monthly"),
        yearly: count("yearly"),
        within: section.checked("within", parse_period),
        tags: section.get("tags").and_then(|entry| entry.words()).unwrap_or_default(),
    };
    if section.entries().is_empty() {
        section.problem("is empty: name what to keep, such as { last = 7, monthly = 12 }");
    }
    Some(keep)
}

fn timeouts(section: &TomlTable<'_, '_>, base: Timeouts) -> Timeouts {
    let Some(section) = section.get("timeouts").and_then(|entry| entry.section()) else {
        return base;
    };
    let section = section.only(&TIMEOUT_KEYS);
    let get = |name, base| section.checked(name, nonzero).unwrap_or(base);
    Timeouts {
        connect: get("connect", base.connect),
        read: get("read", base.read),
        overall: get("overall", base.overall),
    }
}

fn nonzero(text: &str) -> Result<std::time::Duration, crate::config::ConfigValueError> {
    crate::config::values::nonzero(parse_duration(text)?)
}
