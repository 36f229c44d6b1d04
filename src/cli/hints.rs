//! The text of every hint: what to do about a failure, with the command or the flag to type.

use std::borrow::Cow;

use crate::api::error::ApiErrorKind;
use crate::model::{RecordKey, Resource};
use crate::ops::NextStep;

/// For several configured names of the same account.
pub const REMOVE_OTHER_NAMES: &str = "remove all but one of them from the configuration";
/// For lines that are shown in short.
pub const SHOW_ALL_DETAILS: &str = "(-v shows each of them)";
/// Hint: which build has the commands of a fleet.
#[cfg(not(feature = "fleet"))]
pub const BUILD_FLEET: &str =
    "`cargo install --path . --locked --features fleet` builds one that has it";
/// For an invalid command line.
pub const LIST_COMMANDS: &str = "`linkvault --help` lists the commands";
/// For an unknown fault of the sandbox.
pub const LIST_FAULTS: &str = "`linkvault sandbox --fault list` lists them";
/// For an address that cannot be listened on.
pub const LISTEN_ELSEWHERE: &str = "name another address with --listen";
/// For a missing or short token of the web UI.
pub const MAKE_TOKEN: &str = "`openssl rand -hex 32 > page.token` makes a token";
/// For a password that cannot be asked for without a terminal.
pub const NAME_PASSWORD_FILE: &str = "name a file that holds it with --password-file";
/// For mistakes in the configuration when the daemon starts.
pub const FIX_CONFIG_AND_START: &str =
    "fix the configuration and start the daemon again; nothing was done";
/// For a daemon without schedules.
pub const ADD_SCHEDULE: &str = "write `schedule = \"0 3 * * *\"` below [defaults] or below the \
                                accounts to back up; `linkvault init` adds an account";
/// For a second daemon with the same home folder.
pub const STOP_OTHER_DAEMON: &str =
    "stop it first, or give this daemon its own folder with LINKVAULT_HOME";
/// For `init` without a terminal and without the needed flags.
pub const INIT_WITH_FLAGS: &str =
    "run `linkvault init NAME --url https://links.example.com --key-env LINKS_KEY`";

/// The hint for a record that a state lacks.
pub fn list_records(account: &str, resource: Resource) -> String {
    format!("`linkvault show {account} {resource}` lists them")
}

/// The hint for a record that the newest snapshot lacks and that may have existed before.
pub fn show_history(account: &str, resource: Resource, key: &RecordKey) -> String {
    format!("`linkvault log {account} {resource} {key}` shows whether it ever existed")
}

