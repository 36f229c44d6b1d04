//! The commands that need no account: template, capabilities, completions, man.

use crate::support::TestEnvironment;

#[test]
fn a_template_is_the_header_of_the_csv_file() {
    let environment = TestEnvironment::new();
    environment.run(&["template", "campaigns"]).succeeds().prints("id,name,public,slug\n").says("");
    environment.run(&["template", "channel_items"]).succeeds().prints("channel,type,id\n");
    environment.run(&["template", "campaign_links"]).succeeds().prints("campaign,link\n");
}

#[test]
fn a_template_of_what_cannot_be_written_says_so() {
    let ran = TestEnvironment::new().run(&["template", "overlays"]).succeeds();
    ran.prints("id,name\n").says("the API can neither create nor change overlays\n");
}

#[test]
fn a_template_as_json_lists_the_columns() {
    let ran = TestEnvironment::new().run(&["template", "pixels", "--json"]).succeeds();
    assert_eq!(ran.json()["columns"], serde_json::json!(["id", "type", "name", "tag"]));
}

#[test]
fn capabilities_are_told_in_three_forms() {
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
        environment.run(&["completions", shell]).succeeds().prints_among("splash_pages").says("");
    }
    for shell in ["elvish", "powershell"] {
        environment.run(&["completions", shell]).succeeds().prints_among("capabilities").says("");
    }
}

#[test]
fn there_is_a_page_for_each_command() {
    let environment = TestEnvironment::new();
    environment.run(&["man"]).succeeds().prints_among(".TH linkvault 1");
    let ran = environment.run(&["man", "--to", "pages"]).succeeds();
    ran.prints("The pages are in pages\n");
    for page in ["linkvault.1", "linkvault-backup.1", "linkvault-man.1"] {
        let text = std::fs::read_to_string(environment.path("pages").join(page)).unwrap();
        assert!(text.contains("linkvault"), "{page}");
    }
}
