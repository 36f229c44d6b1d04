//! `linkvault alerts`: commands for alerts.

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cli::{App, CliError, Escaped, Exit, OpErrorKind, Paint, hints};
use crate::health::pending_alerts::AlertChannel;
use crate::ops::NextStep;
use crate::ops::alert_delivery::{TestAlert, test_alerts};

const EXAMPLES: &str = "\
Examples:
  linkvault alerts test
  linkvault alerts test main";

/// Send a test alert
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The command with its arguments.
    #[command(subcommand)]
    pub command: AlertsCommand,
}

/// The commands for alerts.
// A doc comment on a variant would replace the command's own help.
#[allow(missing_docs)]
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    Test(TestArgs),
}

/// Send a test alert to the webhook and the command of each account
///
/// The alert has the event `test`. The heartbeat is not sent, because its receiver
/// would take it for a backup; `linkvault doctor` checks whether its host responds.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TestArgs {
    /// Accounts to test; default: all configured accounts
    #[arg(value_name = "ACCOUNT")]
    pub accounts: Vec<String>,
}

/// Runs the command of the arguments. The exit code is 1 if a channel failed.
///
/// # Errors
/// If an account does not exist, or none has alerts.
pub fn run(args: &Args, app: &App) -> Result<Exit, CliError> {
    let AlertsCommand::Test(args) = &args.command;
    let accounts = app.env.accounts(&args.accounts)?;
    let (mut documents, mut exit, mut sent) = (Vec::new(), Exit::Done, false);
    for account in &accounts {
        let results = test_alerts(&app.env, account)?;
        for sent_alert in &results {
            sent = true;
            if sent_alert.result.is_err() {
                exit = exit.or_worse(Exit::of(Err(OpErrorKind::Failed)));
            }
            show(app, &account.name, sent_alert)?;
        }
        let channels: Vec<_> = results.iter().map(document).collect();
        documents.push(json!({"account": account.name, "channels": channels}));
    }
    if !sent {
        let names: Vec<_> = accounts.iter().map(|it| it.name.as_str()).collect();
        let message = format!("no alerts are configured for {}", names.join(", "));
        return Err(
            CliError::new(OpErrorKind::Config, message).hint(hints::hint(&NextStep::AddAlerts))
        );
    }
    if app.out.is_json() {
        app.out.json(&json!({"format": 1, "accounts": documents}))?;
    }
    Ok(exit)
}

const fn name(channel: AlertChannel) -> &'static str {
    match channel {
        AlertChannel::Webhook => "webhook",
        AlertChannel::Command => "command",
    }
}

fn show(app: &App, account: &str, sent: &TestAlert) -> Result<(), CliError> {
    if app.out.is_json() {
        return Ok(());
    }
    let channel = name(sent.channel);
    match &sent.result {
        Ok(()) => app.out.line(format_args!("ok   {account}: {channel}: a test alert was sent")),
        Err(why) => {
            let mark = app.out.paint(Paint::Error, "fail");
            app.out.line(format_args!("{mark} {account}: {channel}: {}", Escaped(why)))
        }
    }
}

fn document(TestAlert { channel, result }: &TestAlert) -> Value {
    json!({"channel": name(*channel), "ok": result.is_ok(), "error": result.as_ref().err()})
}
