//! One natural key for every command.

use crate::support::TestEnvironment;

/// The ids that `diff` and `plan` find for the only row of `file`.
fn ids(environment: &TestEnvironment, file: &str) -> (Option<i64>, Option<i64>) {
    let diff = environment.run(&["diff", "sandbox", file, "--json"]).succeeds().json();
    let plan = environment.run(&["plan", file, "--to", "sandbox", "--json"]).succeeds().json();
    (diff["changes"][0]["id"].as_i64(), plan["steps"][0]["id"].as_i64())
}

#[test]
fn diff_and_plan_match_a_row_with_the_same_record() {
    let environment = TestEnvironment::new()
        .file("pixels.csv", "type,tag,name\ngtmpixel,gtm-ex4mpl,Tag manager\n")
        .file(
            "domains.csv",
            "domain,redirect404\nhttp://GO.lantern-books.example.com/,https://x.example/\n",
        );
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    assert_eq!(ids(&environment, "pixels.csv"), (None, None), "another tag is another pixel");
    assert_eq!(ids(&environment, "domains.csv"), (Some(1), Some(1)), "a domain is its host");
}

#[test]
fn a_qr_code_created_by_linkvault_is_matched_by_content() {
    let environment = TestEnvironment::new().file("qr_codes.csv", "type,data\ntext,Open at nine\n");
    environment.run(&["backup", "sandbox", "-q"]).succeeds();
    environment.run(&["import", "qr_codes.csv", "--to", "sandbox", "-y", "-q"]).succeeds();
    assert_eq!(ids(&environment, "qr_codes.csv"), (None, None), "it is there already");
    let diff = environment.run(&["diff", "sandbox@live", "qr_codes.csv", "--json"]).succeeds();
    assert_eq!(diff.json()["changes"], serde_json::json!([]));
}
