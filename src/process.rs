//! Runs programs that the configuration names, without a shell and with a time limit.

use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::clock::{Clock, SleepOutcome};

/// How long to wait for a program's output after the program exit.
const PIPE_TIME: Duration = Duration::from_secs(2);
/// The same after the end of a line.
const LINE_TIME: Duration = Duration::from_millis(200);
/// The most bytes that are kept of each output stream.
const MAX_OUTPUT: usize = 64 * 1024;

/// Standard input and environment of a program.
#[derive(Debug, Default, Clone, Copy)]
pub struct ProcessInput<'a> {
    /// Bytes for its standard input.
    pub input: &'a [u8],
    /// Environment variables to set, as name and value.
    pub set: &'a [(&'a str, &'a str)],
    /// Names of environment variables to remove.
    pub hidden: &'a [String],
}

/// Finds `program` as the system does that starts it: by its path, or in the folders of `PATH`.
///
/// # Errors
/// In words, if there is no such file, or it may not be run.
pub fn find(program: &str) -> Result<PathBuf, String> {
    let is_path = program.contains(std::path::MAIN_SEPARATOR);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = match is_path {
        true => vec![PathBuf::from(program)],
        false => std::env::split_paths(&folders).map(|folder| folder.join(program)).collect(),
    };
    if let Some(found) = places.iter().find(|place| is_executable(place)) {
        return Ok(found.clone());
    }
    Err(match places.iter().find(|place| place.is_file()) {
        Some(file) => format!("{} is not executable", file.display()),
        None if is_path => format!("there is no file {program}"),
        None => format!("no folder of PATH has `{program}`"),
    })
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file() || file.with_extension("exe").is_file()
}

/// Exit status and output of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// How the program exit.
    pub status: ExitStatus,
    /// The first 64 KiB of its standard output.
    pub stdout: Vec<u8>,
    /// The first 64 KiB of its standard error.
    pub stderr: Vec<u8>,
}

impl ProcessExit {
    /// The exit as text: `exit code 3`, or the signal that ended the program.
    #[must_use]
    pub fn exit(&self) -> String {
        let code = self.status.code();
        code.map_or_else(|| self.status.to_string(), |code| format!("exit code {code}"))
    }
}

/// Why a program has no exit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessError {
    /// It could not be started, for this reason.
    NotStarted(String),
    /// It ran longer than the limit and was killed.
    TimedOut,
    /// linkvault was asked to stop.
    Interrupted,
}

