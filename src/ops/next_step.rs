//! What a user can do about a failure, as data. The texts are in `cli/hints.rs`.

use std::path::PathBuf;

use crate::api::error::ApiErrorKind;
use crate::apply::ApplyError;
use crate::change::workbook::WorkbookError;
use crate::crawl::CrawlError;
use crate::model::RunId;
use crate::vault::{IdentityPart, VaultError};

/// What a user can do about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Correct the folder in the configuration, or make it writable.
    NameFolder,
    /// Correct the alerts in the configuration, then send a test.
    CorrectAlerts,
    /// Configure a webhook or a command for alerts.
    AddAlerts,
    /// Depends on why the request has no usable response.
    AfterRequest(ApiErrorKind),
    /// Repeat the command: it continues where it stopped.
    RunAgain,
    /// Repeat the command later, when the service responds for the resource.
    RunAgainLater,
    /// Wait for the other process, or let the command wait for it.
    WaitForLock,
    /// Wait for the process that has the vault open, and repeat the command.
    WaitForProcess,
    /// Set `LINKVAULT_HOME`.
    SetHome,
    /// Add an account with `init`, or use the built-in sandbox.
    AddAccount,
    /// Name one of the configured accounts.
    NameAccount {
        /// The account that the wrong name may mean.
        nearest: Option<String>,
        /// The names of all accounts.
        known: Vec<String>,
    },
    /// Give the new account another name.
    NameNewAccount,
    /// Name the key file that exists, or remove it.
    NameKeyFile,
    /// Put an account before this reference.
    QualifyReference(String),
    /// Name a state in one of the valid forms.
    NameState,
    /// List the snapshots of this account.
    ListSnapshots(String),
    /// List the runs of the account, with its name if known.
    ListRuns(Option<String>),
    /// Back the account up first, with its name if known.
    BackUp(Option<String>),
    /// Back this account up again, because one snapshot is not enough.
    BackUpAgain(String),
    /// Back this account up, and name its newest snapshot instead of the live account.
    BackUpAndNameSnapshot(String),
    /// Check that the configured URL is the service's.
    CheckUrl,
    /// Check key and URL: they lead to another account than the vault's.
    CheckKeyAndUrl,
    /// Accept the new URL of the service with `--service-moved`.
    AcceptMovedService,
    /// Fix the mistakes in the configuration.
    FixConfig,
    /// Fix the configuration, or add the new account to it by hand.
    FixConfigOrAddByHand,
    /// Name a PEM file with certificates that can be read.
    NameCertificates,
    /// Move the file away that is not a vault, or configure another vault.
    MoveFileAway,
    /// Decrypt the file first.
    DecryptFile,
    /// Move the local copy of a stored vault away, with the damaged file beside it.
    MoveCopyAway,
    /// Use the newer linkvault that wrote the vault.
    UseNewerProgram,
    /// Check the address, the endpoint and the credentials of a vault's store.
    CheckStore,
    /// Keep the vault in a store that checks the conditions of a put.
    UseOtherStore,
    /// Restore the vault of this account, one of whose objects is damaged, from a copy.
    RestoreStoredVault(String),
    /// Configure the identity to which the objects of a vault are encrypted.
    NameIdentity,
    /// Give each account an address of its own.
    CheckStoreAddress,
    /// Find out why the store of this account has an older state than before.
    CheckStoreState(String),
    /// Set the clock of this machine.
    SetClock,
    /// Restore the newest object of a vault whose `HEAD` is lost.
    FindNewestObject,
    /// Start Temporal, or correct its address.
    StartTemporal,
    /// Create this namespace in Temporal, or name another one.
    CreateNamespace(String),
    /// Check the address of Temporal and its credentials.
    CheckTemporal,
    /// Wait until the worker's backup has ended.
    WaitForWorker,
    /// Wait until the command that paused the schedule of this account has ended.
    WaitForWriter(String),
    /// Use the home folder whose configuration has the fleet.
    UseHomeOfFleet,
    /// Make the schedules of the fleet with `fleet apply`.
    ApplyFleet,
    /// Keep the vaults in an object store.
    KeepVaultInStore,
    /// Check the plan, and raise `--max-delete`.
    RaiseMaxDelete,
    /// Run `check` to see what is damaged.
    CheckVault,
    /// Run `check`, and restore the vault from a copy.
    CheckVaultAndRestore,
    /// Run `vault restore`, which leaves out a log that belongs to another file, for this account.
    RestoreOverForeignLog(Option<String>),
    /// Put the missing vault of this account back beside its log, or restore a copy.
    RestoreBesideLog(Option<String>),
    /// Name the account to which the copy of a vault belongs.
    NameOwningAccount,
    /// Free disk space and repeat the command.
    FreeSpace,
    /// Check the disk and its limits.
    CheckDisk,
    /// Make the vault and its folder writable.
    MakeWritable,
    /// Fix the input file.
    FixInput,
    /// Fix the input file, or read its columns under other names.
    FixInputOrMapColumns,
    /// Fix the input file, or export again.
    FixInputOrExportAgain,
    /// Export again: the manifest of the folder cannot be read.
    ExportAgain,
    /// Split a file that is too large.
    SplitFile,
    /// Use a JSON file that `export` wrote.
    UseExportedJson,
    /// Save the file in another encoding, or name its encoding.
    FixEncoding,
    /// Leave out the options for columns, because the input has none.
    OmitColumnOptions,
    /// Name columns of the input file.
    NameColumns,
    /// Name one input file, so that its rows with mistakes can be written.
    AnnotateOneFile,
    /// Fix the rows with mistakes in the input file; this file has them with the reasons.
    FixAnnotatedRows(PathBuf),
    /// Correct the suspicious values, or accept them with `--accept-suspicious`.
    AcceptSuspicious,
    /// Name the encoding of a file, if the one that was found is wrong.
    ChooseEncoding,
    /// Name the sheets of a workbook after resources.
    NameSheets,
    /// Save a workbook in another format, without a password.
    SaveAsXlsx,
    /// Name the files of a folder after resources.
    NameFilesByResource,
    /// Read the input alone, without others.
    ReadAlone,
    /// Name the resource of a CSV file with `--resource`.
    NameResource {
        /// The resource that the file's name may mean.
        nearest: Option<&'static str>,
    },
    /// Confirm with `--resource account` that the account's own record is meant.
    NameAccountResource,
    /// Leave out `--resource`, because the input is not a single CSV file.
    OmitResource,
    /// Name other resources, because `--only` and `--skip` leave none.
    WidenScope,
    /// Leave a resource out that cannot be read.
    SkipResource,
    /// Export to a new or empty folder.
    NameEmptyFolder,
    /// Name another file.
    NameOtherFile,
    /// Name another file, or replace it with `--force`.
    ReplaceFile,
    /// Remove the invalid state of the sandbox.
    RemoveSandboxFile,
    /// Run `migrate`, because the input has ids of another account.
    MigrateInstead {
        /// The account of the input.
        from: String,
        /// The account to change.
        to: String,
    },
    /// Restore another snapshot to this account, because the one before the run was forgotten.
    RestoreInstead(String),
    /// Resolve conflicts with `--on-conflict`.
    ChooseOnConflict,
    /// Review the plan, and raise the limits of the guards that refused it.
    RaiseLimit {
        /// The limit that allows its updates, if they were refused.
        updates: Option<u64>,
        /// The limit that allows its deletes, if they were refused.
        deletes: Option<u64>,
    },
    /// Make a new plan.
    MakeNewPlan,
    /// Make a plan for this account.
    MakeNewPlanFor(String),
    /// Make a new plan; it may be empty, because this one was applied before.
    MakeNewPlanIfNeeded,
    /// Set the password in a command without a saved plan.
    SetPasswordAlone,
    /// Confirm with `--yes`.
    Confirm,
    /// Resume the unfinished run, or show it.
    ResumeOrShowRun {
        /// The account of the run.
        account: String,
        /// Number of the run.
        run: RunId,
    },
    /// Resume the run that stopped.
    ResumeRun {
        /// The account of the run.
        account: String,
        /// Number of the run.
        run: RunId,
        /// Why the run stopped, if that must be fixed first.
        first: Option<ApiErrorKind>,
    },
    /// Show all problems of the run.
    ShowRun {
        /// The account of the run.
        account: String,
        /// Number of the run.
        run: RunId,
    },
    /// Delete the records that the input lacks.
    DeleteMissing {
        /// Whether a list without any record must be allowed to delete them.
        by_empty_list: bool,
    },
    /// Delete records by removing their rows from an exported folder.
    RemoveExportedRows,
    /// Give a retention rule.
    GiveRetentionRule,
    /// List the behaviours of the sandbox.
    ListBehaviours,
    /// Nothing, because it was a rehearsal.
    Rehearsed,
}

