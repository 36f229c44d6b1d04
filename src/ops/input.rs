//! Reads the desired state that a command line names: a reference ([`state_ref`]), a CSV file, a
//! folder that `export` wrote, or a JSON export.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::Env;
use super::account_session::SessionLimits;
use super::state_ref::{self, StateRef};
use super::{NextStep, OpError, OpErrorKind};
use crate::apply::deleted_since;
use crate::change::csv_files::{self, CsvKind, CsvProblems, CsvRecords, ExportContext};
use crate::change::desired::{DesiredState, RecordIds};
use crate::change::export::{self, ExportContent, JSON, MANIFEST, Manifest};
use crate::change::plan::UnsupportedChange;
use crate::config::AccountConfig;
use crate::files::open_named;
use crate::model::{Resource, State};
use crate::suggest::suggest;
use crate::vault::reference::{QualifiedReference, Reference, is_number};
use crate::vault::{AccountIdentity, Vault};

/// The desired state of an account, and where it comes from.
#[derive(Debug, Default)]
pub struct DesiredInput {
    /// Such as `main@#12`, or the path as the user gave it.
    pub name: String,
    /// The desired state.
    pub desired: DesiredState,
    /// Desired changes that the API cannot make.
    pub unsupported: Vec<UnsupportedChange>,
    /// The state from which the files were exported: only values that differ from it were edited.
    pub base: Option<State>,
    /// Warnings for people about the input.
    pub warnings: Vec<String>,
    /// The complete records, if the input is a state and not CSV files.
    pub state: Option<State>,
    /// The names of files that were not edited since they were exported.
    pub untouched: Vec<String>,
    /// The account to which the ids belong, if that may be another one.
    pub of: Option<InputOwner>,
    /// Whether it comes from files that `export` wrote.
    pub exported: bool,
}

/// The account to which the ids of a state or an export belong.
#[derive(Debug, Clone)]
pub struct InputOwner {
    /// Its name in the configuration or the export.
    pub name: String,
    /// `None` if unknown on this machine.
    pub identity: Option<AccountIdentity>,
}

impl DesiredInput {
    /// Looks up the identity of the account to which the ids belong, if only its name is known.
    ///
    /// # Errors
    /// If the configuration has mistakes.
    pub fn find_owner(&mut self, env: &Env) -> Result<(), OpError> {
        let Some(of) = self.of.as_mut().filter(|of| of.identity.is_none()) else { return Ok(()) };
        if let Ok(account) = env.config()?.account(&of.name) {
            of.identity = state_ref::identity_of(&account)?;
        }
        Ok(())
    }

    /// Keeps records that an export lacks, if the state from which it was made is unknown: others
    /// may have created them since. Returns whether that applied to any resource.
    pub fn deletes_nothing(&mut self) -> bool {
        let unknown = self.exported && self.base.is_none();
        let mut any = false;
        for wanted in self.desired.resources.values_mut().filter(|_| unknown) {
            any |= std::mem::replace(&mut wanted.is_complete, false);
        }
        any
    }

    /// Refuses ids of another account than `account`, which has `id` on `service`: here they would
    /// be the ids of other records.
    ///
    /// # Errors
    /// If the input belongs to another account.
    pub fn is_of(
        &self,
        account: &AccountConfig,
        service: &str,
        id: Option<i64>,
    ) -> Result<(), OpError> {
        let Some(of) = &self.of else { return Ok(()) };
        if of.identity.as_ref().is_some_and(|it| it.service == service && Some(it.account) == id) {
            return Ok(());
        }
        let (ours, theirs) = (&account.name, &of.name);
        let message = format!("{} is of `{theirs}`, another account than `{ours}`", self.name);
        let next = NextStep::MigrateInstead { from: theirs.clone(), to: ours.clone() };
        Err(OpError::new(OpErrorKind::Usage, message).next(next))
    }
}

/// Which part of the input to use as the desired state.
#[derive(Debug, Clone, Default)]
pub struct InputOptions {
    /// The content of a CSV file whose name does not show it.
    pub resource: Option<CsvKind>,
    /// Only these resources; all if empty.
    pub only: Vec<Resource>,
    /// Not these resources.
    pub skip: Vec<Resource>,
    /// Whether to delete records that the desired state lacks.
    pub delete: bool,
}

