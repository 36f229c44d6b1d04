//! A step's request: filled with the ids of records that earlier steps created, and checked against
//! the table, because a plan may come from a file.

use crate::api::http::Method;
use crate::change::plan::{JsonFields, Plan, PlanStep, PlannedRequest};
use crate::model::resource::ITEM_TYPES;
use crate::model::{Resource, Verb};

/// The text that a plan contains in place of a password.
pub const NOT_SHOWN: &str = "(not shown)";

/// Values that a run sends and that are never stored.
#[derive(Clone, Default)]
pub struct StepSecrets {
    /// The account's new password.
    pub password: Option<String>,
}

impl std::fmt::Debug for StepSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(not shown)")
    }
}

/// A request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The method of the endpoint in the table.
    pub method: Method,
    /// The path with all ids, without the base URL.
    pub path: String,
    /// The JSON body.
    pub body: Option<Vec<u8>>,
    /// The values of the parameters of the path, in their order.
    pub params: Vec<String>,
}

/// Whether the step sets the account's password.
#[must_use]
pub fn sets_password(step: &PlanStep) -> bool {
    let after = step.after.as_ref().and_then(|after| after.get("password"));
    step.resource == Resource::Account && after.and_then(|it| it.as_str()) == Some(NOT_SHOWN)
}

/// Adds the account's password to `plan`, in the step that changes the account or in a new one.
/// `account` is the id of the account.
pub fn set_password(plan: &mut Plan, account: Option<i64>) {
    let changes = |step: &&mut PlanStep| step.resource == Resource::Account;
    let remark = Some("a password cannot be read back".to_owned());
    if let Some(step) = plan.steps.iter_mut().find(changes) {
        step.after.get_or_insert_default().insert("password".to_owned(), NOT_SHOWN.into());
        (step.reversible, step.remark) = (false, remark);
        return;
    }
    let Some(endpoint) = Resource::Account.spec().endpoint(Verb::Update) else { return };
    let after = JsonFields::from_iter([("password".to_owned(), NOT_SHOWN.into())]);
    plan.steps.push(PlanStep {
        step: u32::try_from(plan.steps.len()).unwrap_or(u32::MAX).saturating_add(1),
        resource: Resource::Account,
        verb: Verb::Update,
        key: account.map_or_else(|| "account".to_owned(), |id| id.to_string()),
        name: String::new(),
        id: account,
        before: Some(JsonFields::new()),
        after: Some(after),
        request: PlannedRequest {
            method: endpoint.method,
            path: endpoint.path.to_owned(),
            body: Some(JsonFields::new()),
        },
        waits_for: Vec::new(),
        reversible: false,
        verifiable: false,
        remark,
        replaces: None,
        origin: None,
        fingerprint: None,
        source: None,
    });
}

/// The request of `step`. `id_of` returns the id of the record that an earlier step created, by the
/// number of that step.
///
/// # Errors
/// A message for people, if the table has no such request, an id is unknown, or the password is
/// missing.
pub fn ready(
    step: &PlanStep,
    id_of: impl Fn(u32) -> Option<i64>,
    secrets: &StepSecrets,
) -> Result<Ready, String> {
    let endpoint = step.resource.spec().endpoint(step.verb);
    let no_such = || {
        let (verb, resource) = (step.verb.name(), step.resource.spec().title);
        let (method, path) = (step.request.method, &step.request.path);
        format!("{method} {path} is not the API's request for a {verb} of a {resource}")
    };
    let endpoint = endpoint.ok_or_else(no_such)?;
    let path = fill(&step.request.path, id_of)?;
    let params = params(endpoint.path, &path).ok_or_else(no_such)?;
    let known = |name: &String| endpoint.params.iter().any(|param| param.name == name);
    let unknown = step.request.body.iter().flat_map(JsonFields::keys).any(|name| !known(name));
    if endpoint.method != step.request.method || unknown {
        return Err(no_such());
    }
    let mut body = step.request.body.clone();
    if sets_password(step) {
        let password = secrets.password.clone().ok_or(
            "the new password is stored nowhere and was not given again; change it in a plan of \
             its own",
        )?;
        body.get_or_insert_default().insert("password".to_owned(), password.into());
    }
    let body = body.map(|body| serde_json::Value::Object(body).to_string().into_bytes());
    Ok(Ready { method: endpoint.method, path, body, params })
}

