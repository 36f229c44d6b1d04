//! The commands that need no account: template, capabilities, completions, man.

use crate::support::TestEnvironment;

#[test]
fn a_template_is_the_header_of_the_csv_file() {
    let environment = TestEnvironment::new();
    environment
        .run(&["template", "campaigns"])
        .succeeds()
        .stdout_is("id,name,public,slug\n")
        .stderr_is("");
    environment.run(&["template", "channel_items"]).succeeds().stdout_is("channel,type,id\n");
    environment.run(&["template", "campaign_links"]).succeeds().stdout_is("campaign,link\n");
}

#[test]
fn a_template_of_a_read_only_resource_prints_a_note() {
    let ran = TestEnvironment::new().run(&["template", "overlays"]).succeeds();
    ran.stdout_is("id,name\n").stderr_is("the API can neither create nor change overlays\n");
}

#[test]
fn a_template_as_json_lists_the_columns() {
    let ran = TestEnvironment::new().run(&["template", "pixels", "--json"]).succeeds();
    assert_eq!(ran.json()["columns"], serde_json::json!(["id", "type", "name", "tag"]));
}

#[test]
fn capabilities_are_printed_in_three_formats() {
    let environment = TestEnvironment::new();
    let text = environment.run(&["capabilities"]).succeeds().stdout();
    assert!(text.starts_with("RESOURCE "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let markdown = environment.run(&["capabilities", "--markdown"]).succeeds().stdout();
    assert!(markdown.starts_with("| resource |"), "{markdown}");
    let json = environment.run(&["capabilities", "--json"]).succeeds().json();
    let resources = json["resources"].as_array().unwrap();
    let endpoints = |r: &serde_json::Value| r["endpoints"].as_array().unwrap().len();
    assert_eq!(resources.iter().map(endpoints).sum::<usize>(), 26);
}

#[test]
fn completions_know_the_resources() {
    let environment = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish"] {
        environment
            .run(&["completions", shell])
            .succeeds()
            .stdout_has("splash_pages")
            .stderr_is("");
    }
    for shell in ["elvish", "powershell"] {
        environment
            .run(&["completions", shell])
            .succeeds()
            .stdout_has("capabilities")
            .stderr_is("");
    }
}

#[test]
fn each_command_has_a_man_page() {
    let environment = TestEnvironment::new();
    environment.run(&["man"]).succeeds().stdout_has(".TH linkvault 1");
    let ran = environment.run(&["man", "--to", "pages"]).succeeds();
    ran.stdout_is("The pages are in pages\n");
    for page in ["linkvault.1", "linkvault-backup.1", "linkvault-man.1"] {
        let text = std::fs::read_to_string(environment.path("pages").join(page)).unwrap();
        assert!(text.contains("linkvault"), "{page}");
    }
}
