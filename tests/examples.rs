//! Runs the programs in `examples/` unchanged.

mod deploy;

use crate::support::TestEnvironment;

#[allow(dead_code)]
#[path = "../examples/back_up.rs"]
mod back_up;
#[allow(dead_code)]
#[path = "../examples/compare.rs"]
mod compare;
#[allow(dead_code)]
#[path = "../examples/transport.rs"]
mod transport;

fn printed(run: impl FnOnce(&mut Vec<u8>) -> Result<(), Box<dyn std::error::Error>>) -> String {
    let mut out = Vec::new();
    run(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_library_example_back_up_saves_the_whole_account() {
    let text = printed(back_up::run);
    assert!(text.starts_with("snapshot #1: complete\n   1 account (complete)\n"), "{text}");
    assert!(text.contains("\"Spring Reading List\""), "{text}");
}

#[test]
fn the_library_example_compare_prints_each_change() {
    let text = printed(compare::run);
    let renamed = "campaigns 3 changed\n    name: \"Newsletter\" -> \"Letter to readers\"\n";
    assert!(text.starts_with(renamed), "{text}");
    assert!(text.contains("campaigns 9 added\n"), "{text}");
}

#[test]
fn a_custom_transport_can_make_a_backup() {
    let text = printed(transport::run);
    assert!(text.starts_with("200 GET /api/account\n"), "{text}");
    assert!(text.ends_with("the replay is the same\n"), "{text}");
}

#[test]
fn every_example_is_run_by_a_test() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let ours = include_str!("examples.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let run = ours.contains(&format!("examples/{name}\""));
        assert!(run || !name.ends_with(".rs"), "{name}");
    }
}

#[test]
fn the_sample_configuration_is_valid() {
    let environment = TestEnvironment::new().config(include_str!("../examples/config.toml"));
    let ran = environment.run(&["snapshots", "intranet"]).exits_with(1);
    ran.stderr_has("intranet has no vault yet");
}
