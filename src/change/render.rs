//! Renders a plan as text and Markdown for people, and as JSON for programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde_json::{Map, Value as Json, json};

use super::labels::{StepLabel, StepLabels};
use super::plan::{
    Conflict, JsonFields, Plan, PlanStep, PossibleRevert, UnsupportedChange, losses,
};
use crate::escaped::Escaped;
use crate::format::truncate;
use crate::model::{Resource, Verb};

/// The most lines of a section where only the end of a plan is shown.
const MAX_LINES: usize = 5;
/// The most characters of a value on its line.
const MAX_VALUE: usize = 60;
/// The most characters of the name of a record.
const MAX_LABEL: usize = 100;

/// Writes the plan as text: steps by resource, what cannot be reverted, verified or done, and the
/// cost.
///
/// # Errors
/// When writing to `out` fails.
pub fn text(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    steps(plan, out)?;
    write_end(plan, usize::MAX, out)
}

/// The plan as text for a view that [`end`] follows, so that it has only what that leaves out.
#[must_use]
pub fn without_end(plan: &Plan) -> String {
    let (mut text, mut all, mut few) = (String::new(), String::new(), String::new());
    // Writing to a string cannot fail.
    let _ = steps(plan, &mut text);
    let _ = sections(plan, usize::MAX, &mut all);
    let _ = sections(plan, MAX_LINES, &mut few);
    if all != few {
        text.push_str(&all);
    }
    text
}

