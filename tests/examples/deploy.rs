//! The files in `examples/deploy/fleet/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

#[cfg(feature = "fleet")]
use clap::Parser as _;
#[cfg(feature = "fleet")]
use linkvault::cli::Cli;
#[cfg(feature = "fleet")]
use linkvault::config::{Config, Home};
use serde_json::Value;

const RULES: &str = include_str!("../../examples/deploy/fleet/prometheus-rules.yaml");
const DASHBOARD: &str = include_str!("../../examples/deploy/fleet/grafana.json");
const ADAPTER: &str = include_str!("../../examples/deploy/fleet/prometheus-adapter.yaml");
const UI_METRICS: &str = include_str!("../../src/ui/metrics.rs");
const SOURCE_OF_WORKER_METRICS: &str = include_str!("../../src/worker/metrics.rs");

/// The metrics of `linkvault worker`.
const WORKER_METRICS: [&str; 7] = [
    "linkvault_worker_slots",
    "linkvault_worker_slots_used",
    "linkvault_worker_backlog",
    "linkvault_worker_attempts_total",
    "linkvault_worker_requests_total",
    "linkvault_worker_lost_total",
    "linkvault_worker_last_complete_timestamp_seconds",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy/fleet")
}

const SERVICES: [&str; 2] = ["linkvault.service", "linkvault-once.service"];

/// The values of a key of a unit.
fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
    let pairs = unit.lines().filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| *name == key).flat_map(|(_, value)| value.split(' ')).collect()
}

/// The rest of the file system is read-only for the units, and a dynamic user owns nothing there.
#[test]
fn the_units_can_write_to_the_documented_folders() {
    let manual = include_str!("../../docs/configuration.md");
    let folder_after = |start: &str| {
        let text = manual.lines().find_map(|line| line.strip_prefix(start)).unwrap();
        format!("-{}", text.split('"').nth(1).unwrap())
    };
    let documented = [folder_after("copy = "), folder_after("export = { to = ")];
    for name in SERVICES {
        let unit = std::fs::read_to_string(folder().join("..").join(name)).unwrap();
        let writable = values(&unit, "ReadWritePaths");
        assert_eq!(writable, documented, "{name}");
        assert_eq!(values(&unit, "ProtectSystem"), ["strict"], "{name}");
        assert_eq!(values(&unit, "StateDirectory"), ["linkvault"], "{name}");
        let home = values(&unit, "Environment");
        assert!(home.contains(&"LINKVAULT_HOME=/var/lib/linkvault"), "{name}");
        assert_eq!(values(&unit, "User"), ["linkvault"], "{name}");
        assert_eq!(values(&unit, "DynamicUser"), [""; 0], "{name}");
    }
}

/// Where the tool is not installed this says so and tries nothing; with
/// `LINKVAULT_NEEDS_SYSTEMD` that is a failure.
#[test]
#[allow(clippy::print_stdout)]
fn systemd_finds_nothing_wrong_with_the_units() {
    let copies = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for name in SERVICES.into_iter().chain(["linkvault-once.timer"]) {
        let unit = std::fs::read_to_string(folder().join("..").join(name)).unwrap();
        let installed = env!("CARGO_BIN_EXE_linkvault");
        let file = copies.path().join(name);
        std::fs::write(&file, unit.replace("/usr/local/bin/linkvault", installed)).unwrap();
        files.push(file);
    }
    let mut command = Command::new("systemd-analyze");
    let output = match command.args(["verify", "--man=no"]).args(files).output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("LINKVAULT_NEEDS_SYSTEMD").is_none(), "{error}");
            println!("skipped: systemd-analyze is not installed");
            return;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    // It also reads the units of the machine.
    let ours: Vec<_> = told.lines().filter(|line| line.contains("linkvault")).collect();
    assert!(output.status.success() && ours.is_empty(), "{told}");
}

/// Where the tool is not installed this says so and tries nothing; with
/// `LINKVAULT_NEEDS_PROMTOOL` that is a failure.
#[test]
#[allow(clippy::print_stdout)]
fn each_alert_fires_when_it_should_and_not_otherwise() {
    let tests = folder().join("prometheus-rules-test.yaml");
    for (verb, file) in [("check", "prometheus-rules.yaml"), ("test", "prometheus-rules-test.yaml")]
    {
        let run =
            Command::new("promtool").args([verb, "rules", file]).current_dir(folder()).output();
        let output = match run {
            Ok(output) => output,
            Err(error) => {
                assert!(std::env::var_os("LINKVAULT_NEEDS_PROMTOOL").is_none(), "{error}");
                println!("skipped: promtool is not installed");
                return;
            }
        };
        let told =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
    }
    let tests = std::fs::read_to_string(tests).unwrap();
    let fleet = RULES.split("name: linkvault-fleet").nth(1).unwrap();
    for alert in fleet.split("- alert: ").skip(1).filter_map(|it| it.lines().next()) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
    }
}

/// The names that begin with `linkvault_`, without those of the test data.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let starts = text.match_indices("linkvault_").map(|(at, _)| at);
    starts.map(|at| text[at..].split(|it| !is_part(it)).next().unwrap()).collect()
}

