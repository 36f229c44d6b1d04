//! Programs that the configuration names, run without a shell and for a bounded
//! time.

use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::clock::{Clock, SleepOutcome};

/// How long a program's pipes may stay open after it ended.
const PIPE_TIME: Duration = Duration::from_secs(2);
/// The most bytes that are kept of what it says.
const LARGEST: u64 = 64 * 1024;

/// What a program is given beside its arguments.
#[derive(Debug, Default, Clone, Copy)]
pub struct ProcessInput<'a> {
    /// What it reads from its standard input.
    pub input: &'a [u8],
    /// Variables that are set for it.
    pub set: &'a [(&'a str, &'a str)],
    /// Variables that it must not see.
    pub hidden: &'a [String],
}

/// What it said, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    pub status: ExitStatus,
    /// Its standard output, up to 64 KiB.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl ProcessExit {
    /// `exit code 3`, or the signal that ended it.
    #[must_use]
    pub fn exit(&self) -> String {
        let code = self.status.code();
        code.map_or_else(|| self.status.to_string(), |code| format!("exit code {code}"))
    }
}

/// Why it did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessError {
    /// It could not be started.
    NotStarted(String),
    /// It took too long, and was stopped.
    TimedOut,
    /// This program was told to stop.
    Interrupted,
}

/// Runs `words`, a program and its arguments, for at most `time`.
///
/// # Errors
/// [`ProcessError`]; an exit code other than 0 is no error here.
pub fn run(
    words: &[String],
    given: &ProcessInput<'_>,
    clock: &dyn Clock,
    time: Duration,
) -> Result<ProcessExit, ProcessError> {
    let not_run = |error: &std::io::Error| ProcessError::NotStarted(error.to_string());
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| ProcessError::NotStarted("no program is named".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if given.input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.envs(given.set.iter().copied());
    for name in given.hidden {
        command.env_remove(name);
    }
    let mut child = command.spawn().map_err(|error| not_run(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        let input = given.input.to_vec();
        std::thread::spawn(move || {
            // Who does not read to the end needs no more.
            let _ = stdin.write_all(&input);
        });
    }
    let stdout = collected(child.stdout.take());
    let stderr = collected(child.stderr.take());
    let status = ended(&mut child, clock, time)?;
    // A grandchild may hold the pipes open: they are not waited for forever.
    let stdout = stdout.recv_timeout(PIPE_TIME).unwrap_or_default();
    let wait = if status.success() { Duration::ZERO } else { PIPE_TIME };
    let stderr = stderr.recv_timeout(wait).unwrap_or_default();
    Ok(ProcessExit { status, stdout, stderr })
}

/// Reads a pipe to its end beside the child, so that neither waits for the other.
fn collected<R: Read + Send + 'static>(pipe: Option<R>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(LARGEST).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        }
    });
    receiver
}

/// Waits for the child, a bounded time.
fn ended(child: &mut Child, clock: &dyn Clock, time: Duration) -> Result<ExitStatus, ProcessError> {
    let begun = clock.monotonic();
    let error = loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => break ProcessError::NotStarted(error.to_string()),
        }
        if clock.monotonic().saturating_sub(begun) >= time {
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

    fn shell(script: &str, given: &ProcessInput<'_>) -> ProcessExit {
        let words = ["sh", "-c", script].map(str::to_owned);
        let clock = SystemClock::new(Interrupt::default());
        run(&words, given, &clock, Duration::from_secs(20)).unwrap()
    }

    #[test]
    fn a_program_reads_its_input_and_sees_its_variables() {
        let given =
            ProcessInput { input: b"in", set: &[("LINKVAULT_X", "x")], hidden: &["PATH".into()] };
        let ended = shell("read line; echo \"$line $LINKVAULT_X ${PATH-none}\"", &given);
        assert!(ended.status.success());
        // A shell without a path gives itself one; what it was given is gone.
        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(said.starts_with("in x "), "{said}");
        assert!(!said.contains(&std::env::var("PATH").unwrap()), "{said}");
    }

    #[test]
    fn a_program_that_reads_nothing_is_not_waited_for() {
        let flood = vec![b'x'; 1 << 20];
        let ended = shell("exit 3", &ProcessInput { input: &flood, ..ProcessInput::default() });
        assert_eq!(ended.exit(), "exit code 3");
    }
}
