//! `linkvault init`: adds an account to the configuration.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::api::base_url::BaseUrl;
use crate::cli::{App, CliError, Escaped, Exit, OpErrorKind, hints};
use crate::config::{Home, KeySource, NewAccount, NewKey, SecretKind, looks_like_a_key, typed_key};
use crate::ops::init::{check_key, new_key_file, require_new_name, write_account};

/// Add an account to the configuration and check its key
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault init
  linkvault init main --url https://links.example.com --key-env LINKS_KEY
  linkvault init main --url https://links.example.com \\
      --key-command pass show links

Without the flags, init asks for the URL and the key. A pasted key is not shown; it is
written to a file that only you can read.")]
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
        let file = || self.key_file.as_deref().map(|file| KeySource::File(absolute_path(file)));
        let command = || self.key_command.clone().map(KeySource::Command);
        variable.or_else(file).or_else(command)
    }
}

/// `path` as an absolute path: in the configuration, a relative one would start from its folder.
fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Asks for missing values, checks the key, and writes the account to the configuration.
///
/// # Errors
/// If the service does not accept the key, or the file cannot be written. Then nothing is written.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let home = app.env.home()?;
    // From now on Ctrl-C ends a question instead of the process, so that the echo is on again.
    app.catch_interrupts();
    require_new_name(&app.env, &args.name)?;
    let account = account(args, app)?;
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
    print_result(app, &home, &account, &file)?;
    Ok(Exit::Done)
}

fn account(args: &Args, app: &App) -> Result<NewAccount, CliError> {
    let url = match &args.url {
        Some(url) => BaseUrl::parse(url, args.allow_http).map_err(|error| {
            CliError::new(OpErrorKind::Usage, format_args!("--url {url}: {error}"))
        })?,
        None => ask_url(args, app)?,
    };
    let key = match args.key_source() {
        Some(KeySource::Variable(name)) if is_unset_key(&name) => {
            let message = "--key-env takes the name of an environment variable; the given text \
                           is not shown, because it looks like a key itself";
            return Err(CliError::new(OpErrorKind::Usage, message).hint(hints::INIT_WITH_FLAGS));
        }
        Some(source) => NewKey::From(source),
        None => ask_key(args, app)?,
    };
    Ok(NewAccount { name: args.name.clone(), url, key, allow_http: args.allow_http })
}

/// Asks for the URL until it is valid.
fn ask_url(args: &Args, app: &App) -> Result<BaseUrl, CliError> {
    const QUESTION: &str = "The service's URL, everything before /api";
    let mut proposed: Option<String> = None;
    loop {
        let question = match &proposed {
            Some(url) => format!("{QUESTION} [{url}]:"),
            None => format!("{QUESTION}:"),
        };
        let typed = ask(app, &question, "--url")?;
        let answer = proposed.take().filter(|_| typed.is_empty()).unwrap_or(typed);
        match BaseUrl::parse(&answer, args.allow_http) {
            Ok(url) => return Ok(url),
            Err(error) => app.out.warn(error),
        }
        proposed = with_scheme(&answer);
    }
}

/// `answer` with the scheme that it lacks, if it is a URL then.
fn with_scheme(answer: &str) -> Option<String> {
    let url = format!("https://{}", answer.trim());
    let lacks = !answer.contains("://") && BaseUrl::parse(&url, false).is_ok();
    lacks.then_some(url)
}

const KEY_QUESTION: &str = "The API key (not shown; leave it empty to name a variable)";

/// Asks for the key, or else for the variable that holds it. Neither is repeated on the terminal.
fn ask_key(args: &Args, app: &App) -> Result<NewKey, CliError> {
    require_terminal(app, "--key-env, --key-file or --key-command")?;
    new_key_file(&app.env, &args.name)?;
    loop {
        let typed = app.out.ask_hidden(KEY_QUESTION)?;
        if typed.trim().is_empty() {
            break;
        }
        match typed_key(&typed) {
            Ok(key) => {
                app.env.redact_secret(SecretKind::Key, &key);
                return Ok(NewKey::Typed(key));
            }
            Err(error) => app.out.warn(error),
        }
    }
    loop {
        let question = "The environment variable that holds the key [LINKVAULT_KEY]:";
        let name = ask(app, question, "--key-env")?;
        let name = if name.is_empty() { "LINKVAULT_KEY".to_owned() } else { name };
        if is_unset_key(&name) {
            app.out.warn("this is not the name of an environment variable; it looks like a key");
        } else if !args.no_check && std::env::var_os(&name).is_none() {
            app.out.warn("there is no environment variable of this name");
        } else {
            return Ok(NewKey::From(KeySource::Variable(name)));
        }
    }
}

/// Whether a key seems to have been given as the name of a variable.
fn is_unset_key(name: &str) -> bool {
    looks_like_a_key(name) && std::env::var_os(name).is_none()
}

/// Asks a question on the terminal; without one, fails with the missing `flag`.
fn ask(app: &App, question: &str, flag: &str) -> Result<String, CliError> {
    require_terminal(app, flag)?;
    app.out.ask(question)?.ok_or_else(|| missing(flag))
}

fn require_terminal(app: &App, flag: &str) -> Result<(), CliError> {
    if app.out.can_ask() { Ok(()) } else { Err(missing(flag)) }
}

fn missing(flag: &str) -> CliError {
    CliError::new(OpErrorKind::Usage, format_args!("{flag} is missing"))
        .hint(hints::INIT_WITH_FLAGS)
}

fn print_result(app: &App, home: &Home, account: &NewAccount, file: &Path) -> Result<(), CliError> {
    let name = &account.name;
    let vault = home.vault_file(name);
    let typed = matches!(account.key, NewKey::Typed(_));
    let key_file = typed.then(|| home.key_file(name));
    if app.out.is_json() {
        let mut document = json!({
            "format": 1, "account": name, "config": file.display().to_string(),
            "vault": vault.display().to_string(),
        });
        if let Some(key_file) = &key_file {
            document["key_file"] = json!(key_file.display().to_string());
        }
        app.out.json(&document)?;
    }
    if let Some(key_file) = &key_file {
        app.out.summary(format_args!("Wrote the key to {}", Escaped(key_file.display())))?;
    }
    app.out.summary(format_args!("Wrote the account `{name}` to {}", Escaped(file.display())))?;
    app.out.summary(format_args!("Its vault will be {}", Escaped(vault.display())))?;
    app.out.summary(format_args!("Next: linkvault backup {name}"))
}
