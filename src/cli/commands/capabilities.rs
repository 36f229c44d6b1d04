//! `linkvault capabilities`: what the API can do, from the resource table.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::{App, CliError, Exit, TextTable};
use crate::model::{Resource, ResourceSpec, Role, Verb};

/// Show what the API can and cannot do with each resource
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault capabilities
  linkvault capabilities --markdown")]
pub struct Args {
    /// Print the table as Markdown
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

const VERBS: [Verb; 6] =
    [Verb::List, Verb::Read, Verb::Create, Verb::Update, Verb::Delete, Verb::Assign];
const ROLES: [Role; 5] =
    [Role::Identity, Role::Writable, Role::ReadOnly, Role::Counter, Role::WriteOnly];

/// Prints the tables.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    if app.out.is_json() {
        let resources: Vec<_> = Resource::ALL.into_iter().map(|r| document(r.spec())).collect();
        app.out.json(&json!({"format": 1, "resources": resources}))?;
    } else if args.markdown {
        app.out.raw(markdown().as_bytes())?;
    } else {
        app.out.table(verbs_table())?;
        app.out.line("")?;
        app.out.table(fields_table())?;
    }
    Ok(Exit::Done)
}

fn verbs(spec: &ResourceSpec) -> Vec<&'static str> {
    let offered = VERBS.into_iter().filter(|verb| spec.endpoint(*verb).is_some());
    offered.map(Verb::name).collect()
}

fn fields(spec: &ResourceSpec, role: Role) -> Vec<&'static str> {
    spec.fields.iter().filter(|field| field.role == role).map(|field| field.name).collect()
}

/// The operations that a user might expect and the API does not offer.
#[must_use]
pub fn limits(spec: &ResourceSpec) -> Vec<String> {
    let mut limits = Vec::new();
    for verb in [Verb::Create, Verb::Update, Verb::Delete] {
        if spec.endpoint(verb).is_none() {
            limits.push(verb.name().to_owned());
        }
    }
    if spec.endpoint(Verb::Assign).is_some() {
        limits.push("unassign".to_owned());
    }
    limits.extend(fixed(spec).into_iter().map(|name| format!("update {name}")));
    let unread = fields(spec, Role::WriteOnly);
    if !unread.is_empty() {
        limits.push(format!("read back {}", unread.join(", ")));
    }
    limits
}

/// The fields that a create takes and an update does not.
fn fixed(spec: &ResourceSpec) -> Vec<&'static str> {
    let (Some(create), Some(update)) = (spec.endpoint(Verb::Create), spec.endpoint(Verb::Update))
    else {
        return Vec::new();
    };
    let updates = |name| update.params.iter().any(|param| param.name == name);
    create.params.iter().map(|param| param.name).filter(|name| !updates(*name)).collect()
}

fn verbs_table() -> TextTable {
    let mut table = TextTable::new(&["resource", "can", "cannot", "natural key"]);
    for spec in Resource::ALL.map(Resource::spec) {
        let key = spec.natural_key.join(", ");
        table.row([spec.name.to_owned(), verbs(spec).join(", "), limits(spec).join(", "), key]);
    }
    table
}

fn fields_table() -> TextTable {
    let mut table =
        TextTable::new(&["resource", "identity", "writable", "read-only", "counter", "write-only"]);
    for spec in Resource::ALL.map(Resource::spec) {
        let roles = ROLES.map(|role| fields(spec, role).join(", "));
        table.row(std::iter::once(spec.name.to_owned()).chain(roles));
    }
    table
}

/// The table in `docs/changes.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "| resource | can | cannot | natural key | writable | read-only | counter | write-only |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for spec in Resource::ALL.map(Resource::spec) {
        let code = |names: Vec<&str>| {
            let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(" ")
        };
        let of = |role| code(fields(spec, role));
        let (can, cannot) = (verbs(spec).join(", "), limits(spec).join(", "));
        let key = code(spec.natural_key.to_vec());
        let (writable, read_only) = (of(Role::Writable), of(Role::ReadOnly));
        let (counter, write_only) = (of(Role::Counter), of(Role::WriteOnly));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {can} | {cannot} | {key} | {writable} | {read_only} | {counter} | {write_only} |",
            spec.name
        );
    }
    text
}

fn document(spec: &ResourceSpec) -> Value {
    let field = |field: &crate::model::Field| json!({"name": field.name, "kind": field.kind.name(), "role": field.role.name()});
    let endpoint = |endpoint: &crate::model::Endpoint| {
        let params: Vec<_> = endpoint
            .params
            .iter()
            .map(|param| json!({"name": param.name, "required": param.required}))
            .collect();
        json!({
            "verb": endpoint.verb.name(),
            "method": endpoint.method.as_str(),
            "path": endpoint.path,
            "params": params,
        })
    };
    json!({
        "resource": spec.name,
        "title": spec.title,
        "verbs": verbs(spec),
        "cannot": limits(spec),
        "natural_key": spec.natural_key,
        "depends_on": spec.depends_on,
        "fields": spec.fields.iter().map(field).collect::<Vec<_>>(),
        "endpoints": spec.endpoints.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_verbs_are_listed() {
        let limits = |resource: Resource| limits(resource.spec()).join(", ");
        assert_eq!(limits(Resource::Domains), "update domain");
        assert_eq!(limits(Resource::Campaigns), "unassign, read back slug");
        assert_eq!(limits(Resource::Pixels), "update, delete");
        assert_eq!(limits(Resource::Overlays), "create, update, delete");
        assert_eq!(limits(Resource::ChannelItems), "create, update, delete, unassign");
    }

    #[test]
    fn every_resource_has_a_row_with_all_columns() {
        let text = markdown();
        assert_eq!(text.lines().count(), 2 + Resource::ALL.len());
        assert!(text.lines().all(|line| line.matches('|').count() == 9), "{text}");
    }
}
