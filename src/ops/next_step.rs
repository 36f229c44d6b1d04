//! What a user can do about a failure, as data. `cli/hints.rs` has the words.

use crate::api::error::ApiErrorKind;
use crate::apply::ApplyError;
use crate::crawl::CrawlError;
use crate::model::RunId;
use crate::vault::{IdentityPart, VaultError};

/// What a user can do about a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Depends on why the request has no usable answer.
    AfterRequest(ApiErrorKind),
    /// Repeat the command: it continues where it stopped.
    RunAgain,
    /// Repeat the command when the service answers for the resource.
    RunAgainLater,
    /// Wait for the other process, or let the command wait for it.
    WaitForLock,
    WaitForProcess,
    /// Set `LINKVAULT_HOME`.
    SetHome,
    AddAccount,
    NameAccount {
        nearest: Option<String>,
        known: Vec<String>,
    },
    NameNewAccount,
    /// Name the account of a reference that names none.
    QualifyReference(String),
    NameState,
    ListSnapshots(String),
    /// The runs of the account, if it is known.
    ListRuns(Option<String>),
    /// Back the account up first, if it is known by its name.
    BackUp(Option<String>),
    BackUpAgain(String),
    /// Back the account up and name its newest snapshot instead of the live account.
    BackUpAndNameSnapshot(String),
    /// Check that the URL is the service's.
    CheckUrl,
    CheckKeyAndUrl,
    AcceptMovedService,
    FixConfig,
    FixConfigOrAddByHand,
    NameCertificates,
    /// Of the vault's file.
    MoveFileAway,
    UseNewerProgram,
    CheckVault,
    CheckVaultAndRestore,
    RestoreOverForeignLog,
    RestoreBesideLog,
    NameOwningAccount,
    FreeSpace,
    CheckDisk,
    MakeWritable,
    /// Of input files.
    FixInput,
    FixInputOrExportAgain,
    ExportAgain,
    SplitFile,
    UseExportedJson,
    NameCsvFile,
    /// Name what a CSV file holds; `nearest` is what its name may mean.
    NameResource {
        nearest: Option<&'static str>,
    },
    NameAccountResource,
    /// A resource was named for input that is not a single CSV file.
    OmitResource,
    /// `only` and `skip` leave nothing.
    WidenScope,
    SkipResource,
    NameEmptyFolder,
    NameOtherFile,
    RemoveSandboxFile,
    MigrateInstead {
        from: String,
        to: String,
    },
    RestoreInstead(String),
    ChooseOnConflict,
    RaiseLimit,
    MakeNewPlan,
    MakeNewPlanFor(String),
    /// The same records may be as wanted already.
    MakeNewPlanIfNeeded,
    SetPasswordAlone,
    Confirm,
    ResumeOrShowRun {
        account: String,
        run: RunId,
    },
    ResumeRun {
        account: String,
        run: RunId,
        /// Why the run stopped, where that needs something done first.
        first: Option<ApiErrorKind>,
    },
    /// Before the run can be undone.
    FinishRun {
        account: String,
        run: RunId,
    },
    GiveRetentionRule,
    ListBehaviours,
    /// Nothing: it was a rehearsal.
    Rehearsed,
}

impl NextStep {
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
            VaultError::ForeignLog { .. } => Self::RestoreOverForeignLog,
            VaultError::LogAlone { .. } => Self::RestoreBesideLog,
            VaultError::InUse(_) => Self::WaitForProcess,
            VaultError::Finished(_) => Self::RunAgain,
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

    #[must_use]
    pub fn after_crawl_error(error: &CrawlError) -> Option<Self> {
        match error {
            CrawlError::Api(error) => Some(Self::AfterRequest(error.kind.clone())),
            CrawlError::Vault(error) => Self::after_vault_error(error),
            CrawlError::Account(_) => Some(Self::CheckUrl),
        }
    }

    /// For a run on `account`.
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
            ApplyError::Unsettled { run, .. } => resume(*run, None),
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
