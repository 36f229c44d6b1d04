//! The console blocks of README.md and `docs/`, run with the real program in a home of their
//! own, and compared with the output that they show.
//!
//! `LINKVAULT_BLESS=1 cargo test docs::` writes the present output of the program
//! into the blocks. Read the difference before you commit it.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use tempfile::TempDir;

use super::{blocks, read, root};

/// How many lines a server prints when it begins.
const SERVER_LINES: usize = 2;

/// A user's home on a fresh machine, with the shell that works in it.
pub struct Home {
    folder: TempDir,
    shell: RefCell<Shell>,
}

/// What a shell remembers from one command to the next.
#[derive(Default)]
struct Shell {
    /// Set by `export NAME=VALUE`.
    variables: Vec<(String, String)>,
    /// Programs that a command with `&` started.
    running: Vec<Child>,
    /// Of each of them: the address that the block shows, and the one that is free here.
    addresses: Vec<(String, String)>,
    /// What `echo $?` prints.
    exit_code: i32,
}

impl Drop for Shell {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Home {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), shell: RefCell::default() }
    }

    /// The output of a command that succeeds.
    #[track_caller]
    pub fn run(&self, command: &str) -> String {
        let (output, code) = self.try_run(command);
        assert_eq!(code, 0, "{command}: {output}");
        output
    }

    /// The output of a command, or else the messages of one that fails, and its exit code.
    pub fn try_run(&self, command: &str) -> (String, i32) {
        let words = words(command);
        let output = match words[0].as_str() {
            "linkvault" if words.ends_with(&["&".to_owned()]) => {
                self.start(&words[1..words.len() - 1])
            }
            "linkvault" => return self.linkvault(&words[1..]),
            "echo" if words[1..] == ["$?"] => format!("{}\n", self.shell.borrow().exit_code),
            "export" => {
                let (name, value) = words[1].split_once('=').unwrap();
                self.shell.borrow_mut().variables.push((name.to_owned(), value.to_owned()));
                String::new()
            }
            "cp" => {
                std::fs::copy(self.path(&words[1]), self.path(&words[2])).unwrap();
                String::new()
            }
            "cat" => std::fs::read_to_string(self.path(&words[1])).unwrap(),
            "sed" => self.sed(&words[1..]),
            "sqlite3" => query(&self.path(&words[1]), &words[2]),
            other => panic!("cannot run {other}"),
        };
        (output, 0)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.strip_prefix("~/").unwrap_or(path))
    }

    /// Replaces the first match in a file, as an edit in a spreadsheet does.
    fn sed(&self, arguments: &[String]) -> String {
        let [flag, script, file] = arguments else { panic!("{arguments:?}") };
        assert_eq!(flag, "-i");
        let ["s", old, new, ""] = script.split('/').collect::<Vec<_>>()[..] else {
            panic!("{script}")
        };
        let path = self.path(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(old));
        std::fs::write(path, text.replacen(old, new, 1)).unwrap();
        String::new()
    }

    fn command(&self, arguments: &[String]) -> Command {
        let shell = self.shell.borrow();
        let real = arguments.iter().map(|argument| {
            let each = shell.addresses.iter();
            each.fold(argument.clone(), |text, (shown, free)| text.replace(shown, free))
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_linkvault"));
        command
            .args(real)
            .env_clear()
            .envs([("COLUMNS", "80"), ("TZ", "UTC")])
            .envs(shell.variables.iter().map(|(name, value)| (name, value)))
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path());
        command
    }

    fn linkvault(&self, arguments: &[String]) -> (String, i32) {
        let output = self.command(arguments).output().unwrap();
        let mut text = String::from_utf8(output.stdout).unwrap();
        if text.is_empty() && !output.status.success() {
            text = String::from_utf8(output.stderr).unwrap();
        }
        let code = output.status.code().unwrap();
        self.shell.borrow_mut().exit_code = code;
        (self.as_shown(&text), code)
    }

    /// Starts a server at a free port, in the place of the one that the block shows.
    fn start(&self, arguments: &[String]) -> String {
        let at = arguments.iter().position(|it| it == "--listen").unwrap() + 1;
        let mut free = arguments.to_vec();
        free[at] = "127.0.0.1:0".to_owned();
        let mut command = self.command(&free);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, receiver) = mpsc::channel();
        // It reads on, so that the server can write.
        std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|it| drop(sender.send(it)))
        });
        let line = |_| receiver.recv_timeout(Duration::from_secs(20)).ok();
        let output: Vec<_> = (0..SERVER_LINES).map_while(line).collect();
        let address = output[0].split("http://").nth(1).unwrap().split(' ').next().unwrap();
        let mut shell = self.shell.borrow_mut();
        shell.addresses.push((arguments[at].clone(), address.to_owned()));
        shell.running.push(child);
        drop(shell);
        self.as_shown(&(output.join("\n") + "\n"))
    }

    /// The text with the home and the addresses that the block shows.
    fn as_shown(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "~");
        let shell = self.shell.borrow();
        shell.addresses.iter().fold(text, |text, (shown, free)| text.replace(free, shown))
    }
}