impl InputOptions {
    /// Reads the reference, file or folder `text` as the desired state of `account`.
    ///
    /// # Errors
    /// If it does not exist or cannot be read, a file has mistakes, or no resource is left.
    pub fn read(
        &self,
        env: &Env,
        bounds: &SessionLimits,
        text: &str,
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        let which = self.scope()?;
        self.checked(env, read_input(env, bounds, text, self.resource, account, &which)?)
    }

    /// Like [`InputOptions::read`] for a file or folder, even if its name is also a reference.
    ///
    /// # Errors
    /// As [`InputOptions::read`].
    pub fn read_file(
        &self,
        env: &Env,
        file: &Path,
        account: &AccountConfig,
    ) -> Result<DesiredInput, OpError> {
        let which = self.scope()?;
        self.checked(env, read_files(file, self.resource, Some(account), &which)?)
    }

    fn scope(&self) -> Result<Vec<Resource>, OpError> {
        let mut which = scope(&self.only, &self.skip)?;
        // The account's own record is changed only if it is named explicitly.
        let named = self.resource == Some(CsvKind::Resource(Resource::Account));
        which.retain(|it| *it != Resource::Account || named);
        Ok(which)
    }

    fn checked(&self, env: &Env, mut read: DesiredInput) -> Result<DesiredInput, OpError> {
        read.find_owner(env)?;
        for warning in &read.warnings {
            env.warn(warning);
        }
        if read.deletes_nothing() && self.delete {
            env.warn(format_args!(
                "{} deletes nothing: what was there when it was exported is not known",
                read.name
            ));
        }
        if self.delete && read.state.is_none() && !read.exported {
            env.warn(format_args!(
                "{} deletes nothing: what a CSV file leaves out is left alone; a folder that \
                 `linkvault export` wrote, with rows taken out, deletes them",
                read.name
            ));
        }
        leave_untouched(&mut read);
        Ok(read)
    }
}

/// The resources in `only`, or all if empty, without those in `skip`, in the order of the table.
///
/// # Errors
/// If none is left.
pub fn scope(only: &[Resource], skip: &[Resource]) -> Result<Vec<Resource>, OpError> {
    let wanted = |it: &Resource| (only.is_empty() || only.contains(it)) && !skip.contains(it);
    let left: Vec<_> = Resource::ALL.into_iter().filter(wanted).collect();
    if left.is_empty() {
        return Err(OpError::new(OpErrorKind::Usage, "no resource is left to work on")
            .next(NextStep::WidenScope));
    }
    Ok(left)
}

/// Removes the content of files that were not edited: it asks for no change, so those resources
/// need not be read.
fn leave_untouched(read: &mut DesiredInput) {
    if read.base.is_none() {
        return;
    }
    for file in &read.untouched {
        match ExportContent::of(file) {
            Some(ExportContent::Csv(CsvKind::Resource(resource))) => {
                read.desired.resources.remove(&resource);
            }
            Some(ExportContent::Csv(CsvKind::CampaignLinks)) => read.desired.campaign_links.clear(),
            Some(ExportContent::Records) => read.desired = DesiredState::default(),
            None => {}
        }
    }
}

/// The largest file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// Reads the reference, file or folder `text`. `resource` is the content of a CSV file whose name
/// does not show it. Of a state, only the resources `which` are used.
///
/// # Errors
/// If it does not exist or cannot be read. For a file, with all mistakes in it.
pub fn read_input(
    env: &Env,
    bounds: &SessionLimits,
    text: &str,
    resource: Option<CsvKind>,
    account: &AccountConfig,
    which: &[Resource],
) -> Result<DesiredInput, OpError> {
    match path(env, text)? {
        Some(path) => read_files(&path, resource, Some(account), which),
        None => state(env, bounds, text, account, which),
    }
}

