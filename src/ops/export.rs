//! Writes a state as files, for `export` and for the daemon after a backup.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::account_session::SessionLimits;
use super::backup::{BackupRequest, record_live};
use super::error_sources::cannot_write;
use super::input::filtered_scope;
use super::plan::warn_of_filters;
use super::state_ref::{LoadedState, StateRef, recorded_live_state};
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::change::csv_files::CsvKind;
use crate::change::csv_files::write::{CsvDialect, CsvWriter, campaign_links};
use crate::change::export::{JSON, MANIFEST, WORKBOOK, raw};
use crate::change::record_filter::RecordFilter;
use crate::change::workbook::write::{SheetWriter, WorkbookWriter};
use crate::config::{AccountConfig, ExportFormat, StatisticsSetting};
use crate::files::{Durability, private_folder, temporary_beside};
use crate::model::Resource;
use crate::vault::reference::Reference;

/// Which state to write, and where.
pub struct ExportRequest<'a> {
    /// The reference of the state, such as `main@latest`.
    pub reference: &'a str,
    /// The folder to write to: new, empty, or with an earlier export.
    pub folder: &'a Path,
    /// CSV files, one JSON file or one workbook.
    pub format: ExportFormat,
    /// The form of CSV files.
    pub dialect: CsvDialect,
    /// Only these resources; all if empty.
    pub only: &'a [Resource],
    /// Not these resources.
    pub skip: &'a [Resource],
    /// Which records are written.
    pub filter: RecordFilter,
    /// Limits on requests, time and the wait for the lock, to read a live account.
    pub limits: SessionLimits,
    /// Whether nothing is written. Otherwise the live account is read into its vault, so that the
    /// snapshot is there when the edited files come back.
    pub dry_run: bool,
}

/// A loaded state and where to write it.
pub struct ExportPlan<'a> {
    request: &'a ExportRequest<'a>,
    account: AccountConfig,
    /// The state to write.
    pub state: LoadedState,
}

/// Loads the state of `request`, and checks that the folder may be written to.
///
/// # Errors
/// If the state does not exist or cannot be read, or the folder has other files.
pub fn plan_export<'a>(
    env: &Env,
    request: &'a ExportRequest<'a>,
) -> Result<ExportPlan<'a>, OpError> {
    let target = StateRef::parse(env, request.reference, Reference::Latest(0), None)?;
    check_folder(request.folder)?;
    let which = filtered_scope(request.only, request.skip, &request.filter)?;
    let mut state = match target.reference {
        Reference::Live if !request.dry_run => {
            let backup = BackupRequest {
                only: which.clone(),
                stats: Some(StatisticsSetting::None),
                fresh: true,
                limits: request.limits,
                ..BackupRequest::new("export", &target.account)
            };
            recorded_live_state(&target.account, record_live(env, &backup)?, &which)?
        }
        _ => target.load(env, &request.limits, &which)?,
    };
    state.filter = request.filter.clone();
    warn_of_filters(env, &state.unmatched_filters()?);
    Ok(ExportPlan { request, account: target.account, state })
}

impl ExportPlan<'_> {
    /// Writes the files and the manifest.
    ///
    /// # Errors
    /// If the folder has other files or cannot be written.
    pub fn write(&mut self) -> Result<ExportReport, OpError> {
        let ExportRequest { folder, format, dialect, .. } = self.request;
        export(&self.account, &mut self.state, folder, *format, *dialect)
    }
}

/// The written files.
pub struct ExportReport {
    /// The content of the manifest, a JSON object.
    pub manifest: Json,
    /// The files without the manifest.
    pub files: Vec<WrittenFile>,
}

/// Writes `loaded` and a manifest, which names the state, to `folder`. Removes files of an earlier
/// export.
///
/// # Errors
/// If the folder has other files or cannot be written.
pub fn export(
    account: &AccountConfig,
    loaded: &mut LoadedState,
    folder: &Path,
    format: ExportFormat,
    dialect: CsvDialect,
) -> Result<ExportReport, OpError> {
    check_folder(folder)?;
    private_folder(folder).map_err(|error| cannot_write(folder, &error))?;
    let mut manifest = json!({
        "format": 1,
        "account": account.name,
        "state": loaded.name,
        "snapshot": loaded.snapshot.as_ref().map(|it| it.number),
        "digest": loaded.snapshot.as_ref().and_then(|it| it.digest.clone()),
        "filter": loaded.filter.texts(),
    });
    let files = match format {
        ExportFormat::Csv => csv_files(folder, loaded, dialect)?,
        ExportFormat::Json => vec![json_file(folder, loaded)?],
        ExportFormat::Xlsx => vec![workbook_file(folder, loaded, manifest.clone())?],
    };
    manifest["status"] = json!(loaded.snapshot.as_ref().map(|it| it.status.name()));
    manifest["stale"] = json!(loaded.stale());
    manifest["files"] = files.iter().map(WrittenFile::document).collect();
    let mut file = ExportFile::new(folder, MANIFEST.to_owned(), None)?;
    file.write(|out| writeln!(out, "{manifest:#}"))?;
    file.keep()?;
    remove_others(folder, &files)?;
    Ok(ExportReport { manifest, files })
}

