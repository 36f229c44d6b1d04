//! Shows the progress of long operations on stderr: bars on a terminal, lines in a log, JSON for
//! programs.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde_json::{Value, json};

use super::output::{ErrorStream, Output, ProgressMode};
use crate::clock::Clock;
use crate::escaped::Escaped;
use crate::format;
use crate::progress::{Event, NoProgress, Progress};

/// The interval of lines about a long listing in a log.
const EVERY: Duration = Duration::from_secs(30);
/// Shorter waits get no line.
const SHORT: Duration = Duration::from_secs(2);

/// The receiver of progress events for work on `account`. It shows progress until it is dropped.
#[must_use]
pub fn progress(
    output: &Output,
    clock: &Arc<dyn Clock>,
    account: &str,
) -> Arc<dyn Progress + Send + Sync> {
    let stream = output.error_stream();
    match output.progress_mode() {
        ProgressMode::Bars => Arc::new(Bars::new(stream)),
        ProgressMode::Lines => Arc::new(Lines::new(stream, account, Arc::clone(clock))),
        ProgressMode::Json => Arc::new(Json { stream, account: account.to_owned() }),
        ProgressMode::Silent => Arc::new(Warnings(stream)),
    }
}

fn tell(stream: &ErrorStream, text: &str) {
    // Progress that cannot be shown does not stop the work.
    let _ = stream.clone().write_all(format!("{text}\n").as_bytes());
}

/// Shows only warnings.
struct Warnings(ErrorStream);

impl Progress for Warnings {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Warning { text } => tell(&self.0, &format!("warning: {}", Escaped(text))),
            _ => NoProgress.event(event),
        }
    }
}

/// Shows one JSON object a line. The keys are part of the interface:
///
/// ```json
/// {"event":"snapshot","account":"main","snapshot":12,"resumed":false}
/// {"event":"listing","account":"main","resource":"channel_items","parent":7}
/// {"event":"records","account":"main","resource":"campaigns","done":50,"total":120}
/// {"event":"finished","account":"main","resource":"campaigns","state":"complete","records":120}
/// {"event":"steps","account":"main","done":50,"total":120,"requests_left":72,"seconds_left":144.0}
/// {"event":"waiting","account":"main","seconds":41.0,"why":"the limit"}
/// {"event":"warning","account":"main","text":"…"}
/// ```
///
/// `parent` and `total` are null if unknown.
struct Json {
    stream: ErrorStream,
    account: String,
}

impl Progress for Json {
    fn event(&self, event: &Event<'_>) {
        let account = &self.account;
        let line: Value = match *event {
            Event::Snapshot { number, resumed } => {
                json!({"event": "snapshot", "account": account, "snapshot": number, "resumed": resumed})
            }
            Event::Listing { resource, parent } => {
                json!({"event": "listing", "account": account, "resource": resource, "parent": parent})
            }
            Event::Records { resource, done, total } => {
                json!({"event": "records", "account": account, "resource": resource, "done": done, "total": total})
            }
            Event::Finished { resource, state, records } => {
                json!({"event": "finished", "account": account, "resource": resource, "state": state, "records": records})
            }
            Event::Steps { done, total, requests, time } => {
                json!({"event": "steps", "account": account, "done": done, "total": total,
                    "requests_left": requests, "seconds_left": time.as_secs_f64()})
            }
            Event::Waiting { time, why } => {
                json!({"event": "waiting", "account": account, "seconds": time.as_secs_f64(), "why": why})
            }
            Event::Warning { text } => {
                json!({"event": "warning", "account": account, "text": text})
            }
        };
        tell(&self.stream, &line.to_string());
    }
}

/// Shows a line for each finished resource and each wait, and every 30 seconds one for a long
/// listing.
struct Lines {
    stream: ErrorStream,
    account: String,
    clock: Arc<dyn Clock>,
    last: Mutex<Duration>,
}

impl Lines {
    fn new(stream: ErrorStream, account: &str, clock: Arc<dyn Clock>) -> Self {
        let last = Mutex::new(clock.monotonic());
        Self { stream, account: account.to_owned(), clock, last }
    }

