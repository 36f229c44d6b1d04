//! All random choices of a simulation, drawn from one seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use linkvault::crawl::StatisticsMode;
use linkvault::sandbox::generate::GeneratedCounts;

use super::secrets::{Echoes, Log};
use super::world::World;
use crate::sim::account_swap::OtherAccount;

/// A number up to `most`, mostly small: small worlds are fast, and find most of what large ones do.
pub fn few(rng: &mut fastrand::Rng, most: u64) -> u64 {
    let most = most >> rng.u32(..=most.max(1).ilog2());
    rng.u64(..=most)
}

/// One world in twenty is large.
pub fn is_large(rng: &mut fastrand::Rng) -> bool {
    rng.u8(..20) == 0
}

/// Events in every simulation besides faults.
#[derive(Debug)]
pub struct Disturbances {
    /// The service reuses ids of deleted records.
    pub reuses_ids: bool,
    echoes: Echoes,
    /// The log is checked for secrets.
    logs: bool,
    /// The chance that another account responds to the URL after a wait.
    other_account: f64,
    seed: u64,
}

impl Disturbances {
    pub fn draw(rng: &mut fastrand::Rng) -> Self {
        Self {
            reuses_ids: rng.u8(..4) == 0,
            echoes: match rng.u8(..6) {
                0 => Echoes::All { how: rng.usize(..100) },
                1 | 2 => Echoes::Failures,
                _ => Echoes::None,
            },
            logs: rng.u8(..12) == 0,
            other_account: if rng.u8(..4) == 0 { rng.f64() * 0.6 } else { 0.0 },
            seed: rng.u64(..),
        }
    }

    /// Starts all events except the other account.
    pub fn begin(&self, world: &mut World) {
        if self.reuses_ids {
            world.change(linkvault::sandbox::Store::reuse_ids);
        }
        world.echoes = self.echoes;
        world.log = self.logs.then(Log::new);
    }

    /// From now on another account may respond. The vault must have its account already.
    pub fn allow_other_account(&self, world: &mut World) {
        if self.other_account > 0.0 {
            let other_account = OtherAccount::new(self.seed, self.other_account);
            world.other_account = Some(Arc::new(Mutex::new(other_account)));
        }
    }
}

/// One simulated history.
#[derive(Debug)]
pub struct SimulatedHistory {
    pub seed: u64,
    pub counts: GeneratedCounts,
    pub behaviour: String,
    pub reserve: u64,
    pub latency: Duration,
    pub disturbances: Disturbances,
    pub rounds: Vec<Round>,
    /// Before this round, another account responds to the URL for a while.
    pub switched: Option<usize>,
}

/// One backup with any number of starts, and the events around it.
#[derive(Debug)]
pub struct Round {
    /// Time since the round before.
    pub pause: Duration,
    /// Changes by a second user, before the crawl.
    pub changes: u32,
    pub faults: String,
    /// The chance of a change before each request.
    pub drift: f64,
    /// The commit phases at which the process is killed.
    pub deaths: Vec<u64>,
    /// Ends a process after this number of requests.
    pub most_requests: Option<u64>,
    /// Time from a kill to the next start.
    pub rest: Duration,
    pub stats: StatisticsMode,
    /// Forgets all but this number of the newest snapshots afterwards.
    pub keep: Option<u64>,
}

impl Round {
    pub fn is_quiet(&self) -> bool {
        self.faults.is_empty() && self.drift == 0.0
    }

    pub fn is_undisturbed(&self) -> bool {
        self.is_quiet() && self.deaths.is_empty() && self.most_requests.is_none()
    }
}

impl SimulatedHistory {
    pub fn from(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let large = is_large(&mut rng);
        let number = if large { rng.u64(1..5) } else { few(&mut rng, 3) };
        let mut rounds: Vec<_> = (0..number).map(|_| round(&mut rng)).collect();
        // The last round shows that the damage of earlier rounds can be corrected.
        rounds.push(Round {
            faults: String::new(),
            drift: 0.0,
            deaths: Vec::new(),
            most_requests: None,
            stats: StatisticsMode::Changed,
            ..round(&mut rng)
        });
        Self {
            seed,
            counts: if large { many(&mut rng) } else { some(&mut rng) },
            behaviour: behaviour(&mut rng),
            reserve: if rng.bool() { 0 } else { rng.u64(..12) },
            latency: Duration::from_millis(rng.u64(1..2_000)),
            disturbances: Disturbances::draw(&mut rng),
            switched: (rng.u8(..5) == 0).then(|| rng.usize(..rounds.len())),
            rounds,
        }
    }
}

fn some(rng: &mut fastrand::Rng) -> GeneratedCounts {
    GeneratedCounts {
        domains: few(rng, 8),
        campaigns: few(rng, 8),
        channels: few(rng, 4),
        channel_items: few(rng, 8),
        qr_codes: few(rng, 16),
        pixels: few(rng, 8),
        overlays: few(rng, 4),
        splash_pages: few(rng, 4),
    }
}

fn many(rng: &mut fastrand::Rng) -> GeneratedCounts {
    let small = |rng: &mut fastrand::Rng| if rng.u8(..4) == 0 { 0 } else { rng.u64(..30) };
    GeneratedCounts {
        domains: small(rng),
        campaigns: small(rng),
        channels: rng.u64(..6),
        channel_items: rng.u64(..20),
        qr_codes: if rng.u8(..10) == 0 { rng.u64(100..300) } else { small(rng) },
        pixels: small(rng),
        overlays: small(rng),
        splash_pages: small(rng),
    }
}

