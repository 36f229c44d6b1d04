//! The keys of the file, declared once: their names, what they hold, what they are for.

/// What a key holds, for documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    Words,
    Count,
    Boolean,
    Table(&'static [KeyDoc]),
}

/// One key: its name, what it holds, and what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    pub(super) holds: Holds,
    pub(super) about: &'static str,
}

const fn key(name: &'static str, holds: Holds, about: &'static str) -> KeyDoc {
    KeyDoc { name, holds, about }
}

pub(super) const EXPORT_KEYS: [KeyDoc; 2] = [
    key("to", Holds::Text, "the folder; each account gets one of its name in it"),
    key("format", Holds::Text, "csv (the default) or json"),
];

pub(super) const ALERT_KEYS: [KeyDoc; 6] = [
    key("webhook", Holds::Text, "the URL that gets each alert as JSON"),
    key("secret_env", Holds::Text, "the variable with the secret that signs the webhook"),
    key("secret_file", Holds::Text, "the file with that secret"),
    key("command", Holds::Words, "the command that reads each alert, run without a shell"),
    key(
        "removed",
        Holds::Text,
        "the most records that may be removed: a number, or a percentage, which applies from ten removed records on (default 30%)",
    ),
    key(
        "max_age",
        Holds::Text,
        "the maximum age of the newest complete backup (default: two scheduled times and an hour)",
    ),
];

pub(super) const KEEP_KEYS: [KeyDoc; 8] = [
    key("last", Holds::Count, "this number of the newest"),
    key("hourly", Holds::Count, "the last of each of this number of hours"),
    key("daily", Holds::Count, "the last of each of this number of days"),
    key("weekly", Holds::Count, "the last of each of this number of weeks"),
    key("monthly", Holds::Count, "the last of each of this number of months"),
    key("yearly", Holds::Count, "the last of each of this number of years"),
    key("within", Holds::Text, "all within this period of the newest, such as `1y6m`"),
    key("tags", Holds::Words, "all with one of these tags"),
];

pub(super) const TIMEOUT_KEYS: [KeyDoc; 3] = [
    key("connect", Holds::Text, "until there is a connection (default 10s)"),
    key("read", Holds::Text, "between two pieces of an answer (default 60s)"),
    key("overall", Holds::Text, "for a whole request (default 3m)"),
];

/// The keys of `[defaults]`: what holds for each account that does not say otherwise.
pub(super) const DEFAULT_KEYS: &[KeyDoc] = &[
    key("schedule", Holds::Text, "when the daemon backs up, as crontab writes it"),
    key(
        "timezone",
        Holds::Text,
        "the time zone of the schedule and of dates (default: the machine's)",
    ),
    key("reserve", Holds::Count, "requests of each window that are left to other tools"),
    key("limit", Holds::Count, "requests a minute where the service does not tell its limit"),
    key("max_staleness", Holds::Text, "how old a list may be before a write (default 5m)"),
    key("keep", Holds::Table(&KEEP_KEYS), "which snapshots `forget` keeps"),
    key("skip", Holds::Words, "resources that are not backed up, such as those the plan lacks"),
    key("stats", Holds::Text, "whose QR statistics are fetched: changed, all or none"),
    key("stats_budget", Holds::Count, "the most QR codes whose statistics one backup fetches"),
    key("timeouts", Holds::Table(&TIMEOUT_KEYS), "how long each part of a request may take"),
    key("ca_file", Holds::Text, "the certificates that are trusted instead of the built-in ones"),
    key("max_records", Holds::Count, "the most records of one list (default 5000000)"),
    key("max_bytes", Holds::Count, "the most bytes of one list (default 4000000000)"),
    key("export", Holds::Table(&EXPORT_KEYS), "what the daemon exports after each backup"),
    key("copy", Holds::Text, "the folder in which the daemon leaves a copy of the vault"),
    key("heartbeat", Holds::Text, "the URL that the daemon asks after each complete backup"),
    key("alerts", Holds::Table(&ALERT_KEYS), "whom the daemon tells of problems, and of which"),
];

/// What only the account itself can say.
const OWN_KEYS: &[KeyDoc] = &[
    key("url", Holds::Text, "the service: everything before /api"),
    key("key_env", Holds::Text, "the variable that holds the key"),
    key("key_file", Holds::Text, "the file that holds the key"),
    key("key_command", Holds::Words, "the command that prints the key, run without a shell"),
    key("allow_http", Holds::Boolean, "whether the key may travel unencrypted"),
    key("vault", Holds::Text, "the vault's file, if not vaults/NAME.db"),
];

/// The keys of `[accounts.NAME]`: its own, and those of `[defaults]`.
pub(super) const ACCOUNT_KEYS: &[KeyDoc] = &{
    let (own, mut at) = (OWN_KEYS.len(), 0);
    let mut all = [OWN_KEYS[0]; OWN_KEYS.len() + DEFAULT_KEYS.len()];
    while at < all.len() {
        all[at] = if at < own { OWN_KEYS[at] } else { DEFAULT_KEYS[at - own] };
        at += 1;
    }
    all
};

/// The keys of `[daemon]`: how the daemon itself is run.
pub(super) const DAEMON_KEYS: &[KeyDoc] = &[
    key("workers", Holds::Count, "the most backups at once (default 32)"),
    key("listen", Holds::Text, "where the page is served, or off (default 127.0.0.1:8080)"),
    key("token_file", Holds::Text, "the file that holds the token which opens the page"),
    key("allow_host", Holds::Words, "names by which the page may be called"),
];

/// The tables of the file.
pub(super) const ROOT_KEYS: &[KeyDoc] = &[
    key("accounts", Holds::Table(ACCOUNT_KEYS), "the accounts, by name"),
    key("defaults", Holds::Table(DEFAULT_KEYS), "what holds for every account"),
    key("daemon", Holds::Table(DAEMON_KEYS), "how the daemon itself is run"),
];