/// The words of a command, as a shell splits them.
pub fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The rows as `sqlite3` prints them.
pub fn query(vault: &Path, sql: &str) -> String {
    let db = rusqlite::Connection::open(vault).unwrap();
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| {
        let cell = |at| match row.get(at)? {
            rusqlite::types::Value::Text(text) => Ok(text),
            rusqlite::types::Value::Integer(number) => Ok(number.to_string()),
            _ => Ok(String::new()),
        };
        (0..columns).map(cell).collect::<rusqlite::Result<Vec<String>>>()
    };
    let rows = statement.query_map([], row).unwrap();
    rows.map(|row| row.unwrap().join("|") + "\n").collect()
}

/// The text without differences between runs: times, durations, sizes, numbers of scans.
fn stable(text: &str) -> String {
    let mut stable = String::new();
    for line in text.lines() {
        let moves = ["requests in", " scan", "Saved in", " 20", ",20", "#"];
        let line = line.trim_end();
        if moves.iter().any(|word| line.contains(word)) {
            let digits = line.replace(|letter: char| letter.is_ascii_digit(), "0");
            let words = digits.split_whitespace().map(|word| {
                let number = word.trim_start_matches(['+', '(']).trim_start_matches('0');
                if number.is_empty() || number.starts_with('.') { "0" } else { word }
            });
            stable += &words
                .collect::<Vec<_>>()
                .join(" ")
                .replace("QR codes", "QR code")
                .replace(" scans on", " scan on");
        } else {
            stable += line;
        }
        stable.push('\n');
    }
    stable
}

/// Runs the blocks of a file, one after another in one home, and compares the output. A
/// command fails only where the next one shows its exit code.
fn check_session(path: &str) {
    let home = Home::new();
    let text = read(path);
    let mut now = text.clone();
    for block in blocks(&text, "console") {
        if block.before.contains("<!-- wait -->") {
            // Only time changes the counters of the sample account.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_secs(4));
        }
        let commands: Vec<_> =
            block.text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        let mut output = String::new();
        for (at, command) in commands.iter().enumerate() {
            let gap = if output.is_empty() { "" } else { "\n" };
            let (printed, code) = home.try_run(command);
            let may_fail = commands.get(at + 1) == Some(&"echo $?");
            assert!(code == 0 || may_fail, "{path}: {command}: {code}: {printed}");
            output += &format!("{gap}$ {command}\n{printed}");
        }
        if stable(&output) == stable(&block.text) {
            continue;
        }
        if std::env::var_os("LINKVAULT_BLESS").is_some() {
            let fenced = |text: &str| format!("```console\n{text}```");
            now = now.replacen(&fenced(&block.text), &fenced(&output), 1);
        } else {
            panic!("{path}: the block\n{}\nshould be\n{output}", block.text);
        }
    }
    if now != text {
        std::fs::write(root().join(path), now).unwrap();
    }
}

/// One test for each file. The vaults are in another folder on other platforms.
#[cfg(target_os = "linux")]
mod sessions {
    use super::check_session;

    #[test]
    fn the_session_of_readme_is_true() {
        check_session("README.md");
    }

    #[test]
    fn the_session_of_changes_is_true() {
        check_session("docs/changes.md");
    }

    #[test]
    fn the_session_of_configuration_is_true() {
        check_session("docs/configuration.md");
    }

    #[test]
    fn the_session_of_csv_is_true() {
        check_session("docs/csv.md");
    }

    #[test]
    fn the_session_of_daemon_is_true() {
        check_session("docs/daemon.md");
    }

    #[test]
    fn the_session_of_json_is_true() {
        check_session("docs/json.md");
    }

    #[test]
    fn the_session_of_moving_is_true() {
        check_session("docs/moving.md");
    }

    #[test]
    fn the_session_of_sandbox_is_true() {
        check_session("docs/sandbox.md");
    }

    #[test]
    fn the_session_of_sql_is_true() {
        check_session("docs/sql.md");
    }
}
