//! How the record of a step is called: a QR code by its content, a record that the plan creates by
//! the step that creates it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::plan::request::ResolvedRef;
use super::plan::{JsonFields, PlanStep};
use crate::model::{RecordKey, Resource, SentValues, Verb};

/// The field with the content of a QR code, which no list returns.
pub const CONTENT: &str = "data";

/// The content of a QR code as text; `None` if it is not known or empty.
#[must_use]
pub fn content_text(data: &Json) -> Option<String> {
    match data {
        Json::Null => None,
        Json::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

/// The known contents of QR codes, by id.
#[must_use]
pub fn contents(sent: &SentValues) -> BTreeMap<i64, String> {
    let codes = sent.iter().filter(|((resource, _), _)| *resource == Resource::QrCodes);
    let content = |(key, fields): (&RecordKey, &crate::model::sent_values::SentFields)| {
        Some((key.id(), content_text(fields.get(CONTENT)?)?))
    };
    codes.filter_map(|((_, key), fields)| content((key, fields))).collect()
}

/// Names the records of the steps of a plan or a run.
pub struct StepLabels<'a> {
    steps: BTreeMap<u32, &'a PlanStep>,
    referred: BTreeSet<u32>,
    contents: &'a BTreeMap<i64, String>,
}

/// The two parts of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLabel {
    /// The key of the record, or of the item that is assigned.
    pub key: String,
    /// Its name, or where the item is assigned; may be empty.
    pub name: String,
}

impl<'a> StepLabels<'a> {
    /// Labels for `steps`, with the known contents of QR codes.
    #[must_use]
    pub fn new(
        steps: impl IntoIterator<Item = &'a PlanStep>,
        contents: &'a BTreeMap<i64, String>,
    ) -> Self {
        let steps: BTreeMap<_, _> = steps.into_iter().map(|step| (step.step, step)).collect();
        let referred = steps.values().flat_map(|step| step.waits_for.iter().copied()).collect();
        Self { steps, referred, contents }
    }

    /// The step's number, if the label of another step names it.
    #[must_use]
    pub fn number(&self, step: &PlanStep) -> Option<u32> {
        self.referred.contains(&step.step).then_some(step.step)
    }

    /// The content of the QR code that the step changes, or that it assigns; `None` if unknown.
    #[must_use]
    pub fn content(&self, step: &PlanStep) -> Option<String> {
        let of = |fields: &Option<JsonFields>| content_text(fields.as_ref()?.get(CONTENT)?);
        match step.resource {
            Resource::QrCodes if step.verb == Verb::Create => of(&step.after),
            Resource::QrCodes => of(&step.before).or_else(|| self.contents.get(&step.id?).cloned()),
            Resource::ChannelItems if member(step, "type") == Some(&Json::from("qr")) => {
                match reference(step, "id")? {
                    ResolvedRef::Id(id) => self.contents.get(&id).cloned(),
                    ResolvedRef::Step(made) => self.content(self.steps.get(&made)?),
                }
            }
            _ => None,
        }
    }

    /// How the record of `step` is called.
    #[must_use]
    pub fn label(&self, step: &PlanStep) -> StepLabel {
        let name = if step.name == step.key { String::new() } else { step.name.clone() };
        if step.verb == Verb::Assign && !step.waits_for.is_empty() {
            return self.assigned(step);
        }
        let name = match self.content(step) {
            Some(content) if step.verb == Verb::Assign => format!("{name} ({content})"),
            // The key of a create is its content already.
            Some(content) if step.verb != Verb::Create => content,
            _ => name,
        };
        StepLabel { key: step.key.clone(), name }
    }

    /// The record of a step of a run on one line. `known` is the id that the run knows.
    #[must_use]
    pub fn record(&self, step: &PlanStep, known: Option<i64>) -> String {
        let StepLabel { key, name } = self.label(step);
        let text = match known {
            Some(id) if step.id != Some(id) && step.verb == Verb::Create => {
                let name = self.content(step).unwrap_or_else(|| step.name.clone());
                format!("{id} {name}")
            }
            _ => format!("{key} {name}"),
        };
        text.trim_end().to_owned()
    }

