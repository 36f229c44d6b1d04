//! The program around a command: its output, its signals, and the environment of the
//! operations that it calls.

use std::io::{self, BufWriter, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use terminal_size::{Height, Width, terminal_size_of as size_of};

use super::global::GlobalArgs;
use super::output::{Output, TerminalInfo};
use super::plan_args::PlanFormat;
use super::{CliErrorKind, hints, progress, render as shown, signals};
use crate::change::guards::GuardRefusal;
use crate::change::plan::{Plan, PlanStep, StepAnswer};
use crate::change::render;
use crate::clock::{Clock, Interrupt, SystemClock, Waker};
use crate::config::{Config, key_variables};
use crate::migrate::ManualTask;
use crate::ops::{Details, Env, Events, NextStep, OpError, OpErrorKind, PlanAnswer, PlanQuestion};
use crate::progress::Progress;

/// The program around a command.
pub struct App {
    /// The output of the command.
    pub out: Arc<Output>,
    /// The environment of operations; their events go to `out`.
    pub env: Arc<Env>,
    terminal: Arc<Terminal>,
}

/// Shows the events of operations, and lets interrupts end their waits.
struct Terminal {
    out: Arc<Output>,
    clock: Arc<dyn Clock>,
    interrupt: Interrupt,
    /// Whether signals are handled already.
    signals: AtomicBool,
    /// Whether stdout was closed before a plan was shown.
    closed: AtomicBool,
    /// Known as soon as the app is complete.
    env: OnceLock<Weak<Env>>,
}

impl Terminal {
    /// Hides the variables that hold secrets from a pager.
    fn hide_secrets(&self) {
        let Some(env) = self.env.get().and_then(Weak::upgrade) else { return };
        let accounts = env.config().map(Config::accounts).unwrap_or_default();
        let mut hidden = key_variables(accounts);
        let secret = |value: &str| env.redactor.text(value) != value;
        let all = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        hidden.extend(all.filter(|(_, value)| secret(value)).map(|(name, _)| name));
        self.out.plans().hidden = hidden;
    }
}

impl Events for Terminal {
    fn warning(&self, text: &str) {
        self.out.warn(text);
    }

    fn note(&self, text: &str) {
        self.out.note(text);
    }

    fn progress(&self, account: &str) -> Arc<dyn Progress + Send + Sync> {
        progress::progress(&self.out, &self.clock, account)
    }

    fn catch_interrupts(&self) {
        if self.signals.swap(true, Ordering::SeqCst) {
            return;
        }
        let (stderr, quiet) = (Mutex::new(self.out.error_stream()), self.out.is_quiet());
        let question = self.out.question();
        let asked = question.clone();
        let paging = move || asked.is_paging();
        let told = move || {
            if question.end() || question.end_pager() {
                return;
            }
            let stderr = stderr.lock();
            if let (Ok(mut stderr), false) = (stderr, quiet) {
                // If stderr is closed, the message cannot be shown.
                let _ = stderr.write_all(
                    b"stopping after the current request; press Ctrl-C again to stop at once\n",
                );
            }
        };
        if let Err(error) = signals::raise_on_signal(self.interrupt.clone(), paging, told) {
            self.out.warn(format_args!(
                "cannot handle Ctrl-C: {error}; it will end the program at once"
            ));
        }
    }

    fn planned(&self, plan: &Plan, is_answer: bool) -> Result<(), OpError> {
        self.hide_secrets();
        shown::plan::show(&self.out, plan, PlanFormat::Text, is_answer).map_err(|error| {
            if error.kind == CliErrorKind::Closed {
                self.closed.store(true, Ordering::Relaxed);
            }
            OpError::new(OpErrorKind::Failed, error.message)
        })
    }

    fn manual_tasks(&self, tasks: &[ManualTask]) -> Result<(), OpError> {
        shown::migration::manual_tasks(&self.out, tasks)
            .map_err(|error| OpError::new(OpErrorKind::Failed, error.message))
    }

    fn confirm(&self, question: &str) -> Result<bool, OpError> {
        self.out.confirm(question, false)
    }

    fn confirm_plan(&self, question: &PlanQuestion<'_>) -> Result<PlanAnswer, OpError> {
        if question.is_part {
            self.out.note(render::end(question.plan));
        }
        self.out.confirm_plan(question.text, question.by_step)
    }

    fn confirm_step(&self, plan: &Plan, step: &PlanStep) -> Result<StepAnswer, OpError> {
        let count = plan.steps.len();
        self.out.confirm_step(&shown::plan::step(&self.out, plan, step), (step.step, count))
    }

    fn exceed_limit(&self, refusal: &GuardRefusal) -> Result<bool, OpError> {
        self.out.exceed_limit(&refusal.to_string(), refusal.count)
    }

    fn accept_suspicious(&self, question: &str, values: &Details) -> Result<bool, OpError> {
        self.out.accept_suspicious(question, values)
    }

    fn hint(&self, next: &NextStep) -> Option<String> {
        Some(hints::hint(next).into_owned())
    }
}

impl App {
    /// An app with the streams and the clock of the process.
    #[must_use]
    pub fn new(flags: &GlobalArgs) -> Self {
        let interrupt = Interrupt::default();
        let stdout = Box::new(BufWriter::new(io::stdout()));
        let out = Arc::new(Output::new(stdout, Box::new(io::stderr()), terminal_info(), flags));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new(interrupt.clone()));
        let terminal = Arc::new(Terminal {
            out: Arc::clone(&out),
            clock: Arc::clone(&clock),
            interrupt,
            signals: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            env: OnceLock::new(),
        });
        let env = Arc::new(Env::new(clock, Arc::clone(&terminal) as _).with_force(flags.force));
        let _ = terminal.env.set(Arc::downgrade(&env));
        Self { out, env, terminal }
    }

    /// Whether an operation ended because stdout was closed before its plan was shown.
    #[must_use]
    pub fn output_closed(&self) -> bool {
        self.terminal.closed.load(Ordering::Relaxed)
    }

    /// From now on Ctrl-C and SIGTERM end the waits of the clock instead of the process, so that a
    /// command can finish its current step. A second Ctrl-C ends the process.
    pub fn catch_interrupts(&self) {
        self.terminal.catch_interrupts();
    }

    /// For a long-running command: SIGTERM and Ctrl-C interrupt the clock and wake `waker`; SIGHUP
    /// sets `reload` and wakes it.
    pub fn catch_signals(&self, waker: &Waker, reload: &Arc<AtomicBool>) {
        self.terminal.signals.store(true, Ordering::SeqCst);
        let (interrupt, woken) = (self.terminal.interrupt.clone(), waker.clone());
        let stop = move || {
            interrupt.raise();
            woken.wake();
        };
        let (again, woken) = (Arc::clone(reload), waker.clone());
        let reload = move || {
            again.store(true, Ordering::SeqCst);
            woken.wake();
        };
        if let Err(error) = signals::on_signals(stop, reload) {
            self.out.warn(format_args!("cannot handle signals: {error}"));
        }
    }
}

