//! The configuration: `config`.

use std::collections::BTreeSet;
use std::path::Path;

use linkvault::config::{Config, Home};

pub const WORDS: &[&str] = &[
    "[accounts.main]\n",
    "[defaults]\n",
    "[daemon]\n",
    "url = \"https://links.example\"\n",
    "key_env = \"LINKS_KEY\"\n",
    "key_file = \"key\"\n",
    "key_command = [\"pass\"]\n",
    "schedule = \"0 3 * * *\"\n",
    "timezone = \"Europe/Berlin\"\n",
    "reserve = 5\n",
    "keep = { last = 7, daily = 30 }\n",
    "max_age = \"2d\"\n",
    "alert = { url = \"https://a.example\" }\n",
    "copy = \"copies\"\n",
    "export = { to = \"out\" }\n",
    "allow_http = true\n",
    "limit = 30\n",
    "stats = \"changed\"\n",
    "= ",
    "\"",
    "'''",
    "# ",
    "\n",
    "[[",
    "]]",
    "1979-05-27",
    "inf",
    "0x7f",
    "\\u0000",
    "..",
    "/",
    "http://127.0.0.1:9",
    "http://links.example",
    "sandbox",
];

pub fn run(input: &[u8]) {
    let home = Home::at(Path::new("/nowhere"));
    let read = Config::parse(&home, input);
    match &read {
        Ok(config) => {
            let names: BTreeSet<_> = config.accounts().iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names.len(), config.accounts().len(), "a name stands for one account");
            for account in config.accounts() {
                assert!(config.account(&account.name).is_ok_and(|it| it.name == account.name));
                assert!(!account.name.contains(['/', '\\', '@', '\0']), "{:?}", account.name);
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
            for problem in problems {
                assert!((1..=lines).contains(&problem.line), "{problem:?} of {lines} lines");
                assert!((1..=input.len() + 1).contains(&problem.column), "{problem:?}");
                assert!(!problem.what.is_empty());
            }
        }
    }
    // A comment at the end changes nothing.
    if !is_open(input) && !input.ends_with(b"\r") {
        let more = [input, b"\n# nothing"].concat();
        assert_eq!(read.is_ok(), Config::parse(&home, &more).is_ok());
    }
}

/// Whether what follows the text may be a part of a string.
fn is_open(input: &[u8]) -> bool {
    input.windows(3).any(|it| it == b"\"\"\"" || it == b"'''")
}
