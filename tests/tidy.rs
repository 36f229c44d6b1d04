//! What must never be in this repository, and what must always be. A failure names the
//! rule and the place.

mod imports;
mod map;
mod source;

use std::collections::BTreeMap;

use source::{Source, files, names, paths_after, read, sources};

/// The modules that each module may import. A module that is not listed may import none.
const ALLOWED_IMPORTS: &[(&str, &[&str])] = &[
    ("api", &["api", "backoff", "clock", "format", "model", "progress", "escaped"]),
    (
        "apply",
        &["api", "apply", "backoff", "change", "clock", "crawl", "model", "progress", "vault"],
    ),
    ("change", &["change", "format", "model", "suggest", "escaped"]),
    ("backoff", &[]),
    ("clock", &[]),
    (
        "config",
        &[
            "api::base_url",
            "api::webhook_url",
            "api::http",
            "api::redact",
            "clock",
            "config",
            "schedule",
            "files",
            "model",
            "suggest",
            "process",
        ],
    ),
    ("crawl", &["api", "clock", "crawl", "model", "progress", "escaped", "vault"]),
    (
        "daemon",
        &[
            "api", "clock", "config", "daemon", "escaped", "files", "format", "health", "model",
            "ops", "progress", "schedule", "vault",
        ],
    ),
    ("files", &[]),
    (
        "fleet",
        &[
            "api::pacer",
            "clock",
            "config",
            "files",
            "fleet",
            "health",
            "model",
            "state_file",
            "vault",
        ],
    ),
    ("format", &["clock"]),
    (
        "health",
        &["backoff", "clock", "escaped", "files::beside", "format", "health", "model", "schedule"],
    ),
    ("migrate", &["change", "migrate", "model", "escaped"]),
    ("model", &["format", "model"]),
    (
        "ops",
        &[
            "api", "apply", "change", "clock", "config", "crawl", "escaped", "files", "fleet",
            "format", "health", "migrate", "model", "ops", "process", "progress", "sandbox",
            "schedule", "suggest", "temporal", "vault",
        ],
    ),
    ("suggest", &[]),
    ("process", &["clock"]),
    ("progress", &[]),
    ("escaped", &[]),
    ("sandbox", &["api::http", "clock", "sandbox", "server"]),
    ("schedule", &["clock", "schedule"]),
    ("server", &[]),
    ("state_file", &["files", "health"]),
    ("temporal", &["clock", "config", "health", "schedule", "temporal"]),
    ("vault", &["clock", "files", "model", "vault"]),
    (
        "worker",
        &[
            "change::plan",
            "clock",
            "config",
            "escaped",
            "format",
            "health",
            "ops",
            "progress",
            "server",
            "temporal",
            "worker",
        ],
    ),
    ("ui", &["change", "clock", "format", "health", "model", "server", "escaped", "ui", "vault"]),
];

/// The modules that may use each crate.
const CRATE_USERS: &[(&str, &[&str])] = &[
    ("age", &["src/fleet/encryption.rs"]),
    ("aho_corasick", &["src/api/redact.rs"]),
    ("askama", &["src/ui/"]),
    ("axum", &["src/ui/"]),
    ("backon", &["src/backoff.rs"]),
    ("clap", &["src/cli/"]),
    ("clap_complete", &["src/cli/commands/completions.rs"]),
    ("clap_mangen", &["src/cli/commands/man.rs"]),
    ("comfy_table", &["src/cli/table.rs"]),
    ("cron", &["src/schedule/crontab.rs"]),
    ("csv", &["src/change/csv_files/"]),
    ("directories", &["src/config/"]),
    ("encoding_rs", &["src/change/csv_files/encoding.rs"]),
    ("getrandom", &["src/ui/guard.rs", "src/temporal/schedules.rs"]),
    ("hmac", &["src/health/alert_message.rs"]),
    ("flate2", &["src/sandbox/serve.rs"]),
    ("futures_util", &["src/fleet/bucket.rs"]),
    ("http_body_util", &["src/sandbox/serve.rs", "src/worker/metrics.rs"]),
    ("hyper", &["src/sandbox/serve.rs", "src/ui/server.rs", "src/worker/metrics.rs"]),
    ("hyper_util", &["src/sandbox/serve.rs", "src/ui/server.rs", "src/worker/metrics.rs"]),
    ("iana_time_zone", &["src/config/time_zone.rs"]),
    ("indicatif", &["src/cli/progress.rs", "src/cli/output.rs"]),
    ("libc", &["src/files.rs"]),
    ("object_store", &["src/fleet/bucket.rs"]),
    ("percent_encoding", &["src/ui/"]),
    ("prometheus_client", &["src/ui/metrics.rs", "src/worker/metrics.rs"]),
    ("rpassword", &["src/cli/output/questions.rs"]),
    ("quick_xml", &["src/change/workbook/"]),
    ("regex", &["src/change/record_filter.rs"]),
    ("roaring", &["src/crawl/", "src/vault/"]),
    ("rusqlite", &["src/vault/"]),
    ("rust_xlsxwriter", &["src/change/workbook/write.rs"]),
    ("rustix", &["src/process.rs", "src/cli/terminal.rs", "src/fleet/free_space.rs"]),
    ("rustls", &["src/api/ureq/", "src/fleet/bucket.rs"]),
    ("sha2", &["src/health/alert_message.rs", "src/fleet/"]),
    ("sd_notify", &["src/cli/commands/daemon.rs"]),
    ("signal_hook", &["src/cli/signals.rs"]),
    ("strsim", &["src/suggest.rs", "src/sandbox/"]),
    ("temporalio_client", &["src/temporal/", "src/worker/"]),
    ("temporalio_common", &["src/temporal/", "src/worker/"]),
    ("temporalio_macros", &["src/worker/"]),
    ("temporalio_sdk", &["src/worker/"]),
    ("terminal_size", &["src/cli/app.rs"]),
    (
        "tokio",
        &[
            "src/server.rs",
            "src/sandbox/serve.rs",
            "src/ui/server.rs",
            "src/ui/routes.rs",
            "src/fleet/bucket.rs",
            "src/temporal/",
            "src/worker/",
        ],
    ),
    ("toml", &["src/config/"]),
    ("tracing_subscriber", &["src/cli/logging.rs"]),
    ("unicode_width", &["src/cli/wrap.rs"]),
    ("ureq", &["src/api/ureq.rs", "src/api/ureq/"]),
    ("zip", &["src/change/workbook/package.rs"]),
    ("zstd", &["src/fleet/packing.rs"]),
];