/// The text of `next`.
#[must_use]
pub fn hint(next: &NextStep) -> Cow<'static, str> {
    Cow::Borrowed(match next {
        NextStep::AfterRequest(kind) => after_request(kind),
        NextStep::NameAccount { nearest, known } => {
            let near = nearest.as_ref().map(|near| format!("did you mean `{near}`? The"));
            let (near, known) = (near.as_deref().unwrap_or("the"), known.join(", "));
            return format!("{near} accounts are: {known}").into();
        }
        NextStep::QualifyReference(text) => return format!("write ACCOUNT@{text}").into(),
        NextStep::ListSnapshots(account) => {
            return format!("`linkvault snapshots {account}` lists them").into();
        }
        NextStep::ListRuns(Some(account)) => {
            return format!("`linkvault runs {account}` lists them").into();
        }
        NextStep::BackUp(Some(account)) => {
            return format!("run `linkvault backup {account}` first").into();
        }
        NextStep::BackUpAgain(account) => {
            return format!("run `linkvault backup {account}` again first").into();
        }
        NextStep::BackUpAndNameSnapshot(account) => {
            return format!("run `linkvault backup {account}` first and name {account}@latest")
                .into();
        }
        NextStep::NameResource { nearest } => {
            let near = nearest.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            return format!("name it with --resource, such as --resource campaigns{near}").into();
        }
        NextStep::MigrateInstead { from, to } => {
            return format!(
                "its ids mean other records there, so nothing was written;\n\
             `linkvault migrate {from} {to}` matches records by their names"
            )
            .into();
        }
        NextStep::RestoreInstead(account) => {
            return format!(
                "`linkvault restore REF --to {account}` restores a snapshot that still exists"
            )
            .into();
        }
        NextStep::MakeNewPlanFor(account) => {
            return format!("nothing was written; make a plan for {account}").into();
        }
        NextStep::ResumeOrShowRun { account, run } => return format!(
            "`linkvault resume {account}` continues it, `linkvault runs {account} {run}` shows it"
        )
        .into(),
        NextStep::ResumeRun { account, run, first } => {
            let first = first.as_ref().map(|kind| format!("{}\n", after_request(kind)));
            let first = first.unwrap_or_default();
            return format!(
                "{first}`linkvault resume {account} {run}` continues it; nothing is done twice"
            )
            .into();
        }
        NextStep::RaiseLimit { updates, deletes } => {
            let flag = |name: &str, limit: &Option<u64>| limit.map(|it| format!("--{name} {it}"));
            let flags = [flag("max-update", updates), flag("max-delete", deletes)];
            let flags = flags.into_iter().flatten().collect::<Vec<_>>().join(" ");
            return format!("review the plan; if the changes are intended, add {flags}").into();
        }
        NextStep::ShowRun { account, run } => {
            return format!("`linkvault runs {account} {run}` shows them all").into();
        }
        NextStep::DeleteMissing { by_empty_list: false } => "--delete deletes them",
        NextStep::DeleteMissing { by_empty_list: true } => {
            "--delete --allow-empty deletes them, also those of lists that are empty there"
        }
        NextStep::RemoveExportedRows => {
            "to delete records, remove their rows from a folder that `linkvault export` wrote"
        }
        NextStep::FixAnnotatedRows(path) => {
            return format!(
                "{} has the rows with mistakes and the reasons; fix them in the input file and run \
                 the command again; nothing was written to the account",
                path.display()
            )
            .into();
        }
        NextStep::OmitColumnOptions => {
            "leave out --map, --ignore-columns, --match-on and --annotate, which are for CSV files"
        }
        NextStep::NameColumns => {
            "--map COLUMN=FIELD, --ignore-columns and --match-on take names of the file's first line"
        }
        NextStep::AnnotateOneFile => {
            "read one at a time, such as with --only channels, or leave out --annotate"
        }
        NextStep::AcceptSuspicious => {
            "correct them, or pass --accept-suspicious to use them as they are"
        }
        NextStep::RunAgain => "run the same command again to continue",
        NextStep::RunAgainLater => "run the command again later",
        NextStep::WaitForLock => "wait for it, or set a time to wait with --lock-timeout",
        NextStep::WaitForProcess => "wait for it, and run the command again",
        NextStep::NameFolder => {
            "correct the folder in the configuration, or let this user write to it"
        }
        NextStep::CorrectAlerts => {
            "correct it in the configuration, then run `linkvault alerts test`"
        }
        NextStep::AddAlerts => {
            "add `webhook` or `command` to `[accounts.NAME.alerts]` or `[defaults.alerts]`"
        }
        NextStep::SetHome => "set LINKVAULT_HOME to a folder for them",
        NextStep::AddAccount => {
            "run `linkvault init` to add an account, or try things with the built-in account \
             `sandbox`"
        }
        NextStep::NameNewAccount => {
            "give another name, such as `linkvault init NAME`, or edit the file"
        }
        NextStep::NameKeyFile => "pass --key-file FILE to use it, or remove it",
        NextStep::NameState => {
            "a state is named ACCOUNT, ACCOUNT@latest~1, ACCOUNT@#12, ACCOUNT@2026-11-01, \
             ACCOUNT@TAG or ACCOUNT@live; a file by its path"
        }
        NextStep::ListRuns(_) => "`linkvault runs ACCOUNT` lists them",
        NextStep::BackUp(_) => "run `linkvault backup` for this account first",
        NextStep::CheckUrl => "check that the account's url is the service's, without /api",
        NextStep::CheckKeyAndUrl => {
            "check the account's key and URL, or give this account a vault of its own"
        }
        NextStep::AcceptMovedService => {
            "if the service itself moved, run the backup once with --service-moved; otherwise \
             give the account a vault of its own"
        }
        NextStep::FixConfig => "fix the file and run the command again; nothing was done",
        NextStep::FixConfigOrAddByHand => "fix the file, or add the account to it by hand",
        NextStep::NameCertificates => {
            "name a PEM file with `ca_file` in the configuration or with SSL_CERT_FILE"
        }
        NextStep::MoveFileAway => "move the file away, or name another vault in the configuration",
        NextStep::DecryptFile => {
            "it is encrypted; decrypt it with `age -d -i KEY FILE > main.db`, and restore that file"
        }
        NextStep::MoveCopyAway => {
            "move it and the vault beside it away; the next command fetches the vault again. \
             Changes that were not put into the store are in the moved vault"
        }
        NextStep::CheckStore => {
            "check the address, and the variables of the store (docs/fleet.md), such as \
             AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for s3://"
        }
        NextStep::UseOtherStore => {
            "use a store that supports conditional writes, such as Amazon S3"
        }
        NextStep::RestoreStoredVault(account) => {
            return Cow::Owned(format!(
                "run `linkvault vault restore FILE --to {account}` with a copy of the vault, such \
                 as the local one"
            ));
        }
        NextStep::NameIdentity => {
            "name the identity that encrypted it with `identity_file` or `identity_command` in \
             [fleet] of the configuration"
        }
        NextStep::CheckStoreAddress => "give each account an address of its own with `vault`",
        NextStep::CheckStoreState(account) => {
            return Cow::Owned(format!(
                "if the store was restored from a backup, run `linkvault vault restore FILE --to \
                 {account}` with the local copy to put it again"
            ));
        }
        NextStep::UseHomeOfFleet => {
            "set LINKVAULT_HOME to the folder whose config.toml has this fleet, or correct [fleet]"
        }
        NextStep::SetClock => "set the clock of this machine",
        NextStep::FindNewestObject => {
            "restore the newest object (docs/fleet.md, section Recovery); to begin a new vault, \
             remove STATE from the store"
        }
        NextStep::StartTemporal => {
            "start the server, or correct `temporal` in the table [fleet] of the configuration"
        }
        NextStep::CreateNamespace(name) => {
            return Cow::Owned(format!(
                "run `temporal operator namespace create -n {name}`, or correct `namespace` in the \
                 table [fleet] of the configuration"
            ));
        }
        NextStep::CheckTemporal => {
            "check `temporal` in the table [fleet] of the configuration, and the variables \
             TEMPORAL_API_KEY, TEMPORAL_TLS_SERVER_CA_CERT_PATH, TEMPORAL_TLS_CLIENT_CERT_PATH \
             and TEMPORAL_TLS_CLIENT_KEY_PATH"
        }
        NextStep::WaitForWorker => {
            "run the same command again when `linkvault fleet status` shows that it has ended"
        }
        NextStep::WaitForWriter(account) => {
            return Cow::Owned(format!(
                "run the same command again when it has ended; if it was killed, run `linkvault \
                 fleet resume {account}` first"
            ));
        }
        NextStep::ApplyFleet => "run `linkvault fleet apply FILE` with a file that declares it",
        NextStep::KeepVaultInStore => {
            "add `vault = \"s3://bucket/prefix/NAME\"` to each of them (docs/fleet.md)"
        }
        NextStep::RaiseMaxDelete => {
            "check the plan with `-n --max-delete 100%`; `--max-delete NUMBER` raises the limit"
        }
        NextStep::UseNewerProgram => "use the newer linkvault that wrote it",
        NextStep::CheckVault => "`linkvault check` shows what is damaged",
        NextStep::CheckVaultAndRestore => {
            "`linkvault check` shows what is damaged; restore the file from a copy, or move it \
             away and run `linkvault backup`"
        }
        NextStep::RestoreOverForeignLog(account) => {
            let account = account.as_deref().unwrap_or("ACCOUNT");
            return Cow::Owned(format!(
                "a copy was put in the place of the vault, the vault was removed, or another \
                 program wrote to it. Run `linkvault vault restore FILE --to {account}` with the \
                 copy, or with the vault itself: it leaves the log out"
            ));
        }
        NextStep::RestoreBesideLog(account) => {
            let account = account.as_deref().unwrap_or("ACCOUNT");
            return Cow::Owned(format!(
                "put the vault back, or run `linkvault vault restore FILE --to {account}` with a \
                 copy; to begin a new vault, move the log away"
            ));
        }
        NextStep::NameOwningAccount => {
            "name the account that the copy belongs to with --to, or restore another copy"
        }
        NextStep::FreeSpace => "free some space and run the command again to continue",
        NextStep::CheckDisk => {
            "check the disk, its free space and the limit on file sizes (`ulimit -f`), then run \
             the command again to continue"
        }
        NextStep::MakeWritable => "make the file and its folder writable",
        NextStep::FixInputOrMapColumns => {
            "fix the file, or read it with --map COLUMN=FIELD or --ignore-columns COLUMN; nothing \
             was written"
        }
        NextStep::FixInput => "fix the file and run the command again; nothing was written",
        NextStep::FixInputOrExportAgain => {
            "fix the file, or run `linkvault export` again; nothing was written"
        }
        NextStep::ExportAgain => {
            "run `linkvault export` again, or name a single CSV file of the folder"
        }
        NextStep::SplitFile => "split it into several files",
        NextStep::UseExportedJson => {
            "only a JSON file that `linkvault export --format json` wrote can be read"
        }
        NextStep::FixEncoding => {
            "save the file as UTF-8, or name its encoding with --encoding; nothing was written"
        }
        NextStep::ChooseEncoding => "--encoding names another",
        NextStep::NameSheets => {
            "name its sheets after resources, such as campaigns, or read its only sheet with \
             --resource"
        }
        NextStep::SaveAsXlsx => {
            "save it as .xlsx or .ods without a password, or as CSV; nothing was written"
        }
        NextStep::NameFilesByResource => {
            "name its files after resources, such as campaigns.csv, or read one file with \
             --resource"
        }
        NextStep::ReadAlone => "read it in a command of its own; nothing was written",
        NextStep::NameAccountResource => "add --resource account to change it",
        NextStep::OmitResource => "leave out --resource, which is for a single CSV file",
        NextStep::WidenScope => "name other resources with --only and --skip",
        NextStep::SkipResource => "nothing was planned or written; --skip leaves a resource out",
        NextStep::NameEmptyFolder => "name a new or empty folder with --to",
        NextStep::NameOtherFile => "nothing was written; name another file",
        NextStep::ReplaceFile => "name another file, or pass --force to replace this one",
        NextStep::RemoveSandboxFile => "remove the file to begin with a new sandbox",
        NextStep::ChooseOnConflict => {
            "nothing was written; --on-conflict mine writes the values under `wanted`,\n\
             --on-conflict theirs keeps those under `in the account`"
        }
        NextStep::MakeNewPlan => "make a new plan and review it",
        NextStep::MakeNewPlanIfNeeded => "nothing was written; make a new plan, which may be empty",
        NextStep::SetPasswordAlone => "set the password in a command of its own",
        NextStep::Confirm => "pass --yes to confirm",
        NextStep::GiveRetentionRule => {
            "give --keep-last, --keep-daily, …, or `keep` in the account's configuration"
        }
        NextStep::ListBehaviours => "`linkvault sandbox --behaviour list` lists them",
        NextStep::Rehearsed => "it was a rehearsal; nothing was written",
    })
}