impl NextStep {
    /// The step after an error of a vault.
    #[must_use]
    pub fn after_vault_error(error: &VaultError) -> Option<Self> {
        Some(match error {
            VaultError::Missing(_) => Self::BackUp(None),
            VaultError::NotAVault(_) => Self::MoveFileAway,
            VaultError::Newer { .. } => Self::UseNewerProgram,
            VaultError::OtherAccount { what: IdentityPart::Service, .. } => {
                Self::AcceptMovedService
            }
            VaultError::OtherAccount { what: IdentityPart::Account, .. } => Self::CheckKeyAndUrl,
            VaultError::Damaged { .. } => Self::CheckVaultAndRestore,
            VaultError::ForeignLog { .. } => Self::RestoreOverForeignLog(None),
            VaultError::LogAlone { .. } => Self::RestoreBesideLog(None),
            VaultError::InUse(_) => Self::WaitForProcess,
            VaultError::Checkpoint(error) if !error.is_lost => Self::CheckStore,
            VaultError::Finished(_) | VaultError::Checkpoint(_) => Self::RunAgain,
            VaultError::NoRun(_) => Self::ListRuns(None),
            VaultError::Full(_) => Self::FreeSpace,
            VaultError::ReadOnly(_) => Self::MakeWritable,
            VaultError::Sql { .. } if error.is_disk_failure() => Self::CheckDisk,
            VaultError::Io { .. }
            | VaultError::Sql { .. }
            | VaultError::NoSnapshot(_)
            | VaultError::Stopped => return None,
        })
    }

