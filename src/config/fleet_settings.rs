//! The table `[fleet]`: Temporal, object stores, and encryption. Every build checks it; encryption
//! needs the cargo feature `fleet`.

use std::time::Duration;

use super::age_recipient::age_recipient;
use super::key_source::KeySource;
use super::toml_reader::TomlTable;
use super::values::{nonzero_duration, parse_size, require_feature, temporal_name, temporal_url};

/// Settings of this machine as a part of a fleet. Flags take precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetSettings {
    /// The URL of the Temporal server, without a slash at its end.
    pub temporal: String,
    /// Whether the configuration names the server.
    pub names_temporal: bool,
    /// Temporal's namespace.
    pub namespace: String,
    /// The task queue of the workers.
    pub task_queue: String,
    /// The maximum number of accounts that a worker works on at the same time: 1 to 1000.
    pub slots: u16,
    /// How often an unfinished crawl is put into the store; never zero.
    pub checkpoint: Duration,
    /// The age recipients of the copies that are made after a backup; empty for plain copies.
    pub encrypt_to: Vec<String>,
    /// The source of the age identity of the objects in stores; `None` for plain objects.
    pub identity: Option<KeySource>,
    /// The maximum size of the local copies of vaults in stores, in bytes; `None` for no bound.
    pub cache: Option<u64>,
}

impl Default for FleetSettings {
    fn default() -> Self {
        Self {
            temporal: "http://127.0.0.1:7233".to_owned(),
            names_temporal: false,
            namespace: "default".to_owned(),
            task_queue: "linkvault".to_owned(),
            slots: 8,
            checkpoint: Duration::from_secs(5 * 60),
            encrypt_to: Vec::new(),
            identity: None,
            cache: None,
        }
    }
}

/// Reads the table.
pub(super) fn fleet(table: &TomlTable<'_, '_>) -> FleetSettings {
    let default = FleetSettings::default();
    let about = "the URL of the Temporal server (default `http://127.0.0.1:7233`)";
    let temporal = table.text("temporal", about, temporal_url);
    let about = "Temporal's namespace (default `default`)";
    let namespace = table.text("namespace", about, temporal_name);
    let about = "the task queue of the workers (default `linkvault`)";
    let task_queue = table.text("task_queue", about, temporal_name);
    let about = "the maximum number of accounts that a worker works on at the same time, up to \
                 1000 (default 8)";
    let slots = table.key("slots", "integer", about);
    let about = "how often an unfinished backup is put into the store (default 5m)";
    let checkpoint = table.duration("checkpoint", about, nonzero_duration);
    FleetSettings {
        names_temporal: temporal.is_some(),
        temporal: temporal.unwrap_or(default.temporal),
        namespace: namespace.unwrap_or(default.namespace),
        task_queue: task_queue.unwrap_or(default.task_queue),
        slots: slots.and_then(|entry| entry.count_up_to(1, 1000)).unwrap_or(default.slots),
        checkpoint: checkpoint.unwrap_or(default.checkpoint),
        encrypt_to: encrypt_to(table),
        identity: identity(table),
        cache: cache(table),
    }
}

fn encrypt_to(table: &TomlTable<'_, '_>) -> Vec<String> {
    let about = "the age recipients (`age1…`) of the copies that `copy` makes, which are then \
                 encrypted";
    let Some(entry) = table.key("encrypt_to", "list of strings", about) else { return Vec::new() };
    let Some(recipients) = entry.words() else { return Vec::new() };
    let checked = require_feature("encrypts copies")
        .and_then(|()| recipients.iter().try_for_each(|recipient| age_recipient(recipient)));
    if let Err(error) = checked {
        entry.problem(error.to_string());
    }
    recipients
}

/// At most one of the two sources of the identity.
fn identity(table: &TomlTable<'_, '_>) -> Option<KeySource> {
    let about = "the file with the age identity that encrypts and decrypts the objects in stores";
    let file = table.key("identity_file", "path", about);
    let about = "the program that prints that identity, run without a shell";
    let command = table.key("identity_command", "list of strings", about);
    let entry = file.as_ref().or(command.as_ref())?;
    if let Err(error) = require_feature("encrypts vaults in object stores") {
        entry.problem(error.to_string());
    }
    if let (Some(_), Some(entry)) = (&file, &command) {
        entry.problem("the identity already has a source: `identity_file`; keep only one");
    }
    match &file {
        Some(entry) => entry.path().map(KeySource::File),
        None => entry.words().map(KeySource::Command),
    }
}