#[test]
fn every_metric_in_a_rule_and_on_the_dashboard_exists() {
    let mut used = BTreeSet::new();
    for text in [RULES, DASHBOARD, ADAPTER] {
        used.extend(metrics(text));
    }
    for metric in &used {
        // Those of `ui --fleet` have a prefix of their own.
        let name = metric.trim_start_matches("linkvault_").trim_start_matches("fleet_");
        let name = name.trim_end_matches("_total");
        let is_of_pages = UI_METRICS.contains(&format!("\"{name}\""));
        assert!(is_of_pages || WORKER_METRICS.contains(metric), "{metric}");
    }
    for metric in WORKER_METRICS {
        let name = metric.trim_start_matches("linkvault_worker_").trim_end_matches("_total");
        assert!(SOURCE_OF_WORKER_METRICS.contains(&format!("\"{name}\"")), "{metric}");
        assert!(used.contains(metric), "no rule and no panel shows {metric}");
    }
}

#[test]
fn every_panel_of_the_dashboard_has_a_title_and_a_place_of_its_own() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty());
        assert!(panel["type"] == "row" || !panel["targets"].as_array().unwrap().is_empty());
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(x < 24 && taken.insert((x, y)), "{title}: {x}, {y}");
            }
        }
    }
}

#[cfg(feature = "fleet")]
#[test]
fn the_configurations_of_the_workers_are_valid() {
    for name in ["config.toml", "compose.toml"] {
        let text = std::fs::read(folder().join(name)).unwrap();
        let config = Config::parse(&Home::at(Path::new("/data")), &text).unwrap();
        assert_eq!(config.accounts().len(), 2, "{name}");
        for account in config.accounts() {
            assert!(account.store.is_some() && account.settings.schedule.is_some(), "{name}");
        }
    }
}

/// The documents of the YAML files in `examples/deploy/`, by name of the file.
#[cfg(feature = "fleet")]
fn documents() -> Option<Vec<(String, Value)>> {
    // moto needs PyYAML, and is installed with it.
    let moto = crate::fleet::programs::find("moto_server")?.canonicalize().unwrap();
    let python = moto.with_file_name("python");
    let script = "import json, pathlib, sys, yaml\n\
        files = pathlib.Path(sys.argv[1]).rglob('*.yaml')\n\
        print(json.dumps([(f.name, d) for f in files for d in yaml.safe_load_all(f.read_text())]))";
    let output =
        Command::new(python).args(["-c", script]).arg(folder().parent().unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[cfg(feature = "fleet")]
#[test]
fn every_manifest_refers_to_resources_that_exist() {
    let Some(documents) = documents() else { return };
    let of_kind = |kind: &str| -> Vec<&Value> {
        documents.iter().map(|(_, it)| it).filter(|it| it["kind"] == kind).collect()
    };
    let only = |kind: &str| -> &Value {
        let [one] = of_kind(kind)[..] else { panic!("{kind}") };
        one
    };
    let worker = only("Deployment");
    let labels = &worker["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&worker["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let scaler = &only("HorizontalPodAutoscaler")["spec"];
    assert_eq!(scaler["scaleTargetRef"]["name"], worker["metadata"]["name"]);
    assert!(
        WORKER_METRICS
            .contains(&scaler["metrics"][0]["external"]["metric"]["name"].as_str().unwrap())
    );

    let kustomization = only("Kustomization");
    for file in kustomization["resources"].as_array().unwrap() {
        assert!(documents.iter().any(|(name, _)| name == file), "{file}");
    }
    let config = &kustomization["configMapGenerator"][0]["name"];
    let secrets: Vec<_> = of_kind("Secret").into_iter().map(|it| &it["metadata"]["name"]).collect();
    for pod in [worker, only("Job")].map(|it| &it["spec"]["template"]["spec"]) {
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        let volumes = pod["volumes"].as_array().unwrap();
        for mount in container["volumeMounts"].as_array().unwrap() {
            assert!(volumes.iter().any(|it| it["name"] == mount["name"]), "{mount}");
        }
        for volume in volumes {
            let map = volume.pointer("/configMap/name");
            assert!(map.is_none_or(|it| it == config), "{volume}");
            let secret = volume.pointer("/secret/secretName");
            assert!(secret.is_none_or(|it| secrets.contains(&it)), "{volume}");
        }
    }
}

/// The arguments of every container of linkvault in a document.
#[cfg(feature = "fleet")]
fn command_lines(document: &Value) -> Vec<Vec<String>> {
    let words = |it: &Value| match it {
        Value::String(line) => line.split_whitespace().map(str::to_owned).collect(),
        Value::Array(words) => words.iter().map(|it| it.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    };
    let inner: Vec<&Value> = match document {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => return Vec::new(),
    };
    let mut found: Vec<_> = inner.into_iter().flat_map(command_lines).collect();
    if document["image"].as_str().is_some_and(|it| it.starts_with("linkvault")) {
        found.push([words(&document["args"]), words(&document["command"])].concat());
    }
    found
}

#[cfg(feature = "fleet")]
#[test]
fn every_command_of_a_container_parses() {
    let Some(documents) = documents() else { return };
    let lines = documents.iter().flat_map(|(_, it)| command_lines(it));
    let lines: Vec<_> = lines.filter(|it| !it.is_empty()).collect();
    for line in &lines {
        let whole = ["linkvault"].into_iter().chain(line.iter().map(String::as_str));
        Cli::try_parse_from(whole).unwrap_or_else(|error| panic!("{line:?}\n{error}"));
    }
    assert_eq!(lines.len(), 6, "{lines:?}");
}
