//! Random accounts for runs, with a service of random behaviour, and disturbances of a run.

use std::time::Duration;

use linkvault::model::{RecordKey, Resource};
use linkvault::sandbox::generate::{GeneratedCounts, generate};
use serde_json::json;

use super::world::World;
use crate::sim::seeded_choices::{Disturbances, few, is_large};

/// Faults of any request, and of some only.
pub const FAULTS: &[&str] = &[
    "throttled={}",
    "server-error={}",
    "failed-reply={}",
    "failed-reply={}:redirect",
    "failed-reply={}:key-words",
    "failed-reply={}:throttle-words",
    "failed-reply={}:html",
    "failed-reply:not-found@POST /api/qr/add#1",
    "server-error-html={}",
    "html={}",
    "redirect={}",
    "no-connection={}",
    "lost-request={}",
    "lost-reply={}",
    "late-commit:5s@POST /api/campaign/add",
    "late-commit:9s@POST /api/qr/add#1",
    "late-commit:8s@POST /api/channel/add#1",
    "cut-body={}:12",
    "reset={}",
    "garbage={}:not-utf8",
    "garbage={}:deep",
    "garbage={}:wrong-types",
    "garbage={}:truncated",
    "garbage={}:empty",
    "garbage={}:null",
    "slow-body={}:40s",
    "slow-body={}:90s",
    "garbage:huge-numbers@POST /api/campaign/add#1",
    "garbage:huge-numbers@POST /api/qr/add#1",
    "garbage:wrong-types@POST /api/channel/add#1",
    "lost-reply@POST /api/qr/add",
];

const BEHAVIOURS: &[(&str, &[&str])] = &[
    ("error-type", &["documented", "integer", "string"]),
    ("ids", &["integers", "strings", "mixed"]),
    ("booleans", &["json", "integers", "strings"]),
    ("result", &["page", "total", "absent"]),
    ("max-limit", &["none", "10", "3"]),
    ("order", &["ascending", "descending", "by-name"]),
    ("twins", &["none", "none", "beside", "last"]),
    ("campaign-list", &["documented", "name", "domain", "campaign"]),
    ("campaign-create", &["domain", "campaign", "name"]),
    ("create-status", &["200", "201"]),
    ("channel-update", &["message", "whole"]),
    ("pixel-answer", &["id", "message", "bare"]),
    ("pixel-type", &["warn", "warn", "warn", "refuse"]),
    ("unlisted-fields", &["ignore", "refuse"]),
    ("assign-again", &["accept", "refuse"]),
    ("names", &["kept", "lowered"]),
    ("texts", &["kept", "trimmed", "collapsed", "lowered", "without-slash", "encoded"]),
    ("error-status", &["4xx", "200"]),
    ("rate-limit", &["zero", "none", "12", "60"]),
    ("window", &["fixed", "aligned", "sliding"]),
    ("retry-after", &["body", "header", "both", "none"]),
    ("cap-channels", &["none", "none", "none", "3"]),
    ("cap-qr", &["none", "none", "none", "3"]),
    ("json-escapes", &["plain", "php"]),
];

/// An account with a random service behaviour and random disturbances.
pub fn world(rng: &mut fastrand::Rng, seed: u64, more: &str) -> (World, String, Disturbances) {
    let large = is_large(rng);
    let mut behaviour = vec![more.to_owned()];
    for (name, values) in BEHAVIOURS {
        if rng.u8(..3) == 0 {
            behaviour.push(format!("{name}={}", rng.choice(*values).unwrap()));
        }
    }
    let mut some = |most| if large { rng.u64(..=most) } else { few(rng, most) };
    let counts = GeneratedCounts {
        domains: some(4),
        campaigns: some(5),
        channels: some(3),
        channel_items: some(3),
        qr_codes: some(4),
        pixels: some(2),
        overlays: some(1),
        splash_pages: some(1),
    };
    let disturbances = Disturbances::draw(rng);
    let behaviour = behaviour.join(",");
    let mut world = World::of(generate(seed, counts), &behaviour).seeded(seed);
    {
        let mut service = world.service();
        *service = service.clone().with_log_limit(usize::MAX);
    }
    world.reserve = if rng.bool() { 0 } else { rng.u64(..5) };
    world.latency = Duration::from_millis(rng.u64(1..900));
    disturbances.begin(&mut world);
    store_sent_values(&mut world, rng);
    (world, behaviour, disturbances)
}

/// Stores sent values of some codes and links in the vault, as if linkvault had created them.
fn store_sent_values(world: &mut World, rng: &mut fastrand::Rng) {
    world.backup();
    let store = world.service().store().clone();
    let mut vault = world.open();
    let mut remember = |resource, id: u64, field: &str, value: serde_json::Value| {
        let key = RecordKey::Id(id.cast_signed());
        vault.remember(resource, &key, field, &value.to_string(), world.now()).unwrap();
    };
    for (id, row) in store.qr_codes.iter().filter(|_| rng.bool()) {
        remember(Resource::QrCodes, id, "type", json!(row.content.kind));
        remember(Resource::QrCodes, id, "data", json!(row.content.data));
    }
    for (id, row) in store.campaigns.iter().filter(|_| rng.bool()) {
        if !row.members.is_empty() {
            remember(Resource::Campaigns, id, "links", json!(row.members));
        }
    }
}

/// The disturbances of a run.
pub struct RunFaults {
    pub faults: String,
    pub drift: f64,
    pub deaths: Vec<u64>,
}

impl RunFaults {
    pub fn draw(rng: &mut fastrand::Rng) -> Self {
        let one = |rng: &mut fastrand::Rng| {
            let chance = format!("{:.3}", rng.f64().powi(2) * 0.4);
            rng.choice(FAULTS).unwrap().replace("{}", &chance)
        };
        let faults: Vec<_> = (0..few(rng, 3)).map(|_| one(rng)).collect();
        Self {
            faults: faults.join(","),
            drift: if rng.u8(..4) == 0 { rng.f64() * 0.3 } else { 0.0 },
            deaths: if rng.u8(..3) == 0 {
                (0..rng.u8(1..4)).map(|_| 1 + few(rng, 80)).collect()
            } else {
                vec![]
            },
        }
    }

    pub fn is_alone(&self) -> bool {
        self.drift == 0.0
    }
}