/// A written file.
pub struct WrittenFile {
    /// The file's name, without the folder.
    pub name: String,
    resource: Option<Resource>,
    /// The number of records or rows in it.
    pub records: u64,
    /// The sheets, if it is a workbook.
    sheets: Vec<CsvKind>,
    hash: String,
}

impl WrittenFile {
    /// Its entry in the manifest.
    fn document(&self) -> Json {
        let mut entry = json!({
            "file": self.name, "resource": self.resource, "records": self.records,
            "blake3": self.hash,
        });
        if !self.sheets.is_empty() {
            entry["sheets"] = self.sheets.iter().map(|kind| kind.name()).collect();
        }
        entry
    }
}

/// Refuses a folder that is neither missing, nor empty, nor has a manifest.
///
/// # Errors
/// If the folder has other files.
fn check_folder(folder: &Path) -> Result<(), OpError> {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return Ok(()) };
    if entries.next().is_none() || folder.join(MANIFEST).is_file() {
        return Ok(());
    }
    let message = format!("{} holds other files", folder.display());
    Err(OpError::new(OpErrorKind::Failed, message).next(NextStep::NameEmptyFolder))
}

/// Removes files of an earlier export that this one did not write, because the folder is read as
/// one state. Only files with the names of an export are removed: the manifest is not trusted,
/// since it could name any file.
fn remove_others(folder: &Path, files: &[WrittenFile]) -> Result<(), OpError> {
    let others = [JSON, WORKBOOK].map(str::to_owned);
    let names = CsvKind::all().map(sheet_name).chain(others);
    for name in names.filter(|name| files.iter().all(|file| file.name != *name)) {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove {}: {error}", path.display());
                return Err(OpError::new(OpErrorKind::Failed, message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn sheet_name(sheet: CsvKind) -> String {
    format!("{sheet}.csv")
}

fn csv_files(
    folder: &Path,
    loaded: &mut LoadedState,
    dialect: CsvDialect,
) -> Result<Vec<WrittenFile>, OpError> {
    let known = loaded.sent()?;
    let mut files = Vec::new();
    let mut links = Vec::new();
    for resource in loaded.resources.clone() {
        let mut file =
            ExportFile::new(folder, sheet_name(CsvKind::Resource(resource)), Some(resource))?;
        let mut sheet = CsvWriter::begin(resource, &mut file.out, dialect);
        let mut count = 0;
        loaded.each(resource, |record| {
            count += 1;
            let key = (resource, record.key.clone());
            let sent = known.sent.as_ref().and_then(|sent| sent.get(&key));
            if resource == Resource::Campaigns {
                links.extend(known.links(&record.key).map(|link| (record.key.id(), link)));
            }
            // The first error is kept; later records are not written.
            if let Ok(begun) = &mut sheet
                && let Err(error) = begun.record(&record, sent)
            {
                sheet = Err(error);
            }
        })?;
        let written = sheet.and_then(CsvWriter::finish);
        file.write(|_| written)?;
        file.records = count;
        files.push(file.keep()?);
    }
    if !links.is_empty() {
        let mut file = ExportFile::new(folder, sheet_name(CsvKind::CampaignLinks), None)?;
        file.records = links.len() as u64;
        file.write(|out| campaign_links(out, links, dialect))?;
        files.push(file.keep()?);
    }
    Ok(files)
}

/// Writes all records into one workbook, with a sheet for each resource, and `origin`, which
/// describes the export in the form of a manifest.
fn workbook_file(
    folder: &Path,
    loaded: &mut LoadedState,
    mut origin: Json,
) -> Result<WrittenFile, OpError> {
    let known = loaded.sent()?;
    let mut file = ExportFile::new(folder, WORKBOOK.to_owned(), None)?;
    let mut book = file.checked(WorkbookWriter::begin())?;
    let mut links = Vec::new();
    for resource in loaded.resources.clone() {
        let mut sheet = file.checked(SheetWriter::begin(CsvKind::Resource(resource)))?;
        let mut written = Ok(());
        loaded.each(resource, |record| {
            file.records += 1;
            let key = (resource, record.key.clone());
            let sent = known.sent.as_ref().and_then(|sent| sent.get(&key));
            if resource == Resource::Campaigns {
                links.extend(known.links(&record.key).map(|link| (record.key.id(), link)));
            }
            // The first error is kept; later records are not written.
            if written.is_ok() {
                written = sheet.record(&record, sent);
            }
        })?;
        file.checked(written.and_then(|()| book.add(sheet)))?;
    }
    if !links.is_empty() {
        let mut sheet = file.checked(SheetWriter::begin(CsvKind::CampaignLinks))?;
        let written = links.iter().try_for_each(|(campaign, link)| sheet.link(*campaign, *link));
        file.checked(written.and_then(|()| book.add(sheet)))?;
    }
    file.sheets = book.sheets().to_vec();
    let sheets: Vec<_> = book.sheets().iter().map(|kind| kind.name()).collect();
    // The hash of the workbook cannot be in it.
    origin["files"] = json!([{ "file": WORKBOOK, "blake3": "", "sheets": sheets }]);
    file.write(|out| book.finish(&origin.to_string(), out))?;
    file.keep()
}

/// Writes all records into one document, each exactly as the service sent it.
fn json_file(folder: &Path, loaded: &mut LoadedState) -> Result<WrittenFile, OpError> {
    let mut file = ExportFile::new(folder, JSON.to_owned(), None)?;
    let state = json!(loaded.name);
    let filter = json!(loaded.filter.texts());
    file.write(|out| {
        write!(out, "{{\"format\":1,\"state\":{state},\"filter\":{filter},\"resources\":{{")
    })?;
    for (nth, resource) in loaded.resources.clone().into_iter().enumerate() {
        let comma = if nth == 0 { "" } else { "," };
        file.write(|out| write!(out, "{comma}\"{resource}\":["))?;
        let mut first = true;
        let mut written = Ok(());
        loaded.each(resource, |record| {
            if written.is_ok() {
                let comma = if first { "" } else { "," };
                written = write!(file.out, "{comma}\n{}", raw(&record));
                file.records += 1;
                first = false;
            }
        })?;
        file.write(|out| written.and_then(|()| write!(out, "]")))?;
    }
    file.write(|out| writeln!(out, "}}}}"))?;
    file.keep()
}

/// A private file that is created atomically.
struct ExportFile {
    name: String,
    resource: Option<Resource>,
    records: u64,
    sheets: Vec<CsvKind>,
    path: PathBuf,
    out: BufWriter<tempfile::NamedTempFile>,
}

impl ExportFile {
    fn new(folder: &Path, name: String, resource: Option<Resource>) -> Result<Self, OpError> {
        let path = folder.join(&name);
        let file = temporary_beside(&path, b"", Durability::Unsynced)
            .map_err(|error| cannot_write(&path, &error))?;
        let (records, sheets, out) = (0, Vec::new(), BufWriter::new(file));
        Ok(Self { name, resource, records, sheets, path, out })
    }

    /// The error of `result` as that of writing this file.
    fn checked<T>(&self, result: std::io::Result<T>) -> Result<T, OpError> {
        result.map_err(|error| cannot_write(&self.path, &error))
    }

    fn write(
        &mut self,
        work: impl FnOnce(&mut BufWriter<tempfile::NamedTempFile>) -> std::io::Result<()>,
    ) -> Result<(), OpError> {
        work(&mut self.out).map_err(|error| cannot_write(&self.path, &error))
    }

    fn keep(self) -> Result<WrittenFile, OpError> {
        let path = &self.path;
        let file = self.out.into_inner().map_err(std::io::IntoInnerError::into_error);
        let hash = file
            .and_then(|file| {
                let mut hasher = blake3::Hasher::new();
                hasher.update_reader(std::fs::File::open(file.path())?)?;
                file.persist(path)?;
                Ok(hasher.finalize().to_hex().to_string())
            })
            .map_err(|error| cannot_write(path, &error))?;
        let Self { name, resource, records, sheets, .. } = self;
        Ok(WrittenFile { name, resource, records, sheets, hash })
    }
}