    /// Whether the time `every` has passed since the last line. If so, restarts it.
    fn due(&self, every: Duration) -> bool {
        let now = self.clock.monotonic();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = now.saturating_sub(*last) >= every;
        if due {
            *last = now;
        }
        due
    }
}

impl Progress for Lines {
    fn event(&self, event: &Event<'_>) {
        let text = match *event {
            Event::Records { resource, done, total } if self.due(EVERY) => {
                format!("{resource}: {} so far", amount(done, total))
            }
            Event::Finished { resource, state, records } => {
                self.due(Duration::ZERO);
                finished(resource, state, records)
            }
            Event::Steps { done, total, requests, time } if self.due(EVERY) || done == total => {
                steps(done, total, requests, time)
            }
            Event::Waiting { time, why } if time >= SHORT => {
                self.due(Duration::ZERO);
                format!("waiting {} for {why}", format::duration(time))
            }
            Event::Warning { text } => format!("warning: {text}"),
            _ => return,
        };
        tell(&self.stream, &format!("{}: {}", self.account, Escaped(text)));
    }
}

fn amount(done: u64, total: Option<u64>) -> String {
    match total {
        Some(total) => {
            format!("{} of {}", format::count(done), format::counted(total, "record", "records"))
        }
        None => format::counted(done, "record", "records"),
    }
}

fn steps(done: u64, total: u64, requests: u64, time: Duration) -> String {
    let done = format!("{} of {}", format::count(done), format::counted(total, "step", "steps"));
    let left = format::counted(requests, "request", "requests");
    match time.as_secs() {
        0 => format!("{done}; {left} left"),
        _ => format!("{done}; {left} left, about {}", format::duration(time)),
    }
}

fn finished(resource: &str, state: &str, records: u64) -> String {
    let records = format::counted(records, "record", "records");
    if state == "complete" {
        format!("{resource}: {records}")
    } else {
        format!("{resource}: {records}, {state}")
    }
}

/// Shows a bar for each resource, and a line below them with the remaining time of a wait. Removes
/// all of it at the end, before the summary is printed.
struct Bars {
    stream: ErrorStream,
    shown: Mutex<ShownBars>,
}

#[derive(Default)]
struct ShownBars {
    bars: HashMap<String, ProgressBar>,
    wait: Option<ProgressBar>,
}

impl Bars {
    fn new(stream: ErrorStream) -> Self {
        Self { stream, shown: Mutex::default() }
    }

    fn bar(&self, shown: &mut ShownBars, resource: &str) -> ProgressBar {
        let new = || {
            // The style is set before the bar is shown, or another one would be visible briefly.
            let bar = ProgressBar::no_length()
                .with_style(style("{prefix:14} {spinner} {human_pos} {msg}"))
                .with_prefix(resource.to_owned());
            let bar = self.stream.bars.add(bar);
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        };
        shown.bars.entry(resource.to_owned()).or_insert_with(new).clone()
    }

    fn wait(&self, time: Duration, why: &str) -> ProgressBar {
        let left = move |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = text.write_str(&format::duration(time.saturating_sub(state.elapsed())));
        };
        let bar = ProgressBar::no_length()
            .with_style(style("{spinner} waiting {left} for {msg}").with_key("left", left))
            .with_message(Escaped(why).to_string());
        let bar = self.stream.bars.add(bar);
        bar.enable_steady_tick(Duration::from_millis(250));
        bar
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Bars {
    fn event(&self, event: &Event<'_>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = shown.wait.take() {
            wait.finish_and_clear();
        }
        match *event {
            Event::Snapshot { .. } => {}
            Event::Listing { resource, parent } => {
                let bar = self.bar(&mut shown, resource);
                let channel = parent.map(|parent| format!("in channel {parent}"));
                bar.set_message(channel.unwrap_or_default());
            }
            Event::Records { resource, done, total } => {
                let bar = self.bar(&mut shown, resource);
                if let Some(total) = total {
                    bar.set_style(style("{prefix:14} [{bar:30}] {human_pos}/{human_len} {msg}"));
                    bar.set_length(total.max(done));
                }
                bar.set_position(done);
            }
            Event::Finished { resource, state, records } => {
                let bar = self.bar(&mut shown, resource);
                bar.set_style(style("{prefix:14} {human_pos} {msg}"));
                // A finished bar jumps to its length, which so far may be that of a single channel.
                bar.set_length(records);
                bar.set_position(records);
                bar.finish_with_message(Escaped(state).to_string());
            }
            Event::Steps { done, total, requests, time } => {
                let bar = self.bar(&mut shown, "steps");
                // As wide as the message, which can be long, allows.
                bar.set_style(style("{prefix} [{wide_bar}] {human_pos}/{human_len} {msg}"));
                bar.set_length(total);
                bar.set_position(done);
                let left = format::counted(requests, "request", "requests");
                bar.set_message(format!("{left} left, about {}", format::duration(time)));
            }
            Event::Waiting { time, why } => shown.wait = Some(self.wait(time, why)),
            Event::Warning { text } => tell(&self.stream, &format!("warning: {}", Escaped(text))),
        }
    }

