//! What is remembered of what was sent, since no list gives it back.

use serde_json::Value as Json;

use super::verify::rememberable;
use crate::change::plan::{Matched, Memory, Plan, Step};
use crate::clock::Timestamp;
use crate::model::{Key, Resource, Verb};
use crate::vault::id_map::Stands;
use crate::vault::journal::Remembered;
use crate::vault::{Vault, VaultError};

/// What the vault remembers, for planning.
///
/// # Errors
/// When the vault cannot be read.
pub fn memory(vault: &Vault) -> Result<Memory, VaultError> {
    Ok(Memory { ids: vault.id_map("")?, sent: vault.sent_values(None, &Resource::ALL)? })
}

/// The same, with the sent values that were true in snapshot `number`.
///
/// # Errors
/// As [`memory`].
pub fn memory_at(vault: &Vault, number: i64) -> Result<Memory, VaultError> {
    let sent = vault.sent_values(Some(number), &Resource::ALL)?;
    Ok(Memory { ids: vault.id_map("")?, sent })
}

/// What is remembered now, with the ids that records of `origin` have in this account.
///
/// # Errors
/// As [`memory`].
pub fn memory_of(vault: &Vault, origin: &str) -> Result<Memory, VaultError> {
    let own = memory(vault)?;
    let mut ids = vault.id_map(origin)?;
    for ((resource, _), id) in &mut ids {
        // What moved here may have been lost and brought back since.
        for _ in 0..64 {
            match own.ids.get(&(*resource, *id)) {
                Some(newer) => *id = *newer,
                None => break,
            }
        }
    }
    Ok(Memory { ids, ..own })
}

/// Remembers what the records of another account were found to be here; `saved`
/// when the plan is from a file.
///
/// # Errors
/// When the vault cannot be written.
pub fn note_matches(
    vault: &mut Vault,
    plan: &Plan,
    saved: bool,
    now: Timestamp,
) -> Result<(), VaultError> {
    let Some(foreign) = &plan.foreign else { return Ok(()) };
    let known = vault.id_map(&foreign.origin)?;
    // What a plan file says replaces nothing that is known.
    let is_new = |it: &&Matched| match known.get(&(it.resource, it.old)) {
        Some(here) => !saved && *here != it.new,
        None => true,
    };
    let new = foreign.matched.iter().filter(is_new);
    let new = new.map(|it| Stands {
        origin: foreign.origin.clone(),
        resource: it.resource,
        old: it.old,
        new: it.new,
    });
    let new: Vec<_> = new.collect();
    vault.note_ids(0, &new, now)
}

/// What to remember of `step`, whose record has `id`.
pub(super) fn of_step(step: &Step, id: i64) -> Vec<Remembered> {
    let remembered = |(field, value): (&str, &Json)| Remembered {
        resource: step.resource,
        key: Key::Id(id),
        field: field.to_owned(),
        value: value.to_string(),
        created: step.verb == Verb::Create,
    };
    rememberable(step).map(remembered).collect()
}

/// Without what an update only had to repeat, in a form that the service has
/// given to what was wanted: that is remembered already.
pub(super) fn what_is_new(
    vault: &Vault,
    step: &Step,
    mut sent: Vec<Remembered>,
) -> Result<Vec<Remembered>, VaultError> {
    let is_changed = |name: &str| step.after.as_ref().is_none_or(|it| it.contains_key(name));
    let Some(key) = sent.iter().find(|it| !is_changed(&it.field)).map(|it| it.key.clone()) else {
        return Ok(sent);
    };
    let known = vault.remembered(step.resource, &key)?;
    sent.retain(|it| {
        let before = known.get(&it.field).map(|before| before.value.to_lowercase());
        is_changed(&it.field) || before.is_none_or(|before| before != it.value.to_lowercase())
    });
    Ok(sent)
}

/// What to remember of a link that a campaign was given.
pub(super) fn of_link(vault: &Vault, params: &[String]) -> Result<Vec<Remembered>, VaultError> {
    let numbers: Option<Vec<i64>> = params.iter().map(|it| it.parse().ok()).collect();
    let Some([campaign, link]) = numbers.as_deref() else { return Ok(Vec::new()) };
    let key = Key::Id(*campaign);
    let known = vault.remembered(Resource::Campaigns, &key)?;
    let known = known.get("links").and_then(|sent| serde_json::from_str(&sent.value).ok());
    let mut links: Vec<i64> = known.unwrap_or_default();
    if !links.contains(link) {
        links.push(*link);
    }
    let field = "links".to_owned();
    let value = Json::from(links).to_string();
    Ok(vec![Remembered { resource: Resource::Campaigns, key, field, value, created: false }])
}

/// Which record stands for which, where a create brought one back.
pub(super) fn maps(step: &Step, id: Option<i64>) -> Option<Stands> {
    let (old, new) = step.replaces.zip(id).filter(|_| step.verb == Verb::Create)?;
    let origin = step.origin.clone().unwrap_or_default();
    Some(Stands { origin, resource: step.resource, old, new })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::tests::step;
    use serde_json::json;

    #[test]
    fn a_name_that_is_only_repeated_does_not_replace_what_was_wanted() {
        let body = Some(json!({"name": "spring", "public": true}));
        let mut step = step(1, Resource::Campaigns, Verb::Update, "/x", body);
        step.after = json!({"public": true}).as_object().cloned();
        let mut vault = Vault::in_memory().unwrap();
        let new = |vault: &Vault, step: &Step| what_is_new(vault, step, of_step(step, 1)).unwrap();
        assert_eq!(new(&vault, &step).len(), 1, "the service may give it another form");
        let key = Key::Id(1);
        vault.remember(Resource::Campaigns, &key, "name", "\"Spring\"", Timestamp(0)).unwrap();
        assert_eq!(new(&vault, &step), []);
        step.after = json!({"name": "spring", "public": true}).as_object().cloned();
        assert_eq!(new(&vault, &step).len(), 1);
    }
}