/// Files without access to files, network, processes and clock.
const PURE: &[&str] = &[
    "src/api/base_url.rs",
    "src/api/envelope.rs",
    "src/api/error.rs",
    "src/api/http.rs",
    "src/api/pacer/",
    "src/api/redact.rs",
    "src/api/redact/",
    "src/api/rate_limit_headers.rs",
    "src/apply/response.rs",
    "src/apply/stale.rs",
    "src/apply/step_request.rs",
    "src/apply/reconcile.rs",
    "src/apply/verify.rs",
    "src/change/",
    "src/cli/fleet_pages.rs",
    "src/crawl/proof.rs",
    "src/fleet/cache.rs",
    "src/fleet/decision.rs",
    "src/temporal/schedule.rs",
    "src/fleet/head.rs",
    "src/fleet/state_document.rs",
    "src/fleet/takeover.rs",
    "src/schedule/due_queue.rs",
    "src/health/",
    "src/schedule/crontab.rs",
    "src/schedule/crontab/",
    "src/model/",
    "src/progress.rs",
    "src/sandbox/",
    "src/vault/digest.rs",
    "src/vault/reference.rs",
    "src/vault/retention.rs",
    "src/vault/template.rs",
    "src/vault/template_match.rs",
    "src/ui/",
];
const IMPURE: &[&str] = &["src/sandbox/serve.rs", "src/ui/server.rs"];

/// Functions and types that access files, processes, threads or the network.
const IO_APIS: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "io::stdout",
    "io::stderr",
    "TcpListener",
    "TcpStream",
    "UdpSocket",
    "ToSocketAddrs",
    "SystemClock",
    "Interrupt::",
];

/// What reads the time, or waits for it.
const TIME: &[&str] =
    &["Instant::now", "SystemTime::now", "thread::sleep", "Utc::now", "Local::now"];

/// Code that panics where an error should be returned.
const PANICS: &[&str] =
    &[".unwrap()", ".expect(\"", "panic!(", "unreachable!(", "todo!(", "unimplemented!("];

const MAX_LINES: usize = 600;
const MAX_README_LINES: usize = 250;

/// The program's own code, without its tests.
fn program() -> impl Iterator<Item = Source> {
    sources("src").into_iter().filter(|source| !source.is_test())
}

fn everything() -> impl Iterator<Item = Source> {
    ["src", "tests", "benches", "examples"].into_iter().flat_map(sources)
}

#[track_caller]
fn assert_none(rule: &str, found: impl IntoIterator<Item = String>) {
    let found: Vec<_> = found.into_iter().collect();
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

fn within(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| path == *place || place.ends_with('/') && path.starts_with(place))
}

/// The module of a path: `src/api/http.rs` is in `api`.
fn module_of(path: &str) -> &str {
    let inner = path.strip_prefix("src/").unwrap_or(path);
    inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs")
}

