//! Compares the resource table of the client with the document's list of endpoints, a copy of which
//! is in `endpoints.txt`.

use std::collections::BTreeSet;

use linkvault::model::{Endpoint, Field, FieldKind, Resource, Role, Verb};

/// `METHOD path` with every parameter as `:`, request fields with a star where
/// required, and success fields.
type Line = (String, BTreeSet<String>, BTreeSet<String>);

/// Whether a field's kind is the document's type.
type Fits = fn(FieldKind) -> bool;

fn document() -> Vec<Line> {
    let lines = include_str!("endpoints.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let [place, request, success] = line.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            // The sandbox needs an actual type for the document's `:type`.
            let place = place.replace("/assign/links/", "/assign/:type/");
            let request = match request {
                "none" => BTreeSet::new(),
                "page" => names("limit page"),
                fields => names(fields),
            };
            (bare(&place), request, names(success))
        })
        .collect()
}

fn names(fields: &str) -> BTreeSet<String> {
    let name = |field: &str| field.split(':').next().unwrap_or_default().to_owned();
    fields.split(' ').map(name).collect()
}

fn bare(place: &str) -> String {
    let part = |part: &str| if part.starts_with(':') { ":".to_owned() } else { part.to_owned() };
    place.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn table() -> Vec<(Resource, &'static Endpoint)> {
    let all = Resource::ALL.into_iter();
    all.flat_map(|resource| resource.spec().endpoints.iter().map(move |it| (resource, it)))
        .collect()
}

#[test]
fn the_table_has_exactly_the_26_documented_endpoints() {
    let ours: Vec<_> =
        table().iter().map(|(_, it)| bare(&format!("{} {}", it.method, it.path))).collect();
    let theirs: Vec<_> = document().into_iter().map(|(place, ..)| place).collect();
    assert_eq!(theirs.len(), 26);
    assert_eq!(ours.len(), 26);
    assert_eq!(ours.into_iter().collect::<BTreeSet<_>>(), theirs.into_iter().collect());
}

#[test]
fn every_request_has_the_documented_fields() {
    let document = document();
    for (_, endpoint) in table() {
        let place = bare(&format!("{} {}", endpoint.method, endpoint.path));
        let (_, request, _) = document.iter().find(|(it, ..)| *it == place).unwrap();
        let ours: BTreeSet<_> = endpoint
            .params
            .iter()
            .map(|it| format!("{}{}", it.name, if it.required { "*" } else { "" }))
            .collect();
        assert_eq!(ours, *request, "{place}");
    }
}

#[test]
fn every_response_and_list_has_the_documented_fields() {
    let document = document();
    for (resource, endpoint) in table() {
        let place = bare(&format!("{} {}", endpoint.method, endpoint.path));
        let (_, _, success) = document.iter().find(|(it, ..)| *it == place).unwrap();
        if endpoint.verb == Verb::List {
            let spec = resource.spec();
            let ours: BTreeSet<_> = spec
                .read_fields()
                // The channel of an item is that of the request.
                .filter(|field| !(resource == Resource::ChannelItems && field.name == "channel"))
                .map(|field| field.name.to_owned())
                .collect();
            let mut theirs = success.clone();
            theirs.retain(|name| !["list", "data"].contains(&name.as_str()) || ours.contains(name));
            let key =
                spec.list_keys.first().map_or_else(|| "data".to_owned(), |it| (*it).to_owned());
            assert!(success.contains(&key), "{resource} {key}");
            theirs.remove(&key);
            assert_eq!(ours, theirs, "{resource}");
        } else {
            let ours: BTreeSet<_> = endpoint.answer.iter().map(|it| (*it).to_owned()).collect();
            let unknown = BTreeSet::from(["?".to_owned()]);
            let theirs = if *success == unknown { BTreeSet::new() } else { success.clone() };
            assert_eq!(ours, theirs, "{place}");
        }
    }
}

#[test]
fn fields_have_the_documented_types() {
    let kinds: Vec<(&str, Fits)> = vec![
        ("int", |kind| kind == FieldKind::Int),
        ("bool", |kind| kind == FieldKind::Bool),
        ("datetime", |kind| kind == FieldKind::DateTime),
        ("date", |kind| kind == FieldKind::Date),
        ("hex", |kind| kind == FieldKind::HexColor),
        ("url-or-false", |kind| kind == FieldKind::TextOrFalse),
        ("text", |kind| matches!(kind, FieldKind::Text | FieldKind::OneOf(_))),
        ("url", |kind| matches!(kind, FieldKind::Text | FieldKind::Domain)),
        ("kind", |kind| matches!(kind, FieldKind::OneOf(_))),
    ];
    let lists = include_str!("endpoints.txt").lines().filter(|line| line.contains("| list "));
    let mut checked = 0;
    for line in lists {
        let fields = line.rsplit("| list ").next().unwrap();
        let (key, fields) = fields.split_once(' ').unwrap();
        let resource =
            Resource::ALL.into_iter().find(|it| it.spec().list_keys.contains(&key)).unwrap();
        for field in fields.split(' ') {
            let (name, kind) = field.split_once(':').unwrap();
            let (_, ours) = resource.spec().field(name).unwrap();
            let fits = kinds.iter().find(|(known, _)| *known == kind).unwrap().1;
            assert!(fits(ours.kind), "{resource}.{name} is {kind}");
            checked += 1;
        }
    }
    assert_eq!(checked, 37);
}

#[test]
fn counters_and_write_only_fields_are_declared() {
    let with = |role: Role| -> Vec<String> {
        let fields = |resource: Resource| {
            let found = move |field: &&Field| field.role == role;
            resource
                .spec()
                .fields
                .iter()
                .filter(found)
                .map(move |it| format!("{resource}.{}", it.name))
        };
        Resource::ALL.into_iter().flat_map(fields).collect()
    };
    assert_eq!(with(Role::Counter), ["qr_codes.scans"]);
    assert_eq!(
        with(Role::WriteOnly),
        [
            "account.password",
            "campaigns.slug",
            "qr_codes.type",
            "qr_codes.data",
            "qr_codes.background",
            "qr_codes.foreground",
            "qr_codes.logo",
        ]
    );
}