fn state(
    env: &Env,
    bounds: &SessionLimits,
    text: &str,
    account: &AccountConfig,
    which: &[Resource],
) -> Result<DesiredInput, OpError> {
    let target = StateRef::parse(env, text, Reference::Latest(0), Some(account))?;
    let mut loaded = target.load(env, bounds, which)?;
    let state = loaded.state()?;
    let mut desired = DesiredState::of_state(&state, &loaded.name);
    desired.deleted = loaded.deleted_since()?;
    let outcomes = loaded.snapshot.iter().flat_map(|snapshot| &snapshot.outcomes);
    for outcome in outcomes.filter(|outcome| !outcome.is_complete()) {
        // The list is incomplete, so records that it lacks must not be deleted.
        if let Some(wanted) = desired.resources.get_mut(&outcome.resource) {
            wanted.is_complete = false;
        }
    }
    let lacking = loaded.unread.iter().map(|what| format!("not read: {what}"));
    let warnings = lacking.chain(loaded.stale()).collect();
    let of = match loaded.identity()? {
        _ if target.account.name == account.name => None,
        identity => Some(InputOwner { name: target.account.name, identity }),
    };
    Ok(DesiredInput {
        name: loaded.name,
        desired,
        warnings,
        state: Some(state),
        of,
        ..DesiredInput::default()
    })
}

/// `text` as a path; `None` if it is a reference. The name of an account or a snapshot is a path
/// only with `./` in front.
///
/// # Errors
/// If the configuration has mistakes.
pub fn path(env: &Env, text: &str) -> Result<Option<PathBuf>, OpError> {
    let path = Path::new(text);
    let name = text.split_once('@').map_or(text, |(account, _)| account);
    let bare = !text.contains(['/', std::path::MAIN_SEPARATOR]) && text != "." && text != "..";
    // The warnings of the configuration are sent where the account is used.
    if bare && env.config()?.account(name).is_ok() {
        return Ok(None);
    }
    let ending = path.extension().and_then(|it| it.to_str()).unwrap_or_default().to_lowercase();
    if !bare || matches!(ending.as_str(), "csv" | "json") {
        return Ok(Some(path.to_owned()));
    }
    let named = QualifiedReference::parse(text).is_ok_and(|named| named.reference.is_some());
    let reference = named || is_number(text);
    Ok((!reference && path.exists()).then(|| path.to_owned()))
}

/// The account from which a folder was exported, if it is configured.
///
/// # Errors
/// If the folder's manifest cannot be read, or the configuration has mistakes.
pub fn exporting_account(env: &Env, path: &Path) -> Result<Option<AccountConfig>, OpError> {
    if !path.is_dir() {
        return Ok(None);
    }
    let manifest = manifest(path)?;
    Ok(env.config()?.account(&manifest.account).ok())
}

/// Reads a file or folder. The state from which it was exported is looked up in the vault of
/// `account`.
///
/// # Errors
/// If it does not exist or cannot be read; with all mistakes in CSV files.
pub fn read_files(
    path: &Path,
    resource: Option<CsvKind>,
    account: Option<&AccountConfig>,
    which: &[Resource],
) -> Result<DesiredInput, OpError> {
    let name = path.display().to_string();
    let read = DesiredInput { name: name.clone(), ..DesiredInput::default() };
    let is_json = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"));
    if path.is_dir() {
        if resource.is_some() {
            let message = format!("cannot read {name} as one resource: it is a folder");
            return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::OmitResource));
        }
        return folder(read, path, account, which);
    }
    let bytes = bytes(path)?;
    if is_json {
        let mut state = export::records(&bytes).map_err(|error| {
            OpError::new(OpErrorKind::Failed, format_args!("{name}: {error}"))
                .next(NextStep::UseExportedJson)
        })?;
        state = only(state, which);
        let desired = DesiredState::of_state(&state, &name);
        let other = export::account(&bytes).filter(|it| account.is_some_and(|of| of.name != *it));
        let of = other.map(|name| InputOwner { name, identity: None });
        return Ok(DesiredInput { desired, state: Some(state), exported: true, of, ..read });
    }
    let kind = match resource {
        Some(kind) => kind,
        None => named_kind(path)?,
    };
    let sheets = [(name, kind, bytes, false)];
    rows(read, sheets.into(), &[])
}

fn only(state: State, which: &[Resource]) -> State {
    let mut left = State::default().with_sent(state.sent.clone());
    for (resource, records) in state.iter().filter(|(it, _)| which.contains(it)) {
        left.resource_mut(resource).clone_from(records);
    }
    left
}

/// The content of a CSV file by its name: the word before the first dot.
fn named_kind(path: &Path) -> Result<CsvKind, OpError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    match CsvKind::from_name(stem) {
        Some(CsvKind::Resource(Resource::Account)) => {
            let message = format!("{} is for the account's own record", path.display());
            Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::NameAccountResource))
        }
        Some(kind) => Ok(kind),
        None => {
            let message = format!(
                "cannot read {}: its name does not say which resource it holds",
                path.display()
            );
            let nearest = suggest(stem, CsvKind::all().map(CsvKind::name));
            Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::NameResource { nearest }))
        }
    }
}