/// The properties of the process's streams and environment.
#[must_use]
pub fn terminal_info() -> TerminalInfo {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    TerminalInfo {
        stdin_terminal: io::stdin().is_terminal(),
        stdout_terminal: io::stdout().is_terminal(),
        stderr_terminal: io::stderr().is_terminal() && !dumb,
        no_color: set("NO_COLOR") || dumb,
        width: width(size_of(io::stdout()), io::stdout().is_terminal()),
        error_width: io::stderr()
            .is_terminal()
            .then(|| width(size_of(io::stderr()), true))
            .flatten(),
        // A pager cannot work without knowing the terminal.
        screen: screen().filter(|_| !dumb && (cfg!(windows) || set("TERM"))),
    }
}

/// The columns and rows of the terminal of stdout.
fn screen() -> Option<(u16, u16)> {
    let (Width(columns), Height(rows)) = size_of(io::stdout())?;
    Some((columns, rows)).filter(|(_, rows)| *rows > 0)
}

/// The columns by the variable `COLUMNS` or the terminal, at least 40. `None` if the variable is not
/// set, and the stream is no terminal.
fn width(size: Option<(Width, Height)>, terminal: bool) -> Option<u16> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let size = size.map(|(Width(width), _)| width).or(terminal.then_some(80));
    told.or(size).map(|width: u16| width.max(40))
}