/// The path with ids in place of step numbers in braces, such as `{3}`.
fn fill(path: &str, id_of: impl Fn(u32) -> Option<i64>) -> Result<String, String> {
    let mut filled = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (number, after) = after.split_once('}').ok_or("its path is incomplete")?;
        let number: u32 = number.parse().map_err(|_| "its path names no step")?;
        if !before.ends_with('/') || !(after.is_empty() || after.starts_with('/')) {
            return Err("an id in its path is not a whole segment".to_owned());
        }
        let id =
            id_of(number).ok_or_else(|| format!("the id that step {number} got is unknown"))?;
        filled.push_str(before);
        filled.push_str(&id.to_string());
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The values in `path` of the parameters of `template`; `None` if the path does not match.
fn params(template: &str, path: &str) -> Option<Vec<String>> {
    let (mut templates, mut parts) = (template.split('/'), path.split('/'));
    let mut params = Vec::new();
    loop {
        match (templates.next(), parts.next()) {
            (None, None) => return Some(params),
            (Some(name), Some(part)) if name.starts_with(':') => {
                let fits = match name {
                    ":type" => ITEM_TYPES.contains(&part),
                    _ => part.parse::<i64>().is_ok_and(|id| id.to_string() == part),
                };
                fits.then(|| params.push(part.to_owned()))?;
            }
            (Some(word), Some(part)) if word == part => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::apply::step_request::*;
    use crate::apply::tests::step;
    use crate::model::Verb::{Assign, Create, Update};
    use serde_json::json;

    fn none(_: u32) -> Option<i64> {
        None
    }

    #[test]
    fn ids_of_earlier_steps_are_inserted_into_the_path() {
        let mut step =
            step(4, Resource::ChannelItems, Assign, "/api/channel/{2}/assign/qr/{3}", None);
        step.waits_for = vec![2, 3];
        let id_of = |number| Some(i64::from(number) * 100);
        let ready = ready(&step, id_of, &StepSecrets::default()).unwrap();
        assert_eq!(ready.path, "/api/channel/200/assign/qr/300");
        assert_eq!(ready.params, ["200", "qr", "300"]);
        let why = super::ready(&step, none, &StepSecrets::default()).unwrap_err();
        assert_eq!(why, "the id that step 2 got is unknown");
    }

    #[test]
    fn an_id_is_a_whole_path_segment() {
        let items = Resource::ChannelItems;
        for id in ["{1}{2}", "{1}2", "1{2}", "-{1}"] {
            for path in
                [format!("/api/channel/{id}/assign/qr/3"), format!("/api/channel/3/assign/qr/{id}")]
            {
                let step = step(4, items, Assign, &path, None);
                let why = ready(&step, |it| Some(it.into()), &StepSecrets::default()).unwrap_err();
                assert_eq!(why, "an id in its path is not a whole segment", "{path}");
            }
        }
    }

    #[test]
    fn a_request_that_is_not_in_the_table_is_refused() {
        for (path, body) in [
            ("/api/url/add", json!({"name": "x"})),
            ("/api/campaign/add/../../url", json!({"name": "x"})),
            ("/api/campaign/add?x=1", json!({"name": "x"})),
            ("/api/campaign/add", json!({"name": "x", "owner": 1})),
        ] {
            let step = step(1, Resource::Campaigns, Create, path, Some(body));
            let why = ready(&step, none, &StepSecrets::default()).unwrap_err();
            assert!(why.contains("is not the API's request for a create of a campaign"), "{why}");
        }
    }

    #[test]
    fn the_password_is_never_part_of_a_step() {
        let mut step = step(
            1,
            Resource::Account,
            Update,
            "/api/account/update",
            Some(json!({"email": "a@b.c"})),
        );
        step.after = json!({"email": "a@b.c", "password": NOT_SHOWN}).as_object().cloned();
        assert!(
            ready(&step, none, &StepSecrets::default()).unwrap_err().contains("stored nowhere")
        );
        let secrets = StepSecrets { password: Some("hunter2".to_owned()) };
        let body = ready(&step, none, &secrets).unwrap().body.unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), r#"{"email":"a@b.c","password":"hunter2"}"#);
        assert!(!format!("{secrets:?}").contains("hunter2"));
    }
}
