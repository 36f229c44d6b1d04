//! Runs the program on a pseudo-terminal, as a person uses it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::{TestEnvironment, until};

/// A program that runs on a terminal of 80 columns and 24 rows.
pub struct OnTerminal {
    child: Child,
    keyboard: File,
    /// Keeps the terminal open, so that its mode can be read after the program ended.
    screen: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl TestEnvironment {
    /// Starts the program on a terminal.
    pub fn on_terminal(&self, arguments: &[&str]) -> OnTerminal {
        self.on_terminal_with(arguments, |_| {})
    }

    /// Like [`Self::on_terminal`], with a changed command.
    pub fn on_terminal_with(
        &self,
        arguments: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> OnTerminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let open = || {
            use std::os::unix::fs::OpenOptionsExt as _;
            let flags = rustix::fs::OFlags::NOCTTY.bits() as i32;
            File::options().read(true).write(true).custom_flags(flags).open(PathBuf::from(&name))
        };
        let screen = open().unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        // `setsid --ctty` makes it the controlling terminal, so that Ctrl-C reaches the program.
        let program = self.command(arguments);
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(program.get_program()).args(program.get_args());
        command.env_clear().current_dir(program.get_current_dir().unwrap());
        command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env_remove("COLUMNS").env("TERM", "xterm");
        let stream = || Stdio::from(open().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        change(&mut command);
        let child = command.spawn().unwrap();
        let mut output = File::from(controller);
        let keyboard = output.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the last descriptor of the terminal is closed.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        OnTerminal { child, keyboard, screen, shown, reader: Some(reader) }
    }
}

impl OnTerminal {
    /// Everything on the screen, with `\n` as the end of a line.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).replace("\r\n", "\n")
    }

    /// Waits until the screen shows `text`.
    #[track_caller]
    pub fn shows(&self, text: &str) -> &Self {
        until(&format!("{text:?}"), || self.screen().contains(text));
        self
    }

    /// Waits until the screen shows `text` this many times.
    #[track_caller]
    pub fn shows_times(&self, text: &str, times: usize) -> &Self {
        until(&format!("{text:?}"), || self.screen().matches(text).count() >= times);
        self
    }

    /// Types `keys`.
    pub fn types(&self, keys: &str) -> &Self {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Waits for the end of the program. Returns its exit code and the screen.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        let echo = tcgetattr(&self.screen).unwrap().local_modes;
        assert!(echo.contains(LocalModes::ECHO | LocalModes::ICANON), "the echo stays off");
        let Self { screen, reader, shown, .. } = &mut self;
        // The reader's end comes when the last descriptor of the terminal is closed.
        *screen = File::open("/dev/null").unwrap();
        reader.take().unwrap().join().unwrap();
        let shown = String::from_utf8_lossy(&shown.lock().unwrap()).replace("\r\n", "\n");
        (code, shown)
    }
}
