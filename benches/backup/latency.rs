//! Backups of services at a distance: the wall time against what latency and limit impose.

use std::time::Duration;

use crate::Bench;
use crate::account::{Account, Style};
use crate::children::Job;
use crate::figures::seconds;
use crate::limited::{self, Cell, Limited};
use crate::server::{Conditions, Server};
use crate::table::{Kind, Table};

const IN_FLIGHT: [usize; 3] = [1, 4, 8];
const LATENCIES: [u64; 3] = [0, 50, 200];

/// The most requests that a backup may send more than the least.
const MORE_REQUESTS: u64 = 2;

/// On simulated time: with 1, 4 and 8 requests in flight, at each latency and limit.
pub fn simulated(bench: &Bench, table: &mut Table) {
    // For each limit, the number of windows that the requests fill.
    for (limit, windows) in [(30, 10), (600, 3), (6_000, 1)] {
        let windows = if bench.quick { 1 } else { windows };
        // Beside the pages there are seven further requests, which begin the next window.
        let codes = limit * windows * 10;
        let store = limited::store(codes);
        let mut all = Vec::new();
        for millis in LATENCIES {
            let latency = Duration::from_millis(millis);
            let cells = IN_FLIGHT.map(|in_flight| Cell { latency, limit, in_flight });
            let found = cells.map(|cell| limited::run(store.clone(), codes, cell));
            time_row(table, millis, limit, &found);
            all.extend(found);
        }
        let name = format!("requests, {limit} a minute");
        requests_row(table, name, all.iter().map(|found| (found.requests, found.least)));
        let refused = all.iter().map(|found| found.refused).sum();
        refused_row(table, format!("refused, {limit} a minute"), refused);
    }
}

fn time_row(table: &mut Table, millis: u64, limit: u64, found: &[Limited; 3]) {
    let ratio = |found: &Limited| found.time.as_secs_f64() / found.bound.as_secs_f64();
    let times = found.map(|found| format!("{:.1}", found.time.as_secs_f64())).join(", ");
    let ratios = found.map(|found| format!("{:.3}", ratio(&found))).join(", ");
    table.row(
        Kind::Exact,
        format!("simulated time, {millis} ms, {limit} a minute; 1, 4, 8 in flight"),
        format!("{times} s = {ratios} × the bound"),
        "≤ 1.050 ×",
        found.iter().all(|found| ratio(found) <= 1.05),
    );
}

fn requests_row(table: &mut Table, name: String, found: impl Iterator<Item = (u64, u64)> + Clone) {
    let more = found.clone().map(|(requests, least)| requests - least).max().unwrap_or(0);
    let least = found.map(|(_, least)| least).max().unwrap_or(0);
    table.row(
        Kind::Exact,
        name,
        format!("at most {} for {least} pages", least + more),
        format!("pages + {MORE_REQUESTS}"),
        more <= MORE_REQUESTS,
    );
}

fn refused_row(table: &mut Table, name: String, refused: u64) {
    table.row(Kind::Exact, name, refused.to_string(), "0", refused == 0);
}

/// Requests of a backup in real time: one for the account, seven lists, of which one is long.
const REQUESTS: u64 = 208;

/// In real time, over loopback, with fewer requests than the limit admits at once.
pub fn real(bench: &Bench, table: &mut Table) {
    let pages = if bench.quick { 20 } else { REQUESTS - 7 };
    let requests = pages + 7;
    let page_size = 100;
    let mut counted = Vec::new();
    let mut refused = 0;
    for (millis, limit) in [(50, 600), (50, 6_000), (200, 600), (200, 1_000), (200, 6_000)] {
        // The more are in flight, the more weigh the requests that wait for others: the account
        // before the lists, a first page before the others, and the account at the end.
        for (in_flight, most) in [(4, 1.15), (8, 1.25)] {
            let cell = Cell { latency: Duration::from_millis(millis), limit, in_flight };
            let account = Account::new(usize::try_from(pages).unwrap() * page_size, Style::PLAIN);
            let conditions = Conditions { latency: cell.latency, limit };
            let server = Server::under(account.render(page_size), conditions);
            let job = Job::Backup { in_flight: u32::try_from(in_flight).unwrap() };
            let run = crate::children::spawn(job, &server.url, &bench.file("latency"));
            assert!(run.count > account.len() as u64, "{run:?}");
            assert_eq!(server.most_in_flight(), in_flight);
            let (sent, refusals) = server.requests();
            counted.push((sent, requests));
            refused += refusals;
            let bound = cell.bound(requests);
            let ratio = run.time.as_secs_f64() / bound.as_secs_f64();
            table.row(
                Kind::Noisy,
                format!("time, {millis} ms, {limit} a minute, {in_flight} in flight"),
                format!("{} = {ratio:.2} × the bound", seconds(run.time)),
                format!("≤ {most:.2} ×"),
                ratio <= most,
            );
        }
    }
    requests_row(table, "requests of each of these".to_owned(), counted.into_iter());
    refused_row(table, "refused of all of these".to_owned(), refused);
}
