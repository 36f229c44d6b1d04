//! The document of `linkvault migrate --json`.

use serde_json::{Map, Value, json};

use crate::apply::RunReport;
use crate::migrate::MigrationReport;

/// The result of a migration, for programs.
pub fn document(report: &MigrationReport, outcome: Option<&RunReport>) -> Value {
    let ids = report.ids.iter().map(|(resource, moved)| {
        let ids = moved.iter().map(|it| (it.old.to_string(), json!(it.new)));
        (resource.name().to_owned(), Value::Object(ids.collect()))
    });
    let ids: Map<_, _> = ids.collect();
    let kept = report.excluded.iter().map(|(it, count)| (it.name().to_owned(), json!(count)));
    let kept: Map<_, _> = kept.collect();
    let not_asked: Vec<_> = report.not_asked.iter().map(|it| it.name()).collect();
    json!({
        "format": 1, "account": report.to, "from": report.from, "run": report.run,
        "resources": report.counts, "unsupported": report.unsupported, "failed": report.failed,
        "manual": report.manual, "ids": ids,
        "left_out": {"records": kept, "resources": not_asked},
        "kept": report.kept, "not_compared": report.gaps(),
        "requests": outcome.map(|it| it.requests), "verified": outcome.map(|it| it.verified),
        "problems": outcome.map(|it| it.problems.clone()).unwrap_or_default(),
    })
}
