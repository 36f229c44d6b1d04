//! Shows plans as text and JSON.

use serde_json::{Value, json};

use crate::change::plan::{Plan, PlanStep};
use crate::change::render;
use crate::cli::plan_args::PlanFormat;
use crate::cli::{CliError, Output, Paint};
use crate::config::AccountConfig;
use crate::format;
use crate::ops::observation::Observation;

/// The fewest lines of a plan for which `--summary` is mentioned.
const LONG_PLAN: usize = 200;

/// The JSON document of a plan. `name` is the input.
#[must_use]
pub fn document(plan: &Plan, account: &AccountConfig, name: &str, looked: &Observation) -> Value {
    let mut document = render::document(plan, &account.name);
    document["from"] = json!(name);
    document["limit"] = json!(looked.rate.limit);
    document["reserve"] = json!(looked.rate.reserve);
    document
}

/// Prints a plan. `answer`: the user asked for the plan itself, so `-q` does not suppress it.
pub fn show(out: &Output, plan: &Plan, form: PlanFormat, answer: bool) -> Result<(), CliError> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match form {
        PlanFormat::Text if out.plans().summary => render::summary(plan, &mut text),
        PlanFormat::Text => render::text(plan, &mut text),
        PlanFormat::Markdown => render::markdown(plan, &mut text),
    };
    if form == PlanFormat::Markdown {
        out.raw(text.as_bytes())?;
    } else {
        let colored = |text: &str| {
            let lines: Vec<_> = text.trim_end().lines().map(|line| painted(out, line)).collect();
            lines.join("\n")
        };
        let pages = || out.wrapped(&colored(&render::without_end(plan)));
        if !out.plans().summary && out.page(&out.wrapped(&text), pages)? {
            out.answer(format_args!("\n{}", render::end(plan)), answer)?;
            if let lines @ LONG_PLAN.. = text.lines().count() {
                let lines = format::count(lines as u64);
                out.note(format_args!(
                    "the plan has {lines} lines; --summary prints its counts only"
                ));
            }
        } else {
            out.answer(colored(&text), answer)?;
        }
    }
    for it in &plan.reused {
        let (title, id) = (it.resource.spec().title, it.id);
        out.note(format_args!(
            "{title} {id} was deleted; its id belongs to {} now, which is not updated",
            if it.name.is_empty() { "another one" } else { &it.name }
        ));
    }
    Ok(())
}

/// A step of `plan` as in its text.
#[must_use]
pub fn step(out: &Output, plan: &Plan, step: &PlanStep) -> String {
    let text = render::step(plan, step);
    let lines: Vec<_> = text.trim_end().lines().map(|line| painted(out, line)).collect();
    format!("{}\n{}", step.resource, lines.join("\n"))
}

fn painted(out: &Output, line: &str) -> String {
    let paint = match line.trim_start().split(' ').next() {
        Some("+") => Paint::Added,
        Some("~") => Paint::Changed,
        Some("-") => Paint::Removed,
        Some(">") => Paint::Hint,
        _ => return line.to_owned(),
    };
    out.paint(paint, line)
}
