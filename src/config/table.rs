//! The keys of the file, declared once: their names, what they hold, what they are for.

/// What a key holds, for documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyType {
    Text,
    Words,
    Count,
    Boolean,
    Table(&'static [KeySpec]),
}

/// One key: its name, what it holds, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeySpec {
    pub(super) name: &'static str,
    pub(super) holds: KeyType,
    pub(super) about: &'static str,
}

const fn key(name: &'static str, holds: KeyType, about: &'static str) -> KeySpec {
    KeySpec { name, holds, about }
}

pub(super) const EXPORT_KEYS: [KeySpec; 2] = [
    key("to", KeyType::Text, "the folder; each account gets one of its name in it"),
    key("format", KeyType::Text, "csv (the default) or json"),
];

pub(super) const ALERT_KEYS: [KeySpec; 6] = [
    key("webhook", KeyType::Text, "the URL that gets each alert as JSON"),
    key("secret_env", KeyType::Text, "the variable with the secret that signs the webhook"),
    key("secret_file", KeyType::Text, "the file with that secret"),
    key("command", KeyType::Words, "the command that reads each alert, run without a shell"),
    key(
        "removed",
        KeyType::Text,
        "the most records that may be removed: a number, or a percentage, which applies from ten removed records on (default 30%)",
    ),
    key(
        "max_age",
        KeyType::Text,
        "the maximum age of the newest complete backup (default: two scheduled times and an hour)",
    ),
];

pub(super) const KEEP_KEYS: [KeySpec; 8] = [
    key("last", KeyType::Count, "this number of the newest"),
    key("hourly", KeyType::Count, "the last of each of this number of hours"),
    key("daily", KeyType::Count, "the last of each of this number of days"),
    key("weekly", KeyType::Count, "the last of each of this number of weeks"),
    key("monthly", KeyType::Count, "the last of each of this number of months"),
    key("yearly", KeyType::Count, "the last of each of this number of years"),
    key("within", KeyType::Text, "all within this period of the newest, such as `1y6m`"),
    key("tags", KeyType::Words, "all with one of these tags"),
];

pub(super) const TIMEOUT_KEYS: [KeySpec; 3] = [
    key("connect", KeyType::Text, "until there is a connection (default 10s)"),
    key("read", KeyType::Text, "between two pieces of an answer (default 60s)"),
    key("overall", KeyType::Text, "for a whole request (default 3m)"),
];

/// The keys of `[defaults]`: what holds for each account that does not say otherwise.
pub(super) const DEFAULT_KEYS: &[KeySpec] = &[
    key("schedule", KeyType::Text, "when the daemon backs up, as crontab writes it"),
    key(
        "timezone",
        KeyType::Text,
        "the time zone of the schedule and of dates (default: the machine's)",
    ),
    key("reserve", KeyType::Count, "requests of each window that are left to other tools"),
    key("limit", KeyType::Count, "requests a minute where the service does not tell its limit"),
    key("max_staleness", KeyType::Text, "how old a list may be before a write (default 5m)"),
    key("keep", KeyType::Table(&KEEP_KEYS), "which snapshots `forget` keeps"),
    key("skip", KeyType::Words, "resources that are not backed up, such as those the plan lacks"),
    key("stats", KeyType::Text, "whose QR statistics are fetched: changed, all or none"),
    key("stats_budget", KeyType::Count, "the most QR codes whose statistics one backup fetches"),
    key("timeouts", KeyType::Table(&TIMEOUT_KEYS), "how long each part of a request may take"),
    key("ca_file", KeyType::Text, "the certificates that are trusted instead of the built-in ones"),
    key("max_records", KeyType::Count, "the most records of one list (default 5000000)"),
    key("max_bytes", KeyType::Count, "the most bytes of one list (default 4000000000)"),
    key("export", KeyType::Table(&EXPORT_KEYS), "what the daemon exports after each backup"),
    key("copy", KeyType::Text, "the folder in which the daemon leaves a copy of the vault"),
    key("heartbeat", KeyType::Text, "the URL that the daemon asks after each complete backup"),
    key("alerts", KeyType::Table(&ALERT_KEYS), "whom the daemon tells of problems, and of which"),
];

/// What only the account itself can say.
const OWN_KEYS: &[KeySpec] = &[
    key("url", KeyType::Text, "the service: everything before /api"),
    key("key_env", KeyType::Text, "the variable that holds the key"),
    key("key_file", KeyType::Text, "the file that holds the key"),
    key("key_command", KeyType::Words, "the command that prints the key, run without a shell"),
    key("allow_http", KeyType::Boolean, "whether the key may travel unencrypted"),
    key("vault", KeyType::Text, "the vault's file, if not vaults/NAME.db"),
];

/// The keys of `[accounts.NAME]`: its own, and those of `[defaults]`.
pub(super) const ACCOUNT_KEYS: &[KeySpec] = &{
    let (own, mut at) = (OWN_KEYS.len(), 0);
    let mut all = [OWN_KEYS[0]; OWN_KEYS.len() + DEFAULT_KEYS.len()];
    while at < all.len() {
        all[at] = if at < own { OWN_KEYS[at] } else { DEFAULT_KEYS[at - own] };
        at += 1;
    }
    all
};

/// The keys of `[daemon]`: how the daemon itself is run.
pub(super) const DAEMON_KEYS: &[KeySpec] = &[
    key("workers", KeyType::Count, "the most backups at once (default 32)"),
    key("listen", KeyType::Text, "where the page is served, or off (default 127.0.0.1:8080)"),
    key("token_file", KeyType::Text, "the file that holds the token which opens the page"),
    key("allow_host", KeyType::Words, "names by which the page may be called"),
];

/// The tables of the file.
pub(super) const ROOT_KEYS: &[KeySpec] = &[
    key("accounts", KeyType::Table(ACCOUNT_KEYS), "the accounts, by name"),
    key("defaults", KeyType::Table(DEFAULT_KEYS), "what holds for every account"),
    key("daemon", KeyType::Table(DAEMON_KEYS), "how the daemon itself is run"),
];
