//! Runs each measurement in a separate process, to measure its own peak memory.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

const MARK: &str = "as-child";

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub time: Duration,
    /// The process's peak memory, where the system reports it.
    pub peak: Option<u64>,
    /// The count that the job reports.
    pub count: u64,
    /// Of a job with two parts, the time of the first.
    #[allow(dead_code, reason = "not every benchmark has such jobs")]
    pub part: Duration,
}

/// Runs the job of that name in a child process.
pub fn spawn(name: &str, args: &[&OsStr]) -> Run {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    // To read its certificates takes longer than a small backup.
    command.args([MARK, name]).args(args).env_remove("SSL_CERT_FILE");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "the measured process failed: {errors}");
    let numbers: Vec<u64> = text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    let [micros, peak, count, part] = numbers[..] else { panic!("unexpected: {text}") };
    let (time, part) = (Duration::from_micros(micros), Duration::from_micros(part));
    Run { time, peak: (peak > 0).then_some(peak), count, part }
}

/// If this process was spawned to run a job, its name and arguments.
pub fn job() -> Option<(String, Vec<String>)> {
    let mut args = std::env::args().skip(1);
    (args.next()? == MARK).then_some(())?;
    Some((args.next()?, args.collect()))
}

/// Reports to the parent what the job took.
pub fn report(time: Duration, count: u64, part: Duration) {
    println!("{} {} {count} {}", time.as_micros(), peak().unwrap_or(0), part.as_micros());
}

/// The most memory this process ever had, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
