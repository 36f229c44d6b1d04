//! `linkvault sandbox`: serves the API on this machine.

use crate::ops::{NextStep, OpError, sandbox_from_vault, state_ref};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::api::http::ApiKey;
use crate::cli::{App, CliError, Exit, OpErrorKind, TextTable, hints};
use crate::clock::SleepOutcome;
use crate::config::parse_address;
use crate::ops::built_in_sandbox::{load, save, saver};
use crate::ops::error_sources::cannot_write;
use crate::sandbox::behaviour::CHOICES;
use crate::sandbox::sample_account::sample_account;
use crate::sandbox::{Behaviour, FAULT_NAMES, Faults, SandboxService, ServeOptions, Store, serve};
use crate::vault::Vault;

/// Serve the API on this machine, for trials and tests
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault sandbox
  linkvault sandbox --listen 127.0.0.1:9000 --key secret --limit 30
  linkvault sandbox --from main              with the newest snapshot of main")]
pub struct Args {
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = parse_address,
        default_value = "127.0.0.1:8080",
        env = "LINKVAULT_SANDBOX_LISTEN",
        hide_env_values = true
    )]
    pub listen: SocketAddr,
    /// Serve the newest snapshot of this account or vault file
    #[arg(long, value_name = "VAULT")]
    pub from: Option<String>,
    /// Behaviour where the API document is silent
    #[arg(long, value_name = "NAME", value_delimiter = ',', visible_alias = "behavior")]
    pub behaviour: Vec<String>,
    /// Faults to inject
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub fault: Vec<String>,
    /// API key that clients must send; default: `sandbox`
    #[arg(long, env = "LINKVAULT_SANDBOX_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Requests per minute, 0 for no limit; default: 30
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u32>,
    /// Keep the state in this file between starts
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
}

/// Serves until it is interrupted.
///
/// # Errors
/// If the address cannot be listened on, or a behaviour or fault does not exist.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    if args.behaviour == ["list"] || args.fault == ["list"] {
        return list(app);
    }
    let behaviour = behaviour(args)?;
    let faults: Faults = args
        .fault
        .join(",")
        .parse()
        .map_err(|error| CliError::new(OpErrorKind::Usage, error).hint(hints::LIST_FAULTS))?;
    let mut store = store(args, app)?;
    let key = args.key.as_deref().unwrap_or("sandbox");
    let options = ServeOptions {
        on_write: args.state.clone().map(|file| Arc::new(saver(file)) as Arc<_>),
        ..ServeOptions::default()
    };
    let cannot = |error| {
        let message = format!("cannot listen on {}: {error}", args.listen);
        CliError::new(OpErrorKind::Failed, message).hint(hints::LISTEN_ELSEWHERE)
    };
    let listener = TcpListener::bind(args.listen).map_err(cannot)?;
    let url = format!("http://{}", listener.local_addr().map_err(cannot)?);
    store.serve_at(&url);
    let service = SandboxService::new(store, ApiKey::new(key), behaviour).with_log_limit(0);
    app.catch_interrupts();
    let (service, faults) = (Arc::new(Mutex::new(service)), Arc::new(Mutex::new(faults)));
    let server =
        serve(listener, service, Arc::clone(&app.env.clock), faults, options).map_err(cannot)?;
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "url": url, "key": key}))?;
    }
    app.out.summary(format_args!("The sandbox answers at {url} to the key `{key}`"))?;
    app.out.summary("Press Ctrl-C to end it")?;
    app.out.finish()?;
    while app.env.clock.sleep(std::time::Duration::from_secs(3600)) == SleepOutcome::Finished {}
    server.stop();
    Ok(Exit::Done)
}

fn behaviour(args: &Args) -> Result<Behaviour, CliError> {
    let usage = |error| OpError::new(OpErrorKind::Usage, error).next(NextStep::ListBehaviours);
    let mut behaviour = Behaviour::parse(&args.behaviour.join(",")).map_err(usage)?;
    if let Some(limit) = args.limit {
        let limit = if limit == 0 { "zero".to_owned() } else { limit.to_string() };
        behaviour.set("rate-limit", &limit).map_err(usage)?;
    }
    Ok(behaviour)
}

/// The account to serve: from the state file, a vault's newest snapshot, or the built-in sample
/// account.
fn store(args: &Args, app: &App) -> Result<Store, CliError> {
    let kept = args.state.as_deref().map(load).transpose()?.flatten();
    if let Some(store) = kept {
        return Ok(store);
    }
    let store = match &args.from {
        Some(from) => from_vault(app, from)?,
        None => sample_account(app.env.clock.now()),
    };
    if let Some(file) = &args.state {
        save(&store, file).map_err(|error| cannot_write(file, &error))?;
    }
    Ok(store)
}

fn from_vault(app: &App, from: &str) -> Result<Store, CliError> {
    let path = Path::new(from);
    let mut vault = match path.is_file() {
        true => Vault::open_read_only(path)?,
        false => state_ref::open(&app.env.account(from)?)?,
    };
    let newest = vault.snapshots()?.pop().ok_or_else(|| {
        CliError::new(OpErrorKind::NotFound, format_args!("{from} has no snapshot yet"))
    })?;
    let loaded = sandbox_from_vault::sandbox_from_vault(&mut vault, newest.number)?;
    for what in &loaded.skipped {
        app.out.warn(format_args!("not served: {what}"));
    }
    Ok(loaded.store)
}

/// Lists all behaviours and faults.
fn list(app: &App) -> Result<Exit, CliError> {
    if app.out.is_json() {
        app.out.json(&json!({
            "format": 1,
            "behaviours": CHOICES.iter().map(|choice| json!({
                "name": choice.name, "default": choice.default_value(),
                "values": choice.values(), "about": choice.about,
            })).collect::<Vec<_>>(),
            "faults": FAULT_NAMES.iter().map(|fault| json!({
                "name": fault.name, "about": fault.about,
            })).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Done);
    }
    let mut table = TextTable::new(&["behaviour", "values, the default first", "what"]);
    for choice in CHOICES {
        let mut values = vec![choice.default_value()];
        let others = choice.values().iter().map(|value| (*value).to_owned());
        let first = values[0].clone();
        values.extend(others.filter(|value| *value != first));
        table.row([choice.name.to_owned(), values.join(" "), choice.about.to_owned()]);
    }
    app.out.table(table)?;
    let mut table = TextTable::new(&["fault", "what"]);
    for fault in FAULT_NAMES {
        table.row([fault.name, fault.about]);
    }
    app.out.line("")?;
    app.out.table(table)?;
    app.out.line("")?;
    app.out.line(
        "A fault is NAME=CHANCE, NAME=CHANCE:VALUE, NAME@NUMBER-OF-REQUEST or\n\
         NAME@PATH; `latency=200ms` applies to all; `seed=7` repeats random choices",
    )?;
    Ok(Exit::Done)
}