    /// The step after a workbook could not be read.
    #[must_use]
    pub const fn after_workbook_error(error: &WorkbookError) -> Self {
        match error {
            WorkbookError::TooLarge
            | WorkbookError::TooManyCells
            | WorkbookError::TooManyRows(_) => Self::SplitFile,
            _ => Self::SaveAsXlsx,
        }
    }

    /// The step after an error of a crawl.
    #[must_use]
    pub fn after_crawl_error(error: &CrawlError) -> Option<Self> {
        match error {
            CrawlError::Api(error) => Some(Self::AfterRequest(error.kind.clone())),
            CrawlError::Vault(error) => Self::after_vault_error(error),
            CrawlError::Account(_) => Some(Self::CheckUrl),
        }
    }

    /// The step after an error of a run on `account`.
    #[must_use]
    pub fn after_apply_error(error: &ApplyError, account: &str) -> Option<Self> {
        let resume =
            |run: RunId, first| Self::ResumeRun { account: account.to_owned(), run, first };
        Some(match error {
            ApplyError::Stale(_) | ApplyError::Step { .. } => Self::MakeNewPlan,
            ApplyError::Used(_) => Self::MakeNewPlanIfNeeded,
            ApplyError::Unread { .. } => Self::RunAgainLater,
            ApplyError::Journal { .. } => Self::CheckVault,
            ApplyError::Finished(_) => return None,
            // The newer vault does not have the run.
            ApplyError::NotStored { wrote: false, source, .. } if source.is_lost => Self::RunAgain,
            ApplyError::NotStored { run, .. } | ApplyError::OutcomeUnreadable { run, .. } => {
                resume(*run, None)
            }
            ApplyError::Stopped { run, source } => match source.kind {
                ApiErrorKind::Unauthorised { .. } => resume(*run, Some(source.kind.clone())),
                _ => resume(*run, None),
            },
            ApplyError::Vault(VaultError::NoRun(_)) => Self::ListRuns(Some(account.to_owned())),
            ApplyError::Vault(error) => return Self::after_vault_error(error),
            ApplyError::Crawl(error) => return Self::after_crawl_error(error),
        })
    }
}