    /// The label of an assignment that refers to a record which the plan creates.
    fn assigned(&self, step: &PlanStep) -> StepLabel {
        let kind = member(step, "type").and_then(Json::as_str).unwrap_or("links");
        let item = match (reference(step, "id"), member(step, "link")) {
            (Some(ResolvedRef::Step(made)), _) => self.created("QR code", made),
            (Some(ResolvedRef::Id(id)), _) => format!("{kind}/{id}"),
            (None, Some(link)) => format!("links/{link}"),
            (None, None) => step.key.clone(),
        };
        let owner = |field: &str, title: &str| {
            Some(match reference(step, field)? {
                ResolvedRef::Step(made) => self.created(title, made),
                ResolvedRef::Id(id) => format!("{title} {id} {}", step.name),
            })
        };
        let owner = owner("channel", "channel").or_else(|| owner("campaign", "campaign"));
        let name = owner.map_or_else(|| step.name.clone(), |owner| format!("to {}", owner.trim()));
        StepLabel { key: item, name }
    }

    /// A record that step `made` creates: ``channel `Autumn` (created by step 3)``.
    fn created(&self, title: &str, made: u32) -> String {
        let name = self.steps.get(&made).map(|step| match step.name.as_str() {
            "" => step.key.as_str(),
            name => name,
        });
        let name = name.map(|name| format!("`{name}` ")).unwrap_or_default();
        format!("{title} {name}(created by step {made})")
    }
}

fn member<'s>(step: &'s PlanStep, name: &str) -> Option<&'s Json> {
    step.after.as_ref()?.get(name)
}

fn reference(step: &PlanStep, name: &str) -> Option<ResolvedRef> {
    ResolvedRef::from_json(member(step, name)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::change::plan::tests::plan_with_every_verb;

    #[test]
    fn references_name_the_record_and_the_step_that_creates_it() {
        let plan = plan_with_every_verb();
        let none = BTreeMap::new();
        let labels = StepLabels::new(&plan.steps, &none);
        let label = |step: usize| {
            let label = labels.label(&plan.steps[step - 1]);
            format!("{} | {}", label.key, label.name)
        };
        assert_eq!(label(11), "1/links/33 | Spring");
        assert_eq!(label(12), "links/33 | to campaign `New` (created by step 7)");
        assert_eq!(label(14), "qr/5 | to channel `Posters` (created by step 8)");
        assert_eq!(labels.number(&plan.steps[6]), Some(7));
        assert_eq!(labels.number(&plan.steps[0]), None);
        // A part of the steps, as on a page of a run.
        let labels = StepLabels::new(&plan.steps[13..], &none);
        let alone = labels.label(&plan.steps[13]);
        assert_eq!(alone.name, "to channel (created by step 8)");
    }

    #[test]
    fn a_qr_code_is_called_by_its_content_where_it_is_known() {
        let plan = plan_with_every_verb();
        let update = &plan.steps[5];
        let none = BTreeMap::new();
        let known = BTreeMap::from([(5, "https://a.example".to_owned())]);
        assert_eq!(StepLabels::new(&plan.steps, &known).label(update).name, "https://a.example");
        // The new content is not that of the code.
        let labels = StepLabels::new(&plan.steps, &none);
        assert_eq!(labels.label(update).name, update.name);
        let item = &plan.steps[13];
        assert_eq!(
            StepLabels::new(&plan.steps, &known).content(item).unwrap(),
            "https://a.example"
        );
        let created = labels.label(&plan.steps[8]);
        assert_eq!((created.key.as_str(), created.name.as_str()), (plan.steps[8].key.as_str(), ""));
        assert_eq!(content_text(&json!(["a", "b"])).unwrap(), r#"["a","b"]"#);
        assert_eq!(content_text(&json!("")), None);
    }
}