const fn after_request(kind: &ApiErrorKind) -> &'static str {
    match kind {
        ApiErrorKind::NotSent(_) => {
            "Nothing was sent. Check the account's url and the network, then try again."
        }
        ApiErrorKind::Untrusted(_) => {
            "Nothing was sent. Check the account's url. If the certificate is right, name the \
             file of its issuer's certificate: `ca_file` in the configuration, or SSL_CERT_FILE."
        }
        ApiErrorKind::Unknown(_) => {
            "The request may have taken effect. Reading again is safe; check the account before \
             a write is repeated."
        }
        ApiErrorKind::Throttled(_) => {
            "Another program may be using the same key. Try later, or leave requests to it with \
             --reserve."
        }
        ApiErrorKind::Refused { status, .. } if *status >= 500 => {
            "The service failed. Try again later."
        }
        ApiErrorKind::Refused { .. } => {
            "The service gave this reason. Correct what it names and try again."
        }
        ApiErrorKind::Unauthorised { .. } => {
            "Check that the key is right and has not expired. Some web servers drop the \
             Authorization header, so that a good key looks missing: if the key is right, ask \
             the operator of the service to let that header through."
        }
        ApiErrorKind::NotOffered { .. } => {
            "The service or your subscription does not include that resource, or the account's \
             url is wrong."
        }
        ApiErrorKind::Malformed { .. } => {
            "Something other than the API answered, or the answer was damaged. Check the \
             account's url; if it is right, try again later."
        }
        ApiErrorKind::Redirected { .. } => {
            "Redirects are not followed, so that the key stays with the account's own host. If \
             the new address is right, put it into the account's url."
        }
        ApiErrorKind::TooLarge(_) => "Ask for fewer records at a time.",
        ApiErrorKind::Interrupted => "What was done is kept; run the same command to continue.",
        ApiErrorKind::LimitReached(_) => {
            "What was done is kept; run the same command again to continue, or raise the limit."
        }
    }
}