/// Runs `words`, a program and its arguments, and kills it after `time`.
///
/// # Errors
/// An exit code other than 0 is not an error here.
pub fn run(
    words: &[String],
    process_input: &ProcessInput<'_>,
    clock: &dyn Clock,
    time: Duration,
) -> Result<ProcessExit, ProcessError> {
    let not_run = |error: &std::io::Error| ProcessError::NotStarted(error.to_string());
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| ProcessError::NotStarted("no program is named".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if process_input.input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.envs(process_input.set.iter().copied());
    for name in process_input.hidden {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| not_run(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = process_input.input.to_vec();
        std::thread::spawn(move || {
            // A program may exit without reading all of its input.
            let _ = stdin.write_all(&input);
        });
    }
    let stdout = read_in_background(child.stdout.take());
    let stderr = read_in_background(child.stderr.take());
    let status = wait_for_exit(&mut child, clock, time)?;
    // A grandchild may keep the pipes open, so the wait has a limit.
    let stdout = collect(&stdout, clock, PIPE_TIME);
    let wait = if status.success() { Duration::ZERO } else { PIPE_TIME };
    let stderr = collect(&stderr, clock, wait);
    Ok(ProcessExit { status, stdout, stderr })
}

/// A process that has not been waited for, so that no other has its number.
#[derive(Debug, Clone, Copy)]
pub struct ProcessHandle {
    #[cfg(unix)]
    id: rustix::process::Pid,
}

impl ProcessHandle {
    fn of(child: &Child) -> Option<Self> {
        #[cfg(unix)]
        return Some(Self { id: rustix::process::Pid::from_child(child) });
        #[cfg(not(unix))]
        return None;
    }

    /// Asks the process to end, with SIGTERM. Returns whether it could be sent.
    #[must_use]
    pub fn end(self) -> bool {
        #[cfg(unix)]
        return rustix::process::kill_process(self.id, rustix::process::Signal::TERM).is_ok();
        #[cfg(not(unix))]
        return false;
    }

    /// Waits until the process has ended, without collecting its exit status.
    fn wait(self) {
        #[cfg(unix)]
        {
            use rustix::process::{WaitId, WaitIdOptions, waitid};
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // It can fail only if a signal interrupts it.
            while matches!(waitid(WaitId::Pid(self.id), options), Err(rustix::io::Errno::INTR)) {}
        }
    }
}

/// Gives `input` to `words`, a program that writes to the terminal itself, and waits for its end.
/// Variables of the environment that `set` has and the process already has are not changed.
/// `running` gets its process, so that another thread can end it, and `None` after its end.
///
/// # Errors
/// If it cannot be started, or its exit code is not 0.
pub fn show(
    words: &[String],
    process_input: &ProcessInput<'_>,
    running: impl Fn(Option<ProcessHandle>),
) -> Result<(), ProcessError> {
    let not_run = |error: std::io::Error| ProcessError::NotStarted(error.to_string());
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| ProcessError::NotStarted("no program is named".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    let unset = |(name, _): &(&str, &str)| std::env::var_os(name).is_none();
    command.envs(process_input.set.iter().copied().filter(unset));
    for name in process_input.hidden {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(not_run)?;
    let handle = ProcessHandle::of(&child);
    running(handle);
    if let Some(mut stdin) = child.stdin.take() {
        // A person may leave the program before it has read everything.
        let _ = stdin.write_all(process_input.input);
    }
    handle.into_iter().for_each(ProcessHandle::wait);
    running(None);
    let status = child.wait().map_err(not_run)?;
    match status.code() {
        Some(0) | None => Ok(()),
        Some(code) => Err(ProcessError::NotStarted(format!("exit code {code}"))),
    }
}

/// Reads a pipe to its end on a thread: a full pipe would block the child. Sends the first bytes as
/// they arrive.
fn read_in_background<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let (mut left, mut part) = (MAX_OUTPUT, vec![0; MAX_OUTPUT]);
        while left > 0 {
            match pipe.read(&mut part[..left]) {
                Ok(0) => return,
                Ok(count) => {
                    left -= count;
                    // The receiver may wait no longer.
                    let _ = sender.send(part[..count].to_vec());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        drop(sender);
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    });
    receiver
}

/// What a program that has ended wrote to a pipe: up to the pipe's end, or for at most `time`. Waits
/// less after the end of a line, because then only another program has the pipe open.
fn collect(pipe: &Receiver<Vec<u8>>, clock: &dyn Clock, time: Duration) -> Vec<u8> {
    let (began, mut bytes) = (clock.monotonic(), Vec::new());
    loop {
        let left = time.saturating_sub(clock.monotonic().saturating_sub(began));
        let left = if bytes.ends_with(b"\n") { left.min(LINE_TIME) } else { left };
        match pipe.recv_timeout(left) {
            Ok(part) => bytes.extend(part),
            Err(_) => return bytes,
        }
    }
}

/// Waits for the child for at most `time`, then kills it.
fn wait_for_exit(
    child: &mut Child,
    clock: &dyn Clock,
    time: Duration,
) -> Result<ExitStatus, ProcessError> {
    let started = clock.monotonic();
    let error = loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => break ProcessError::NotStarted(error.to_string()),
        }
        if clock.monotonic().saturating_sub(started) >= time {
            break ProcessError::TimedOut;
        }
        if clock.sleep(Duration::from_millis(10)) == SleepOutcome::Interrupted {
            break ProcessError::Interrupted;
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(error)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Interrupt, SystemClock};

    fn shell(script: &str, process_input: &ProcessInput<'_>) -> ProcessExit {
        let words = ["sh", "-c", script].map(str::to_owned);
        let clock = SystemClock::new(Interrupt::default());
        run(&words, process_input, &clock, Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn a_program_reads_its_input_and_sees_its_variables() {
        let given =
            ProcessInput { input: b"in", set: &[("LINKVAULT_X", "x")], hidden: &["PATH".into()] };
        let exit = shell("read line; echo \"$line $LINKVAULT_X ${PATH-none}\"", &given);
        assert!(exit.status.success());
        // A shell without PATH sets its own; the inherited one must be gone.
        let stdout = String::from_utf8(exit.stdout).unwrap();
        assert!(stdout.starts_with("in x "), "{stdout}");
        assert!(!stdout.contains(&std::env::var("PATH").unwrap()), "{stdout}");
    }

    #[test]
    fn a_program_may_exit_without_reading_its_input() {
        let flood = vec![b'x'; 1 << 20];
        let exit = shell("exit 3", &ProcessInput { input: &flood, ..ProcessInput::default() });
        assert_eq!(exit.exit(), "exit code 3");
    }
}
