//! Shows plans as text and JSON.

use serde_json::{Value, json};

use crate::change::plan::Plan;
use crate::change::render;
use crate::cli::plan_args::PlanFormat;
use crate::cli::{CliError, Output, Paint};
use crate::config::AccountConfig;
use crate::ops::observation::Observation;

/// The JSON document of a plan. `name` is the input.
#[must_use]
pub fn document(plan: &Plan, account: &AccountConfig, name: &str, looked: &Observation) -> Value {
    let mut document = render::document(plan, &account.name);
    document["from"] = json!(name);
    document["limit"] = json!(looked.limit);
    document["reserve"] = json!(looked.reserve);
    document
}

/// Prints a plan. `answer`: the user asked for the plan itself, so `-q` does not suppress it.
pub fn show(out: &Output, plan: &Plan, form: PlanFormat, answer: bool) -> Result<(), CliError> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match form {
        PlanFormat::Text => render::text(plan, &mut text),
        PlanFormat::Markdown => render::markdown(plan, &mut text),
    };
    for it in &plan.reused {
        let (title, id) = (it.resource.spec().title, it.id);
        out.note(format_args!(
            "{title} {id} was deleted; its id belongs to {} now, which is not updated",
            if it.name.is_empty() { "another one" } else { &it.name }
        ));
    }
    if form == PlanFormat::Markdown {
        return out.raw(text.as_bytes());
    }
    for line in text.trim_end().lines() {
        let paint = match line.trim_start().split(' ').next() {
            Some("+") => Some(Paint::Added),
            Some("~") => Some(Paint::Changed),
            Some("-") => Some(Paint::Removed),
            Some(">") => Some(Paint::Hint),
            _ => None,
        };
        let line = paint.map_or_else(|| line.to_owned(), |it| out.paint(it, line));
        out.answer(line, answer)?;
    }
    Ok(())
}