/// The lines that import a module which this one may not import.
fn forbidden_imports(source: &Source) -> Vec<String> {
    let room = module_of(&source.path);
    if ["cli", "lib"].contains(&room) {
        return Vec::new();
    }
    let own = if room == "main" { &["cli"][..] } else { &[] };
    let known =
        ALLOWED_IMPORTS.iter().find(|(name, _)| *name == room).map_or(own, |(_, known)| known);
    let allowed = |path: &str| {
        known.iter().any(|known| path == *known || path.starts_with(&format!("{known}::")))
    };
    let climbs = "super::".repeat(source.path.matches('/').count().max(1));
    source.lines(|line| {
        let mut paths = ["crate::", "linkvault::"].into_iter().flat_map(|it| paths_after(line, it));
        paths.any(|path| !allowed(path)) || (climbs.len() > 7 && line.contains(&climbs))
    })
}

#[test]
fn every_import_follows_the_allowed_directions() {
    assert_none(
        "see the arrows in ARCHITECTURE.md",
        program().flat_map(|it| forbidden_imports(&it)),
    );
}

#[test]
fn a_forbidden_import_is_found_in_every_spelling() {
    let found = |path, text| forbidden_imports(&Source::new(path, text)).len();
    assert_eq!(found("src/vault/write.rs", "use crate::crawl::Stats;"), 1);
    assert_eq!(found("src/vault/write.rs", "use crate::{crawl, model};"), 1);
    assert_eq!(found("src/vault/write.rs", "use super::super::crawl;"), 1);
    assert_eq!(found("src/vault/write.rs", "fn f(it: &crate::cli::App) {}"), 1);
    assert_eq!(found("src/sandbox/store.rs", "use crate::api::client::Client;"), 1);
    assert_eq!(found("src/sandbox/writes/mod.rs", "use crate::model::Resource;"), 1);
    assert_eq!(found("src/main.rs", "fn main() { linkvault::vault::open() }"), 1);
    assert_eq!(found("src/newcomer.rs", "use crate::model::Resource;"), 1);
    assert_eq!(found("src/sandbox/store.rs", "use crate::api::http::Request;"), 0);
    assert_eq!(found("src/vault/write.rs", "// as crate::crawl does\nuse crate::model::Key;"), 0);
    assert_eq!(found("src/vault/write.rs", "#[cfg(test)]\nuse crate::cli::App;"), 0);
}

#[test]
fn each_crate_is_used_in_its_own_modules_only() {
    let manifest = read("Cargo.toml");
    for (name, users) in CRATE_USERS {
        let listed = manifest.lines().any(|line| line.replace('-', "_").starts_with(name));
        assert!(listed, "{name} is no dependency any more");
        let strangers = program().filter(|source| !within(&source.path, users));
        let path = format!("{name}::");
        let found = strangers.flat_map(|it| it.lines(|line| names(line, &path)));
        assert_none(&format!("{name} belongs to {}", users.join(" and ")), found);
    }
}

#[test]
fn pure_modules_use_neither_time_files_nor_network() {
    let pure = program().filter(|it| within(&it.path, PURE) && !within(&it.path, IMPURE));
    let found = pure
        .flat_map(|it| it.lines(|line| IO_APIS.iter().chain(TIME).any(|api| line.contains(api))));
    assert_none("no file, network, process or clock here", found);
}

#[test]
fn every_pure_module_exists() {
    let all = files("src");
    let empty = |place: &&&str| !all.iter().any(|path| within(path, &[place]));
    assert_none("gone", PURE.iter().chain(IMPURE).filter(empty).map(|place| (*place).to_owned()));
}

#[test]
fn only_the_clock_reads_the_time() {
    let others = program().filter(|source| source.path != "src/clock.rs");
    let tells = |line: &str| TIME.iter().any(|word| line.contains(word));
    assert_none("take a Clock", others.flat_map(|it| it.lines(tells)));
}

#[test]
fn only_the_command_line_prints() {
    let others = program().filter(|source| module_of(&source.path) != "cli");
    let words = ["print!", "println!", "eprint!", "eprintln!", "dbg!"];
    let prints = |line: &str| {
        words.iter().any(|word| names(line, word))
            || line.contains("io::std") && !line.contains("stdin")
    };
    assert_none("only cli prints", others.flat_map(|it| it.lines(prints)));
    let commands = program().filter(|source| source.path.starts_with("src/cli/commands/"));
    assert_none("commands print through Output", commands.flat_map(|it| it.lines(prints)));
}

/// A client that can write is given to the account that is moved to, by its `WriteSession`.
#[test]
fn a_migration_cannot_write_to_its_source() {
    let doors =
        ["AccountSession::open(", "AccountSession::open_unlocked(", "Client::new(", "app.session("];
    let command = program().filter(|source| source.path == "src/ops/migrate.rs");
    let lines = |it: &Source, word: &str| it.lines(|line| line.contains(word)).len();
    let all: Vec<_> = command.collect();
    let opens = |word: &str| all.iter().map(|it| lines(it, word)).sum::<usize>();
    assert_eq!(doors.map(opens), [0; 4], "open the source with AccountSession::open_to_read");
    assert_eq!((opens("AccountSession::open_to_read("), opens("WriteSession::open(")), (1, 1));
}

