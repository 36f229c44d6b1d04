//! Finds out whether a store checks the conditions of a put.

use super::error::{StoreError, StoreErrorKind};
use super::object_tag::{ConditionalPut, ObjectTag};
use super::objects::Objects;

/// The version that no object has, for the probe.
const NO_VERSION: &str = "\"00000000000000000000000000000000\"";

/// Refuses a store that does not check the conditions of a put, in which two machines would
/// overwrite each other's vaults.
///
/// # Errors
/// If it does not, or cannot be written.
pub fn probe(objects: &Objects) -> Result<(), StoreError> {
    let name = format!("probe-{:016x}", fastrand::u64(..));
    let probed = probe_object(objects, &name);
    let removed = objects.remove(&name);
    probed?;
    removed
}

fn probe_object(objects: &Objects, name: &str) -> Result<(), StoreError> {
    let ignores = |what: &str| {
        let what = format!(
            "the store ignores the condition `{what}` of a put, so that two machines would \
             overwrite each other's vaults"
        );
        Err(StoreError::new(StoreErrorKind::NoConditions, what))
    };
    let ConditionalPut::Written(first) = objects.put_if(name, b"1", None)? else {
        return ignores("If-None-Match");
    };
    if first.e_tag.is_none() {
        let what = "the store returns no ETag, on which conditional puts depend";
        return Err(StoreError::new(StoreErrorKind::NoConditions, what));
    }
    if objects.put_if(name, b"2", None)? != ConditionalPut::Refused {
        return ignores("If-None-Match");
    }
    let version = first.version.is_some().then(|| "1".to_owned());
    let other = ObjectTag { e_tag: Some(NO_VERSION.to_owned()), version };
    if objects.put_if(name, b"3", Some(&other))? != ConditionalPut::Refused {
        return ignores("If-Match");
    }
    match objects.put_if(name, b"4", Some(&first))? {
        ConditionalPut::Written(_) => Ok(()),
        ConditionalPut::Refused => ignores("If-Match"),
    }
}