    fn pause(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, bar) in shown.bars.drain() {
            bar.finish_and_clear();
            self.stream.bars.remove(&bar);
        }
        if let Some(wait) = shown.wait.take() {
            wait.finish_and_clear();
        }
        let _ = self.stream.bars.clear();
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::global::{GlobalArgs, ProgressChoice};
    use crate::cli::output::TerminalInfo;
    use crate::clock::{Interrupt, SystemClock};

    #[derive(Clone, Default)]
    struct Pipe(Arc<Mutex<Vec<u8>>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The text on stderr after a short backup.
    fn told(choice: ProgressChoice, quiet: bool) -> String {
        let err = Pipe::default();
        let flags = GlobalArgs { progress: choice, quiet, ..GlobalArgs::default() };
        let sink = Box::new(std::io::sink());
        let output = Output::new(sink, Box::new(err.clone()), TerminalInfo::default(), &flags);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(Interrupt::default()));
        let progress = progress(&output, &clock, "main");
        for event in [
            Event::Listing { resource: "campaigns", parent: None },
            Event::Records { resource: "campaigns", done: 50, total: Some(1200) },
            Event::Waiting { time: Duration::from_secs(41), why: "the limit" },
            Event::Warning { text: "odd \u{1b}" },
            Event::Finished { resource: "campaigns", state: "complete", records: 1200 },
        ] {
            progress.event(&event);
        }
        drop(progress);
        let bytes = err.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_log_gets_a_line_for_each_resource_and_wait() {
        assert_eq!(
            told(ProgressChoice::Plain, false),
            "main: waiting 41 s for the limit\n\
             main: warning: odd \\u{1b}\n\
             main: campaigns: 1,200 records\n"
        );
        assert_eq!(told(ProgressChoice::Auto, false), told(ProgressChoice::Plain, false));
    }

    #[test]
    fn a_finished_bar_counts_the_items_of_all_channels() {
        let sinks = (Box::new(std::io::sink()), Box::new(std::io::sink()));
        let flags = GlobalArgs::default();
        let output = Output::new(sinks.0, sinks.1, TerminalInfo::default(), &flags);
        let bars = Bars::new(output.error_stream());
        for event in [
            Event::Listing { resource: "channel_items", parent: Some(5) },
            Event::Records { resource: "channel_items", done: 2, total: Some(2) },
            Event::Finished { resource: "channel_items", state: "complete", records: 14 },
        ] {
            bars.event(&event);
        }
        let position = || {
            let shown = bars.shown.lock().unwrap();
            shown.bars.get("channel_items").map(ProgressBar::position)
        };
        assert_eq!(position(), Some(14));
        bars.pause();
        assert_eq!(position(), None, "it would stand in the middle of a question");
    }

    #[test]
    fn json_progress_has_every_event() {
        let lines = told(ProgressChoice::Json, false);
        assert_eq!(lines.lines().count(), 5);
        let first = r#"{"event":"listing","account":"main","resource":"campaigns","parent":null}"#;
        assert_eq!(lines.lines().next(), Some(first));
        assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    }

    #[test]
    fn quiet_keeps_warnings() {
        assert_eq!(told(ProgressChoice::Plain, true), "warning: odd \\u{1b}\n");
        assert_eq!(told(ProgressChoice::None, false), "warning: odd \\u{1b}\n");
    }
}