/// CSV files: the name, the content, the bytes, and whether the file is unedited since its export.
type Sheets = Vec<(String, CsvKind, Vec<u8>, bool)>;

/// Reads CSV files. Those of the resources `whole` are complete: records that they lack are not
/// desired.
fn rows(
    mut read: DesiredInput,
    sheets: Sheets,
    whole: &[Resource],
) -> Result<DesiredInput, OpError> {
    let (mut problems, mut warnings) = (CsvProblems::default(), CsvProblems::default());
    for (name, kind, bytes, untouched) in sheets {
        let known = ExportContext { base: read.base.as_ref(), untouched };
        match csv_files::read(kind, &name, &bytes, known) {
            Err(wrong) => problems.append(wrong),
            Ok(sheet) => {
                warnings.append(sheet.warnings);
                match sheet.records {
                    CsvRecords::Links(mut links) => read.desired.campaign_links.append(&mut links),
                    CsvRecords::Of(resource, mut records) => {
                        let wanted = read.desired.resources.entry(resource).or_default();
                        wanted.records.append(&mut records);
                        wanted.is_complete = whole.contains(&resource);
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        let message = match problems.count() {
            1 => format!("{} has a mistake", read.name),
            many => format!("{} has {many} mistakes", read.name),
        };
        return Err(OpError::new(OpErrorKind::Failed, message)
            .details(problems.lines())
            .next(NextStep::FixInput));
    }
    read.warnings.extend(warnings.lines());
    Ok(read)
}

fn manifest(folder: &Path) -> Result<Manifest, OpError> {
    let path = folder.join(MANIFEST);
    if !path.exists() {
        let message = format!("cannot read {}: it is not an exported folder", folder.display());
        return Err(OpError::new(OpErrorKind::NotFound, message).next(NextStep::NameCsvFile));
    }
    Manifest::read(&bytes(&path)?).map_err(|error| {
        OpError::new(OpErrorKind::Failed, format_args!("{}: {error}", path.display()))
            .next(NextStep::ExportAgain)
    })
}

fn folder(
    mut read: DesiredInput,
    folder: &Path,
    account: Option<&AccountConfig>,
    which: &[Resource],
) -> Result<DesiredInput, OpError> {
    let manifest = manifest(folder)?;
    let mut sheets = Vec::new();
    let mut whole = Vec::new();
    let mut state = None;
    for file in &manifest.files {
        let path = folder.join(&file.file);
        let resource = match file.content {
            ExportContent::Csv(kind) => Some(kind.resource()),
            ExportContent::Records => None,
        };
        if resource.is_some_and(|it| !which.contains(&it)) {
            continue;
        }
        if !path.exists() {
            let gone = path.display();
            read.warnings.push(format!("{gone} is gone; what it held is left alone"));
            continue;
        }
        let bytes = bytes(&path)?;
        let untouched = file.is_untouched(&bytes);
        if untouched {
            read.untouched.push(file.file.clone());
        }
        match file.content {
            ExportContent::Csv(kind) => {
                if kind != CsvKind::CampaignLinks {
                    whole.push(kind.resource());
                }
                sheets.push((path.display().to_string(), kind, bytes, untouched));
            }
            ExportContent::Records => {
                let told = |error| {
                    OpError::new(OpErrorKind::Failed, format_args!("{}: {error}", path.display()))
                        .next(NextStep::FixInputOrExportAgain)
                };
                state = Some(only(export::records(&bytes).map_err(told)?, which));
            }
        }
    }
    // A JSON export has all records, so no CSV files are added to it.
    let all = if state.is_some() { &[] } else { which };
    for (kind, path) in added(folder, &manifest, all) {
        sheets.push((path.display().to_string(), kind, bytes(&path)?, false));
    }
    let spoken: Vec<_> = match &state {
        Some(state) => state.iter().map(|(resource, _)| resource).collect(),
        None => sheets.iter().map(|(_, kind, ..)| kind.resource()).collect(),
    };
    read.exported = true;
    let mut deleted = RecordIds::new();
    match base(&manifest, account, &spoken)? {
        Ok((base, since)) => {
            read.base = Some(base);
            deleted = since;
        }
        Err(why) => {
            read.warnings.push(why);
            let is_other = account.is_some_and(|it| it.name != manifest.account);
            let name = Some(manifest.account).filter(|_| is_other);
            read.of = name.map(|name| InputOwner { name, identity: None });
        }
    }
    if let Some(state) = state {
        read.desired = DesiredState::of_state(&state, &folder.join(JSON).display().to_string());
        read.desired.recreate_missing = false;
        read.state = Some(state);
    }
    read.desired.deleted = deleted;
    rows(read, sheets, &whole)
}

/// CSV files that a user has added to an exported folder.
fn added(folder: &Path, manifest: &Manifest, which: &[Resource]) -> Vec<(CsvKind, PathBuf)> {
    let new = |kind: &CsvKind| {
        let known = manifest.files.iter().any(|file| file.content == ExportContent::Csv(*kind));
        !known && which.contains(&kind.resource())
    };
    let paths = CsvKind::all().filter(new).map(|it| (it, folder.join(format!("{it}.csv"))));
    paths.filter(|(_, path)| path.is_file()).collect()
}

/// The state from which an export was made and the records deleted since, or a message why they are
/// unknown.
fn base(
    manifest: &Manifest,
    account: Option<&AccountConfig>,
    which: &[Resource],
) -> Result<Result<(State, RecordIds), String>, OpError> {
    let every = "every cell counts as edited";
    let other = || format!("the export is of `{}`, so {every}", manifest.account);
    let Some(account) = account else { return Ok(Err(other())) };
    let (Some(number), Some(digest)) = (manifest.snapshot, &manifest.digest) else {
        return Ok(Err(format!("the export is of {}, no snapshot, so {every}", manifest.state)));
    };
    // The account may have another name since; the digest identifies the snapshot.
    let gone = match manifest.account == account.name {
        true => format!("snapshot #{number} of the export is not in the vault, so {every}"),
        false => other(),
    };
    let Some(mut vault) = Vault::open_if_there(&account.vault)? else { return Ok(Err(gone)) };
    let found = vault.snapshots()?.into_iter().find(|it| it.number == number);
    if found.is_none_or(|it| it.digest.as_ref() != Some(digest)) {
        return Ok(Err(gone));
    }
    let deleted = deleted_since(&vault, number)?;
    Ok(Ok((vault.state(number, which)?, deleted)))
}

/// The bytes of a file of at most 256 MiB.
///
/// # Errors
/// If it does not exist, is not a regular file, is larger, or cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>, OpError> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            OpError::new(OpErrorKind::NotFound, format_args!("there is no file {shown}"))
        }
        _ => OpError::new(OpErrorKind::Failed, format_args!("{shown} cannot be read: {error}")),
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(OpError::new(OpErrorKind::Failed, format_args!("{shown} is no file")));
    }
    let too_large = || {
        let most = LARGEST >> 20;
        OpError::new(OpErrorKind::Failed, format_args!("{shown} is larger than {most} MiB"))
            .next(NextStep::SplitFile)
    };
    if found.len() > LARGEST {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let file = open_named(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST { Err(too_large()) } else { Ok(bytes) }
}

/// The account for reading files: the one from which they were exported, or the only configured
/// one.
///
/// # Errors
/// If there is neither.
pub fn account_of(env: &Env, path: &Path) -> Result<AccountConfig, OpError> {
    match exporting_account(env, path)? {
        Some(account) => Ok(account),
        None => state_ref::only_account(env, "latest"),
    }
}

/// The fields in `desired` that no list shows, by resource; a diff leaves them out.
#[must_use]
pub fn unlisted_fields(desired: &DesiredState) -> BTreeMap<Resource, Vec<&'static str>> {
    let mut unseen = BTreeMap::new();
    for (&resource, wanted) in &desired.resources {
        let fields = resource.spec().fields.iter().enumerate();
        let hidden = fields.filter(|(place, field)| {
            !field.is_read() && wanted.records.iter().any(|row| row.fields.contains_key(place))
        });
        let names: Vec<_> = hidden.map(|(_, field)| field.name).collect();
        if !names.is_empty() {
            unseen.insert(resource, names);
        }
    }
    if !desired.campaign_links.is_empty() {
        unseen.entry(Resource::Campaigns).or_default().push("links");
    }
    unseen
}