fn steps(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    let labels = StepLabels::new(&plan.steps, &plan.contents);
    for (resource, steps) in by_resource(plan) {
        writeln!(out, "{resource}")?;
        for step in steps {
            step_lines(step, &labels, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the number of steps of each resource and verb, and the end of the plan as [`end`] does.
///
/// # Errors
/// When writing to `out` fails.
pub fn summary(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    for (resource, steps) in by_resource(plan) {
        writeln!(out, "{resource}: {}", verbs(steps.iter().copied()))?;
    }
    if !plan.steps.is_empty() {
        writeln!(out)?;
    }
    write_end(plan, MAX_LINES, out)
}

/// The end of a plan: what cannot be reverted, verified or done, in a few lines, and the cost.
#[must_use]
pub fn end(plan: &Plan) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_end(plan, MAX_LINES, &mut text);
    text.trim_end().to_owned()
}

fn write_end(plan: &Plan, most: usize, out: &mut impl Write) -> fmt::Result {
    sections(plan, most, out)?;
    writeln!(out, "{}", price(plan))
}

fn sections(plan: &Plan, most: usize, out: &mut impl Write) -> fmt::Result {
    let mut section = |title: &str, mut lines: Vec<String>| {
        if let more @ 1.. = lines.len().saturating_sub(most) {
            lines.truncate(most);
            lines.push(format!("and {more} more"));
        }
        section(out, title, &lines)
    };
    for (title, lines) in told_apart(plan) {
        section(title, lines)?;
    }
    section("Lost by creating again", losses(plan))?;
    section("Cannot be completely reverted", remarks(plan, |step| !step.reversible))?;
    let unseen = |step: &PlanStep| step.reversible && !step.verifiable;
    section("Cannot be verified", remarks(plan, unseen))?;
    section("Not supported", unsupported(plan, most))
}

/// The changes that concern other people's edits, by title.
fn told_apart(plan: &Plan) -> [(&'static str, Vec<String>); 3] {
    let lines = |all: &[Conflict]| all.iter().map(Conflict::line).collect();
    [
        ("May revert other people's edits, because it is not known which cells were edited", {
            plan.reverts.iter().map(PossibleRevert::line).collect()
        }),
        ("Overwrites changes in the account", lines(&plan.conflicts.overwritten)),
        ("Conflicts, not written", lines(&plan.conflicts.kept)),
    ]
}

/// One line for each unsupported change, or if these are more than `most`, the number of each
/// resource and reason. Four or more consecutive rows of a file with the same reason get one line and
/// a count, since a whole column may be in an unsupported format. Four or more changes without a row,
/// as in an undo, are listed below their number.
fn unsupported(plan: &Plan, most: usize) -> Vec<String> {
    const MIN_GROUPED: usize = 4;
    let row = |it: &UnsupportedChange| it.source.as_ref().and_then(|source| source.line);
    let alike = |one: &UnsupportedChange, next: &UnsupportedChange| {
        let file = |it: &UnsupportedChange| it.source.as_ref().map(|source| source.file.clone());
        (one.resource, &one.reason) == (next.resource, &next.reason)
            && row(one).is_some() == row(next).is_some()
            && (row(one).is_none() || file(one) == file(next))
    };
    let mut lines = Vec::new();
    for alike in plan.unsupported.chunk_by(alike) {
        let is_row = row(&alike[0]).is_some();
        let grouped = alike.len() >= MIN_GROUPED;
        if grouped && !is_row {
            lines.push(unsupported_count(alike.len(), &alike[0]));
            lines.extend(alike.iter().map(|it| format!("  {}", Escaped(cut(&it.key)))));
            continue;
        }
        for it in alike.iter().take(if grouped { 1 } else { alike.len() }) {
            let (blank, key) = (if it.key.is_empty() { "" } else { " " }, Escaped(cut(&it.key)));
            let source = it.source.as_ref().filter(|source| source.line.is_some());
            let source = source.map(|source| format!("{source}: ")).unwrap_or_default();
            let reason = Escaped(&it.reason);
            lines.push(format!("{}{}{blank}{key}: {reason}", Escaped(source), it.resource));
        }
        if let (true, Some(last)) = (grouped, alike.last().and_then(|it| it.source.as_ref())) {
            let more = alike.len() - 1;
            lines.push(format!(
                "{}: and {more} more rows up to this line, for the same reason",
                Escaped(last)
            ));
        }
    }
    if lines.len() <= most {
        return lines;
    }
    let mut counts: Vec<(&UnsupportedChange, usize)> = Vec::new();
    for it in &plan.unsupported {
        let same = |(one, _): &&mut (&UnsupportedChange, usize)| {
            (one.resource, &one.reason) == (it.resource, &it.reason)
        };
        match counts.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => counts.push((it, 1)),
        }
    }
    counts.into_iter().map(|(it, count)| unsupported_count(count, it)).collect()
}

fn unsupported_count(count: usize, change: &UnsupportedChange) -> String {
    format!("{count} of {}: {}", change.resource, Escaped(&change.reason))
}

fn by_resource(plan: &Plan) -> BTreeMap<Resource, Vec<&PlanStep>> {
    let mut groups: BTreeMap<Resource, Vec<&PlanStep>> = BTreeMap::new();
    for step in &plan.steps {
        groups.entry(step.resource).or_default().push(step);
    }
    groups
}

/// A step of `plan` as in its text.
#[must_use]
pub fn step(plan: &Plan, step: &PlanStep) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = step_lines(step, &StepLabels::new(&plan.steps, &plan.contents), &mut text);
    text
}

const fn sigil(verb: Verb) -> char {
    match verb {
        Verb::Create => '+',
        Verb::Update => '~',
        Verb::Delete => '-',
        _ => '>',
    }
}

fn step_lines(step: &PlanStep, labels: &StepLabels<'_>, out: &mut impl Write) -> fmt::Result {
    let StepLabel { key, name } = labels.label(step);
    write!(out, "  {} {}", sigil(step.verb), Escaped(cut(&key)))?;
    if !name.is_empty() {
        write!(out, "  {}", Escaped(truncate(&name, MAX_LABEL)))?;
    }
    if let Some(number) = labels.number(step) {
        write!(out, "  (step {number})")?;
    }
    if let Some(old) = step.replaces {
        write!(out, "  (was {old})")?;
    }
    writeln!(out)?;
    for (name, before, after) in lines(step) {
        match before {
            Some(before) => {
                let (before, after) = values(before, after);
                writeln!(out, "      {}: {before} -> {after}", Escaped(name))?;
            }
            None => writeln!(out, "      {}: {}", Escaped(name), value(after))?,
        }
    }
    Ok(())
}

/// The fields of a create or an update: name, old value, new value.
fn lines(step: &PlanStep) -> Vec<(&str, Option<&Json>, &Json)> {
    let has_fields = matches!(step.verb, Verb::Create | Verb::Update);
    let after = step.after.as_ref().filter(|_| has_fields);
    let before = |name: &str| -> Option<&Json> {
        step.before.as_ref().map(|before: &JsonFields| before.get(name).unwrap_or(&Json::Null))
    };
    let fields = after.into_iter().flatten();
    fields.map(|(name, after)| (name.as_str(), before(name), after)).collect()
}

/// Two values for one line. A long common beginning is cut, so that the difference is visible.
fn values(before: &Json, after: &Json) -> (String, String) {
    const CONTEXT_CHARACTERS: usize = 12;
    let (Json::String(old), Json::String(new)) = (before, after) else {
        return (value(before), value(after));
    };
    let alike = old.chars().zip(new.chars()).take_while(|(one, other)| one == other).count();
    let long = old.chars().count().max(new.chars().count()) > MAX_VALUE;
    if !long || alike <= CONTEXT_CHARACTERS {
        return (value(before), value(after));
    }
    let rest = |text: &str| {
        let rest: String = text.chars().skip(alike - CONTEXT_CHARACTERS).collect();
        value(&Json::String(format!("…{rest}")))
    };
    (rest(old), rest(new))
}

fn value(json: &Json) -> String {
    let text = match json {
        Json::Null => "nothing".to_owned(),
        Json::String(text) => {
            let text = cut(text).replace('\\', r"\\").replace('"', "\\\"");
            return format!("\"{}\"", Escaped(text));
        }
        json => json.to_string(),
    };
    Escaped(cut(&text)).to_string()
}

/// The beginning of a value.
fn cut(text: &str) -> Cow<'_, str> {
    truncate(text, MAX_VALUE)
}

/// The remarks of the selected steps, each with its number of steps.
fn remarks(plan: &Plan, holds: impl Fn(&PlanStep) -> bool) -> Vec<String> {
    let mut counts: BTreeMap<(Resource, &str, &str), u64> = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| holds(step)) {
        let remark = step.remark.as_deref().unwrap_or("the API has no way for it");
        *counts.entry((step.resource, step.verb.name(), remark)).or_default() += 1;
    }
    let line = |((resource, verb, remark), count): ((Resource, &str, &str), u64)| {
        format!("{} of {resource}: {}", plural(count, verb), Escaped(remark))
    };
    counts.into_iter().map(line).collect()
}