fn round(rng: &mut fastrand::Rng) -> Round {
    let drifts = rng.u8(..3) == 0;
    let dies = rng.u8(..3) == 0;
    Round {
        pause: Duration::from_secs(rng.u64(30..3 * 86_400)),
        changes: if rng.bool() { 0 } else { rng.u32(..12) },
        faults: if rng.u8(..3) == 0 { faults(rng) } else { String::new() },
        drift: if drifts { rng.f64() * 0.5 } else { 0.0 },
        deaths: if dies {
            (0..rng.u8(1..3)).map(|_| 1 + few(rng, 60)).collect()
        } else {
            Vec::new()
        },
        most_requests: (rng.u8(..8) == 0).then(|| rng.u64(4..12)),
        rest: Duration::from_secs(if rng.u8(..4) == 0 { 4000 } else { rng.u64(1..900) }),
        stats: *rng
            .choice(&[
                StatisticsMode::Changed,
                StatisticsMode::Changed,
                StatisticsMode::All,
                StatisticsMode::None,
            ])
            .unwrap(),
        keep: (rng.u8(..4) == 0).then(|| rng.u64(1..3)),
    }
}

/// Faults without wrong responses: what arrives completely is what was requested.
const FAULTS: &[&str] = &[
    "latency={}:9s",
    "throttled={}",
    "server-error={}",
    "server-error-html={}",
    "html={}",
    "redirect={}",
    "no-connection={}",
    "lost-request={}",
    "lost-reply={}",
    "cut-body={}:25",
    "reset={}",
    "garbage={}:not-utf8",
    "garbage={}:deep",
    "garbage={}:wrong-types",
    "garbage={}:truncated",
    "garbage={}:empty",
    "garbage={}:null",
    "slow-body={}:40s",
    "slow-body={}:90s",
];

fn faults(rng: &mut fastrand::Rng) -> String {
    let one = |rng: &mut fastrand::Rng| {
        let chance = format!("{:.3}", rng.f64().powi(2) * 0.3);
        rng.choice(FAULTS).unwrap().replace("{}", &chance)
    };
    let number = rng.usize(1..4);
    (0..number).map(|_| one(rng)).collect::<Vec<_>>().join(",")
}

/// The behaviours of the service that affect a backup; repeated values are more likely.
const BEHAVIOURS: &[(&str, &[&str])] = &[
    ("error-type", &["documented", "integer", "string"]),
    ("ids", &["integers", "strings", "mixed"]),
    ("counts", &["integers", "strings"]),
    ("booleans", &["json", "integers", "strings"]),
    ("result", &["page", "total", "absent"]),
    ("nextpage", &["last+1", "null", "same"]),
    ("max-limit", &["none", "10", "15", "25", "50", "100", "7", "2", "3", "5"]),
    ("over-limit", &["clamp", "clamp", "refuse"]),
    ("beyond-last", &["empty", "clamp", "repeat"]),
    ("envelope", &["full", "full", "no-maxpage", "no-perpage", "no-currentpage", "records-only"]),
    ("order", &["ascending", "descending", "by-name"]),
    ("twins", &["none", "none", "beside", "last"]),
    ("campaign-list", &["documented", "name", "domain", "campaign"]),
    ("overlay-key", &["cta", "overlay"]),
    ("empty-maps", &["object", "zero", "array"]),
    ("error-status", &["4xx", "200"]),
    ("unknown-path", &["json", "html"]),
    ("not-offered-status", &["404", "403"]),
    ("window", &["fixed", "aligned", "sliding"]),
    ("throttle", &["429-json", "200-json", "429-html", "503-html"]),
    ("throttle-error", &["429", "1"]),
    ("retry-after", &["body", "header", "both", "none"]),
    ("date-header", &["yes", "no"]),
    ("json-escapes", &["plain", "php"]),
    ("json-layout", &["compact", "pretty"]),
    (
        "reset",
        &[
            "epoch-seconds",
            "epoch-ms",
            "relative-seconds",
            "http-date",
            "iso",
            "sql-datetime",
            "past",
            "far-future",
        ],
    ),
    (
        "not-offered",
        &["none", "none", "none", "overlay", "splash", "pixels+domains", "qr", "channels"],
    ),
];

fn behaviour(rng: &mut fastrand::Rng) -> String {
    let mut parts = Vec::new();
    for (name, values) in BEHAVIOURS {
        if rng.bool() {
            parts.push(format!("{name}={}", rng.choice(*values).unwrap()));
        }
    }
    if rng.u8(..3) == 0 {
        parts.push(format!("skew={}", rng.i64(-4000..4000)));
    }
    // If a service does not report its limit, the default one is assumed.
    match rng.u8(..4) {
        0 => parts.push("rate-headers=none".to_owned()),
        1 => parts.push(format!("rate-limit={}", rng.choice(["5", "12", "60", "300"]).unwrap())),
        2 => parts.push(format!("rate-limit={}", rng.choice(["zero", "none"]).unwrap())),
        _ => {}
    }
    let text = parts.join(",");
    if text.contains("over-limit=refuse") {
        // The smallest page size that is requested is ten.
        let small = ["max-limit=2,", "max-limit=3,", "max-limit=5,", "max-limit=7,"];
        return small.iter().fold(text, |text, it| text.replace(it, "max-limit=10,"));
    }
    text
}