fn cache(table: &TomlTable<'_, '_>) -> Option<u64> {
    let about = "the maximum size of the local copies of vaults in stores, such as `10 GiB`; the \
                 least recently used ones are removed (default: no maximum)";
    table.key("cache", "size", about)?.checked(parse_size)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Home};

    const BUILD: &str = "`cargo install --path . --locked --features fleet`";
    const RECIPIENT: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

    fn parse(keys: &str) -> Result<FleetSettings, Vec<String>> {
        let text = format!("[fleet]\n{keys}");
        match Config::parse(&Home::at(Path::new("/home")), text.as_bytes()) {
            Ok(config) => Ok(config.fleet),
            Err(problems) => {
                Err(problems.iter().map(|it| format!("{}: {}", it.key, it.what)).collect())
            }
        }
    }

    #[test]
    fn a_missing_table_has_the_defaults() {
        let config = Config::parse(&Home::at(Path::new("/home")), b"").unwrap();
        assert_eq!(config.fleet, FleetSettings::default());
        assert_eq!(parse(""), Ok(FleetSettings::default()));
        let reference = crate::config::reference();
        let FleetSettings { temporal, namespace, task_queue, slots, .. } = FleetSettings::default();
        for value in [temporal, namespace, task_queue, slots.to_string(), "5m".to_owned()] {
            let shown = [format!("(default `{value}`)"), format!("(default {value})")];
            assert!(shown.iter().any(|shown| reference.contains(shown)), "{value}");
        }
    }

    #[test]
    fn all_keys_that_need_no_feature_are_read() {
        let keys = "temporal = \"https://Temporal.example:7233/\"\nnamespace = \"prod.a1\"\n\
                    task_queue = \"links\"\nslots = 1000\ncheckpoint = \"90s\"\ncache = \"10 GiB\"";
        let expected = FleetSettings {
            names_temporal: true,
            temporal: "https://temporal.example:7233".into(),
            namespace: "prod.a1".into(),
            task_queue: "links".into(),
            slots: 1000,
            checkpoint: Duration::from_secs(90),
            cache: Some(10 << 30),
            ..FleetSettings::default()
        };
        assert_eq!(parse(keys), Ok(expected));
    }

    #[test]
    fn each_mistake_is_reported_with_its_key() {
        let cases = [
            ("temporel = \"x\"", "temporel: unknown key; did you mean `temporal`?"),
            (
                "indentity_file = \"x\"",
                "indentity_file: unknown key; did you mean `identity_file`?",
            ),
            (
                "temporal = \"127.0.0.1:7233\"",
                "temporal: must be a URL such as `http://127.0.0.1:7233`",
            ),
            (
                "temporal = \"http://a:b@host\"",
                "temporal: the url must not contain a user name or password",
            ),
            ("namespace = \"\"", "namespace: must be letters, digits, `-`, `_` and `.`"),
            ("task_queue = \"a b\"", "task_queue: must be letters, digits, `-`, `_` and `.`"),
            ("slots = 0", "slots: must be a whole number from 1 to 1000"),
            ("slots = 1001", "slots: must be a whole number from 1 to 1000"),
            ("checkpoint = \"0s\"", "checkpoint: must be longer than 0 seconds"),
            ("cache = \"10 GB\"", "cache: must be a size such as `512 MiB` or `10 GiB`"),
            ("cache = 5", "cache: is an integer, but must be a string"),
        ];
        for (keys, expected) in cases {
            let problems = parse(keys).unwrap_err();
            assert_eq!(problems, [format!("fleet.{expected}")], "{keys}");
        }
    }

    #[test]
    fn encryption_needs_the_feature_and_the_error_names_the_command_that_builds_it() {
        let keys = [
            format!("encrypt_to = [\"{RECIPIENT}\"]"),
            "identity_file = \"worker.age\"".to_owned(),
            "identity_command = [\"pass\", \"show\", \"worker\"]".to_owned(),
        ];
        for key in &keys {
            let problems = parse(key).err().unwrap_or_default();
            let of_feature = problems.iter().filter(|problem| problem.contains(BUILD)).count();
            assert_eq!(of_feature, usize::from(!cfg!(feature = "fleet")), "{problems:?}");
        }
    }

    #[cfg(feature = "fleet")]
    #[test]
    fn recipients_and_the_source_of_the_identity_are_read() {
        let keys = format!("encrypt_to = [\"{RECIPIENT}\"]\nidentity_file = \"worker.age\"");
        let settings = parse(&keys).unwrap();
        assert_eq!(settings.encrypt_to, [RECIPIENT]);
        assert_eq!(settings.identity, Some(KeySource::File("/home/worker.age".into())));
        let settings = parse("identity_command = [\"pass\", \"show\"]").unwrap();
        let command = ["pass", "show"].map(str::to_owned).to_vec();
        assert_eq!(settings.identity, Some(KeySource::Command(command)));
        let both = parse("identity_command = [\"pass\"]\nidentity_file = \"x\"").unwrap_err();
        let expected = "fleet.identity_command: the identity already has a source: \
                        `identity_file`; keep only one";
        assert_eq!(both, [expected]);
    }

    #[cfg(feature = "fleet")]
    #[test]
    fn a_secret_in_place_of_a_recipient_is_not_shown() {
        let problems = parse("encrypt_to = [\"AGE-SECRET-KEY-1QQQQ\"]").unwrap_err();
        assert!(problems[0].contains("is the secret half of a key"), "{problems:?}");
        assert!(!problems[0].contains("QQQQ"), "{problems:?}");
    }
}
