//! Saved plans: `change::plan::saved`.

use linkvault::change::plan::saved::{MAX_PLAN_BYTES, SavedPlan, read};

pub const WORDS: &[&str] = &[
    "\"format\": 1",
    "\"digest\": \"",
    "\"steps\": [",
    "\"verb\": \"create\"",
    "\"verb\": \"delete\"",
    "\"verb\": \"update\"",
    "\"verb\": \"assign\"",
    "\"resource\": \"campaigns\"",
    "\"id\": null",
    "\"resource\": \"qr_codes\"",
    "\"waits_for\": [1]",
    "\"reversible\": true",
    "\"verifiable\": false",
    "\"step\": 2",
    "\"before\": {",
    "\"after\": {",
    "\"request\": {",
    "\"method\": \"POST\"",
    "\"path\": \"/api/campaign/add\"",
    "\"path\": \"/api/campaign/1/delete\"",
    "../",
    "?",
    "%2f",
    "\"replaces\": 1",
    "{1}",
    "null",
    "-1",
    "[]",
    "{}",
];

pub fn run(input: &[u8]) {
    // The digest guards against accidents, not against attackers: with a right one, all the
    // other checks have to hold.
    let signed = signed(input);
    for bytes in [Some(input), signed.as_deref()].into_iter().flatten() {
        match read(bytes) {
            Ok(plan) => accepted(&plan),
            Err(error) => super::assert_readable(
                &error.to_string().replace(char::is_control, " "),
                2000 + input.len(),
            ),
        }
    }
}

/// The input with the digest that belongs to it, if it is a plan at all.
fn signed(input: &[u8]) -> Option<Vec<u8>> {
    if input.len() > MAX_PLAN_BYTES {
        return None;
    }
    let plan: SavedPlan = serde_json::from_slice(input).ok()?;
    Some(plan.to_json().into_bytes())
}

fn accepted(plan: &SavedPlan) {
    let again = read(plan.to_json().as_bytes());
    assert_eq!(again.as_ref(), Ok(plan), "a plan that was accepted is accepted again");
    for (nth, step) in plan.plan.steps.iter().enumerate() {
        assert_eq!(step.step as usize, nth + 1);
        let request = &step.request;
        assert!(request.path.starts_with("/api/"), "{}", request.path);
        let plain = |it: char| it.is_ascii_alphanumeric() || "/{}-_".contains(it);
        assert!(request.path.chars().all(plain), "{}", request.path);
        assert!(step.waits_for.iter().all(|it| *it < step.step), "{:?}", step.waits_for);
    }
}
