//! `linkvault init`: adds an account to the configuration.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::api::base_url::BaseUrl;
use crate::cli::{App, CliError, Escaped, Exit, OpErrorKind, hints};
use crate::config::KeySource;
use crate::config::{Home, NewAccount};
use crate::ops::init::{check_key, require_new_name, write_account};

/// Add an account to the configuration and check its key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault init
  linkvault init main --url https://links.example.com --key-env LINKS_KEY
  linkvault init main --url https://links.example.com \\
      --key-command pass show links")]
pub struct Args {
    /// Name of the account
    #[arg(default_value = "main")]
    pub name: String,
    /// URL of the service: everything before /api
    #[arg(long, env = "LINKVAULT_URL", hide_env_values = true)]
    pub url: Option<String>,
    /// Read the key from this environment variable
    #[arg(long, value_name = "VARIABLE", group = "key")]
    pub key_env: Option<String>,
    /// Read the key from this file
    #[arg(long, value_name = "FILE", group = "key")]
    pub key_file: Option<PathBuf>,
    /// Read the key from the output of this command; must be the last flag
    #[arg(
        long,
        value_name = "WORD",
        group = "key",
        num_args = 1..,
        allow_hyphen_values = true
    )]
    pub key_command: Option<Vec<String>>,
    /// Allow sending the key over unencrypted HTTP
    #[arg(long)]
    pub allow_http: bool,
    /// Do not send a request to check the key
    #[arg(long)]
    pub no_check: bool,
    /// Write without asking
    #[arg(short, long)]
    pub yes: bool,
}

impl Args {
    /// The source of the key, if a flag names one.
    #[must_use]
    pub fn key_source(&self) -> Option<KeySource> {
        let variable = self.key_env.clone().map(KeySource::Variable);
        let file = || self.key_file.as_deref().map(|file| KeySource::File(from_anywhere(file)));
        let command = || self.key_command.clone().map(KeySource::Command);
        variable.or_else(file).or_else(command)
    }
}

/// `path` as an absolute path: in the configuration, a relative one would start from its folder.
fn from_anywhere(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Asks for missing values, checks the key, and writes the account to the configuration.
///
/// # Errors
/// If the service does not accept the key, or the file cannot be written. Then nothing is written.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let home = app.env.home()?;
    require_new_name(&app.env, &args.name)?;
    let account = account(args, app)?;
    app.catch_interrupts();
    let who = if args.no_check { None } else { Some(check_key(&app.env, &account)?) };
    if let Some(who) = &who {
        app.out.note(format_args!("The service accepts the key: account {}", Escaped(who)));
    }
    let file = home.config_file();
    let question = format!("Write the account `{}` to {}?", account.name, file.display());
    // Creating the file needs no confirmation; changing an existing one does.
    if file.exists() && !app.out.confirm(question, args.yes)? {
        return Ok(Exit::Done);
    }
    let file = write_account(&app.env, &account)?;
    tell(app, &home, &account, &file)?;
    Ok(Exit::Done)
}

fn account(args: &Args, app: &App) -> Result<NewAccount, CliError> {
    let url = match &args.url {
        Some(url) => url.clone(),
        None => ask(app, "The service's URL, everything before /api:", "--url")?,
    };
    let key = match args.key_source() {
        Some(key) => key,
        None => {
            let question = "The environment variable that holds the key [LINKVAULT_KEY]:";
            let name = ask(app, question, "--key-env, --key-file or --key-command")?;
            let name = if name.is_empty() { "LINKVAULT_KEY".to_owned() } else { name };
            KeySource::Variable(name)
        }
    };
    let url = BaseUrl::parse(&url, args.allow_http)
        .map_err(|error| CliError::new(OpErrorKind::Usage, format_args!("--url {url}: {error}")))?;
    Ok(NewAccount { name: args.name.clone(), url, key, allow_http: args.allow_http })
}

/// Asks a question on the terminal; without one, fails with the missing `flag`.
fn ask(app: &App, question: &str, flag: &str) -> Result<String, CliError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(CliError::new(OpErrorKind::Usage, format_args!("{flag} is missing"))
            .hint(hints::INIT_WITH_FLAGS));
    }
    app.out.note(question);
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(|error| {
        CliError::new(OpErrorKind::Failed, format_args!("cannot read the answer: {error}"))
    })?;
    Ok(answer.trim().to_owned())
}

fn tell(app: &App, home: &Home, account: &NewAccount, file: &Path) -> Result<(), CliError> {
    let name = &account.name;
    let vault = home.vault_file(name);
    if app.out.is_json() {
        app.out.json(&json!({
            "format": 1, "account": name, "config": file.display().to_string(),
            "vault": vault.display().to_string(),
        }))?;
    }
    app.out.summary(format_args!("Wrote the account `{name}` to {}", Escaped(file.display())))?;
    app.out.summary(format_args!("Its vault will be {}", Escaped(vault.display())))?;
    app.out.summary(format_args!("Next: linkvault backup {name}"))
}