fn section(out: &mut impl Write, title: &str, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:")?;
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

/// The summary of a plan: `3 steps: 1 create, 2 updates. 7 requests, about 2 min.`
#[must_use]
pub fn price(plan: &Plan) -> String {
    if plan.steps.is_empty() {
        let nothing = plan.missing() == 0;
        return if nothing { "Nothing to do." } else { "No step can be taken." }.to_owned();
    }
    let verbs = verbs(plan.steps.iter());
    let steps = plural(plan.steps.len() as u64, "step");
    let requests = plural(plan.cost.requests, "request");
    let price = format!("{steps}: {verbs}. {requests}, {}.", time(plan.cost.seconds));
    if plan.cost.rereads == 0 {
        return price;
    }
    let minutes = (plan.cost.staleness / 60.0).ceil() as u64;
    let lists = match minutes {
        _ if !plan.cost.rereads_lists => String::new(),
        0 => " and to read lists again".to_owned(),
        minutes => format!(" and to read lists again that are older than {minutes} min"),
    };
    let rereads = plural(plan.cost.rereads, "request");
    format!("{price}\nThis includes {rereads} to prove the account{lists}.")
}

/// The number of steps of each verb: `1 create, 2 updates`.
fn verbs<'s>(steps: impl Iterator<Item = &'s PlanStep> + Clone) -> String {
    let verbs = [Verb::Delete, Verb::Update, Verb::Create, Verb::Assign].map(|verb| {
        let count = steps.clone().filter(|step| step.verb == verb).count() as u64;
        (count > 0).then(|| plural(count, verb.name()))
    });
    verbs.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn plural(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

fn time(seconds: f64) -> String {
    let minutes = if seconds < 60.0 { 0 } else { (seconds / 60.0).round() as u64 };
    match minutes {
        0 => "less than a minute".to_owned(),
        1..60 => format!("about {minutes} min"),
        _ => format!("about {} h {} min", minutes / 60, minutes % 60),
    }
}

/// Writes the plan as Markdown, with a table for each resource.
///
/// # Errors
/// When writing to `out` fails.
pub fn markdown(plan: &Plan, out: &mut impl Write) -> fmt::Result {
    let labels = StepLabels::new(&plan.steps, &plan.contents);
    for (resource, steps) in by_resource(plan) {
        writeln!(out, "### {}\n", escaped(resource.name()))?;
        writeln!(out, "| | record | name | field | before | after |")?;
        writeln!(out, "|---|---|---|---|---|---|")?;
        for step in steps {
            let StepLabel { key, name } = labels.label(step);
            let number = labels.number(step).map(|number| format!(" (step {number})"));
            let name = format!("{name}{}", number.unwrap_or_default());
            let head = [step.verb.name(), &key, name.trim()];
            let head = head.map(|it| escaped(&truncate(it, MAX_LABEL))).join(" | ");
            let lines = lines(step);
            if lines.is_empty() {
                writeln!(out, "| {head} | | | |")?;
            }
            for (name, before, after) in lines {
                let both = before.map(|before| values(before, after));
                let (before, after) = both.unwrap_or_else(|| (String::new(), value(after)));
                let (before, after) = (escaped(&before), escaped(&after));
                writeln!(out, "| {head} | {} | {before} | {after} |", escaped(name))?;
            }
        }
        writeln!(out)?;
    }
    for (title, lines) in told_apart(plan) {
        bullets(out, title, lines.iter().map(|it| escaped(it)))?;
    }
    bullets(out, "Lost by creating again", losses(plan).iter().map(|it| escaped(it)))?;
    let undone = remarks(plan, |step| !step.reversible);
    bullets(out, "Cannot be completely reverted", undone.iter().map(|it| escaped(it)))?;
    let unseen = remarks(plan, |step| step.reversible && !step.verifiable);
    bullets(out, "Cannot be verified", unseen.iter().map(|it| escaped(it)))?;
    let unsupported = plan.unsupported.iter().map(|it| {
        let key = escaped(&cut(&it.key));
        format!("{} {key}: {}", escaped(it.resource.name()), escaped(&it.reason))
    });
    bullets(out, "Not supported", unsupported)?;
    writeln!(out, "{}", price(plan))
}

fn bullets(out: &mut impl Write, title: &str, lines: impl Iterator<Item = String>) -> fmt::Result {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "**{title}**\n")?;
    for line in lines {
        writeln!(out, "- {line}")?;
    }
    writeln!(out)
}

/// Text on one line, escaped for Markdown.
#[must_use]
pub fn escaped(text: &str) -> String {
    let shown = Escaped(text).to_string();
    let mut out = String::with_capacity(shown.len());
    for letter in shown.chars() {
        match letter {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => out.extend(['\\', letter]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            other => out.push(other),
        }
    }
    out
}

/// The plan as the document that `plan --json` prints.
#[must_use]
pub fn document(plan: &Plan, account: &str) -> Json {
    let labels = StepLabels::new(&plan.steps, &plan.contents);
    let mut document = Map::new();
    document.insert("format".to_owned(), json!(1));
    document.insert("account".to_owned(), json!(account));
    if let Ok(Json::Object(rest)) = serde_json::to_value(plan) {
        document.extend(rest);
    }
    document.insert(
        "conflicts".to_owned(),
        json!({ "kept": plan.conflicts.kept, "overwritten": plan.conflicts.overwritten }),
    );
    document.insert("possible_reverts".to_owned(), json!(plan.reverts));
    let steps = document.get_mut("steps").and_then(Json::as_array_mut);
    for (step, shown) in plan.steps.iter().zip(steps.into_iter().flatten()) {
        if let Some(content) = labels.content(step) {
            shown["content"] = json!(content);
        }
    }
    Json::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::plan::PlanCost;
    use crate::change::plan::tests::plan_with_every_verb;

    fn as_text(plan: &Plan) -> String {
        let mut out = String::new();
        text(plan, &mut out).unwrap();
        out
    }

    #[test]
    fn a_plan_is_listed_by_resource_and_ends_with_its_cost() {
        let shown = as_text(&plan_with_every_verb());
        let begins = "campaigns\n  - 2  Old\n  ~ 1  Spring\n      public: false -> true\n  + New  (step 7)\n";
        assert!(shown.contains(begins), "{shown}");
        assert!(shown.contains("  > 1/links/33  Spring\n"), "{shown}");
        let refers = "  > links/33  to campaign `New` (created by step 7)\n";
        assert!(shown.contains(refers), "{shown}");
        let ends = "\
Cannot be completely reverted:
  2 assigns of campaigns: the API cannot unassign, and no list shows it
  1 delete of campaigns: what was deleted comes back with a new id
  2 assigns of channel_items: the API cannot unassign
  1 update of qr_codes: what it replaces is not known
  1 create of pixels: the API cannot delete a pixel

Not supported:
  sheet.csv:3: pixels 6: the API cannot change the `name` of a pixel

14 steps: 1 delete, 5 updates, 4 creates, 4 assigns. 32 requests, about 1 min.
";
        assert!(shown.ends_with(ends), "{shown}");
        assert_eq!(as_text(&Plan::default()), "Nothing to do.\n");
    }

    #[test]
    fn a_summary_counts_the_steps_of_each_resource_and_ends_as_the_plan() {
        let mut plan = plan_with_every_verb();
        let unsupported = plan.unsupported[0].clone();
        let mut short = String::new();
        summary(&plan, &mut short).unwrap();
        let begins = "account: 1 update\ndomains: 1 update\n\
                      campaigns: 1 delete, 1 update, 1 create, 2 assigns\nchannels: ";
        assert!(short.starts_with(begins), "{short}");
        assert!(as_text(&plan).contains(&end(&plan)) && short.contains(&end(&plan)));
        plan.unsupported = (0..9)
            .map(|nth| UnsupportedChange {
                source: None,
                key: nth.to_string(),
                ..unsupported.clone()
            })
            .collect();
        let end = end(&plan);
        assert!(end.contains("Not supported:\n  9 of pixels: the API cannot "), "{end}");
        let all = as_text(&plan);
        assert!(all.contains(
            "\n  9 of pixels: the API cannot change the `name` of a pixel\n    0\n    1\n"
        ));
        let pages = without_end(&plan);
        assert_eq!(all, format!("{pages}{}\n", price(&plan)), "{pages}");
        // One kind does not hide another.
        plan.unsupported[8].resource = Resource::ChannelItems;
        let end = super::end(&plan);
        assert!(
            end.contains("  8 of pixels: the API") && end.contains("  1 of channel_items: "),
            "{end}"
        );
    }

    #[test]
    fn the_cost_mentions_lists_that_are_read_again() {
        let price = |rereads, rereads_lists, staleness| {
            let cost = PlanCost { rereads, rereads_lists, staleness, ..PlanCost::default() };
            let text = price(&Plan { cost, ..crate::change::plan::tests::steps(1) });
            text.lines().nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(price(0, false, 300.0), "");
        let proofs = "This includes 2 requests to prove the account";
        assert_eq!(price(2, false, 300.0), format!("{proofs}."));
        let lists = " and to read lists again that are older than 5 min.";
        assert_eq!(price(2, true, 300.0), format!("{proofs}{lists}"));
        assert_eq!(price(2, true, 0.0), format!("{proofs} and to read lists again."));
    }

    #[test]
    fn many_rows_with_the_same_reason_are_listed_once() {
        let mut plan = plan_with_every_verb();
        let first = plan.unsupported[0].clone();
        let line = |line| {
            let mut it = first.clone();
            it.source.as_mut().unwrap().line = Some(line);
            it
        };
        plan.unsupported = (3..6).map(line).collect();
        assert!(as_text(&plan).contains("sheet.csv:5: pixels 6: the API"));
        plan.unsupported = (3..9).map(line).collect();
        let expected = "\
  sheet.csv:3: pixels 6: the API cannot change the `name` of a pixel
  sheet.csv:8: and 5 more rows up to this line, for the same reason

14 steps";
        assert!(as_text(&plan).contains(expected), "{}", as_text(&plan));
    }

    #[test]
    fn long_values_that_begin_alike_show_where_they_differ() {
        let url = |end: &str| Json::String(format!("https://example.com/{}{end}", "a".repeat(80)));
        let (before, after) = values(&url("/one"), &url("/two"));
        assert_eq!(before, "\"…aaaaaaaaaaa/one\"");
        assert_eq!(after, "\"…aaaaaaaaaaa/two\"");
        let (before, after) = values(&Json::from("a"), &Json::from("b\\\"\n"));
        assert_eq!((before.as_str(), after.as_str()), ("\"a\"", r#""b\\\"\n""#));
    }

    #[test]
    fn untrusted_text_is_escaped_for_terminal_and_table() {
        let mut plan = plan_with_every_verb();
        let evil = "a|b`c\u{1b}[2J\n| x | <img>";
        plan.steps[3].name = evil.to_owned();
        plan.unsupported[0].key = evil.to_owned();
        let shown = as_text(&plan);
        assert!(!shown.contains('\u{1b}') && shown.contains(r"\u{1b}[2J\n"), "{shown}");
        let mut table = String::new();
        markdown(&plan, &mut table).unwrap();
        assert!(table.contains(r"a\|b\`c\\u{1b}\[2J\\n\| x \| &lt;img&gt;"), "{table}");
    }

    #[test]
    fn the_document_has_stable_keys() {
        let document = document(&plan_with_every_verb(), "main");
        assert_eq!((&document["format"], &document["account"]), (&json!(1), &json!("main")));
        assert_eq!((&document["requests"], &document["seconds"]), (&json!(32), &json!(60.0)));
        let unsupported = &document["unsupported"][0];
        assert_eq!(unsupported["reason"], "the API cannot change the `name` of a pixel");
        let steps = document["steps"].as_array().unwrap();
        for step in steps {
            for key in ["resource", "verb", "key", "before", "after", "reversible"] {
                assert!(step.get(key).is_some(), "{key} {step}");
            }
        }
        assert_eq!((&steps[0]["verb"], &steps[0]["after"]), (&json!("delete"), &Json::Null));
    }
}