#[test]
fn the_program_never_panics_on_purpose() {
    let ends = |line: &str| PANICS.iter().any(|word| line.contains(word));
    assert_none("return an error", program().flat_map(|it| it.lines(ends)));
}

#[test]
fn no_file_is_too_long() {
    let long = everything().filter(|source| source.text.lines().count() > MAX_LINES);
    assert_none("split it", long.map(|source| source.path));
}

/// Each command has an `Args` of its own.
#[test]
fn no_public_type_name_is_declared_twice() {
    let mut declared = BTreeMap::new();
    for source in program() {
        for line in source.code.lines() {
            let words: Vec<_> = line.split(|letter: char| !letter.is_alphanumeric()).collect();
            let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
            if let ["pub", "struct" | "enum" | "trait" | "type" | "union", name, ..] = words[..] {
                let places: &mut Vec<_> = declared.entry(name.to_owned()).or_default();
                places.push(source.path.clone());
            }
        }
    }
    assert!(declared.contains_key("PlanStep"));
    let twice = declared.into_iter().filter(|(name, at)| at.len() > 1 && name != "Args");
    assert_none(
        "choose another name",
        twice.map(|(name, at)| format!("{name}: {}", at.join(", "))),
    );
}

#[test]
fn the_readme_has_at_most_250_lines() {
    let lines = read("README.md").lines().count();
    assert!(lines <= MAX_README_LINES, "{lines} lines; move details to docs/");
}

#[test]
fn every_file_begins_with_its_purpose() {
    let silent = everything().filter(|source| !source.text.starts_with("//! "));
    assert_none("begin with a //! sentence", silent.map(|source| source.path));
}

/// A file that no `mod` names is silently not compiled, and its tests not run.
#[test]
fn every_file_is_part_of_the_program() {
    let roots = ["src/main.rs", "src/lib.rs", "tests/main.rs"];
    let stray = ["src", "tests"].into_iter().flat_map(sources).filter(|source| {
        let declared = parents(&source.path).into_iter().any(|(parent, name)| {
            let text = std::fs::read_to_string(source::root().join(parent)).unwrap_or_default();
            text.lines().any(|line| {
                let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
                line.trim_start_matches("pub(super) ") == format!("mod {name};")
            })
        });
        !declared && !roots.contains(&source.path.as_str())
    });
    assert_none("no `mod` names it", stray.map(|source| source.path));
}

/// The files that may declare the module at `path`, and its name there.
fn parents(path: &str) -> Vec<(String, String)> {
    let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    ["/mod.rs", ".rs", "/lib.rs", "/main.rs"]
        .map(|end| (format!("{folder}{end}"), name.to_owned()))
        .into()
}

#[test]
fn no_comment_is_a_todo() {
    let marks = [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["HA", "CK:"].concat()];
    let found = everything().flat_map(|source| {
        let lines = source.text.lines().filter(|line| marks.iter().any(|mark| line.contains(mark)));
        lines.map(|line| format!("{}: {}", source.path, line.trim())).collect::<Vec<_>>()
    });
    assert_none("do it, or write an issue", found);
}

#[test]
fn every_text_file_ends_with_one_newline_and_has_no_trailing_blanks() {
    let folders = ["src", "tests", "benches", "examples", "docs"].into_iter().flat_map(files);
    let others = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Cargo.toml", ".ci/run"];
    let endings = [".rs", ".md", ".toml", ".txt", ".sql", ".csv", "run"];
    let paths = folders.chain(others.map(str::to_owned));
    let texts = paths.filter(|path| endings.iter().any(|end| path.ends_with(end)));
    let found = texts.flat_map(|path| {
        let text = read(&path);
        let mut found = Vec::new();
        for (nth, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) || (path.ends_with(".rs") && line.contains('\t')) {
                found.push(format!("{path}:{}: white space", nth + 1));
            }
        }
        if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
            found.push(format!("{path}: ends without one line's end"));
        }
        found
    });
    assert_none("loose ends", found);
}

#[test]
fn every_test_is_named_by_what_it_asserts() {
    let found = everything().flat_map(|source| {
        let mut found = Vec::new();
        let mut is_test = false;
        for line in source.text.lines().map(str::trim) {
            is_test |= line == "#[test]";
            let name = line.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next());
            if let Some(name) = name.filter(|_| is_test) {
                is_test = false;
                if name.split('_').count() < 3 {
                    found.push(format!("{}: {name}", source.path));
                }
            }
        }
        found
    });
    assert_none("three words at least: what holds, and when", found);
}
