//! Reads files as desired input: CSV files, workbooks, folders of them, folders that `export` wrote,
//! and JSON exports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::desired_input::{DesiredInput, InputOwner, UntouchedTable};
use super::export_origin::{OriginBase, base, manifest, origin};
use super::input_tables::{InputTable, MOST_NAMED, TableContent, bytes, kind_from_name};
use super::sheet_files::{names_in, sheet_files};
use super::{NextStep, OpError, OpErrorKind};
use crate::change::csv_files::{
    self, CsvKind, CsvProblems, CsvRecords, ExportContext, TextEncoding,
};
use crate::change::desired::DesiredState;
use crate::change::export::{self, ExportContent, MANIFEST, Manifest, ManifestFile};
use crate::change::workbook::{Workbook, WorkbookError, is_workbook};
use crate::config::AccountConfig;
use crate::format;
use crate::model::{Resource, State};

pub use super::input_tables::CsvOptions;

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// The content of CSV files whose names do not show it.
    pub resource: Option<CsvKind>,
    /// The encoding of CSV files; the one that their bytes show if `None`.
    pub encoding: Option<TextEncoding>,
    /// The resources to read from folders and exports.
    pub which: Vec<Resource>,
    /// How the columns of CSV files are read.
    pub csv: CsvOptions,
}

/// Reads files and folders as one input. The state from which they were exported is looked up in the
/// vault of `account`.
///
/// # Errors
/// If one does not exist or cannot be read; with all mistakes in CSV files.
pub fn read_files(
    paths: &[PathBuf],
    how: &FileOptions,
    account: Option<&AccountConfig>,
) -> Result<DesiredInput, OpError> {
    let mut reader = FileReader {
        how,
        account,
        read: DesiredInput { name: name_of(paths), ..DesiredInput::default() },
        tables: Vec::new(),
        whole: BTreeSet::new(),
        others: false,
        origin: None,
    };
    for path in paths {
        if path.is_dir() {
            reader.folder(path)?;
        } else if is_json(path) && paths.len() > 1 {
            let message = format!("cannot combine {}, a JSON file, with others", path.display());
            return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::ReadAlone));
        } else if is_json(path) {
            reader.json(path)?;
        } else {
            reader.file(path)?;
        }
    }
    reader.finish(paths.len() > 1)
}

/// The name of an input in messages and in the journal.
fn name_of(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    format::list(&names, MOST_NAMED)
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|it| it.eq_ignore_ascii_case("json"))
}

/// Reads files as one input.
struct FileReader<'a> {
    how: &'a FileOptions,
    account: Option<&'a AccountConfig>,
    read: DesiredInput,
    tables: Vec<InputTable>,
    /// The resources of which the tables have all desired records.
    whole: BTreeSet<Resource>,
    /// Whether tables are left out because their resources were not asked for.
    others: bool,
    /// The export that the files belong to.
    origin: Option<Manifest>,
}

impl FileReader<'_> {
    fn json(&mut self, path: &Path) -> Result<(), OpError> {
        let (name, bytes) = (path.display().to_string(), bytes(path)?);
        let state = export::records(&bytes).map_err(|error| {
            OpError::new(OpErrorKind::Failed, format_args!("{name}: {error}"))
                .next(NextStep::UseExportedJson)
        })?;
        let state = only(state, &self.how.which);
        self.read.desired = DesiredState::of_state(&state, &name);
        if export::is_filtered(&bytes) {
            self.keep_others();
        }
        let account = export::account(&bytes);
        let other = account.filter(|it| self.account.is_some_and(|of| of.name != *it));
        self.read.of = other.map(|name| InputOwner { name, identity: None });
        self.read.state = Some(state);
        self.read.exported = true;
        Ok(())
    }

    /// Keeps records that the input lacks: a filter left them out of the export.
    fn keep_others(&mut self) {
        self.whole.clear();
        for wanted in self.read.desired.resources.values_mut() {
            wanted.is_complete = false;
        }
    }

    fn file(&mut self, path: &Path) -> Result<(), OpError> {
        let bytes = bytes(path)?;
        if is_workbook(&bytes) {
            return match self.workbook(path, &bytes)? {
                false => Err(self.no_sheet(path)),
                true => Ok(()),
            };
        }
        let kind = match self.how.resource {
            Some(kind) => kind,
            None => kind_from_name(path)?,
        };
        let listed = self.belongs_to(path, None)?;
        let listed = listed.filter(|file| file.content == ExportContent::Csv(kind));
        self.table_of_csv(path, kind, bytes, listed.as_ref());
        Ok(())
    }

    /// Finds the export that a file belongs to. Returns the file's entry in the export's manifest.
    /// `inside` is the description of the export in a workbook.
    fn belongs_to(
        &mut self,
        path: &Path,
        inside: Option<Manifest>,
    ) -> Result<Option<ManifestFile>, OpError> {
        let origin = match origin(path, inside) {
            Ok(Some(origin)) => origin,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.read.warnings.push(format!("{error}; the file counts as no export"));
                return Ok(None);
            }
        };
        let listed = origin.file(path).cloned();
        self.set_origin(path, origin)?;
        Ok(listed)
    }

    /// All files must belong to one export, because they are compared with one state.
    fn set_origin(&mut self, path: &Path, origin: Manifest) -> Result<(), OpError> {
        if self.origin.as_ref().is_some_and(|known| !known.is_same_export(&origin)) {
            let message = format!("cannot combine {} with files of another export", path.display());
            return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::ReadAlone));
        }
        self.origin.get_or_insert(origin);
        Ok(())
    }

    fn no_sheet(&self, path: &Path) -> OpError {
        let what = self.how.resource.map_or("a resource".to_owned(), |kind| format!("`{kind}`"));
        let message = format!("cannot read {}: no sheet in it is named {what}", path.display());
        OpError::new(OpErrorKind::Usage, message).next(NextStep::NameSheets)
    }

    /// Adds the sheets of a workbook whose titles show their resources, and notes that the others are
    /// ignored. Returns whether there is a sheet to read.
    fn workbook(&mut self, path: &Path, bytes: &[u8]) -> Result<bool, OpError> {
        let name = path.display();
        let unreadable = |error: WorkbookError| {
            let next = NextStep::after_workbook_error(&error);
            OpError::new(OpErrorKind::Failed, format_args!("cannot read {name}: {error}"))
                .next(next)
        };
        let mut book = Workbook::open(bytes).map_err(unreadable)?;
        let inside = book.origin().map_err(unreadable)?;
        let inside = inside.and_then(|text| Manifest::read(text.as_bytes()).ok());
        let listed = self.belongs_to(path, inside)?;
        let untouched = listed.as_ref().is_some_and(|file| file.is_untouched(bytes));
        let titles = book.titles().to_vec();
        let mut kinds = self.kinds_of_sheets(path, &titles);
        if listed.is_none() {
            // An export has this sheet, and it is read only if it is named.
            let account = Some(CsvKind::Resource(Resource::Account));
            let is_ignored =
                |kind: &Option<CsvKind>| *kind == account && self.how.resource != account;
            kinds.iter_mut().filter(|kind| is_ignored(kind)).for_each(|kind| *kind = None);
        }
        let all: Vec<_> = kinds.iter().copied().flatten().collect();
        self.exported_sheets(path, listed.as_ref(), &all);
        if all.is_empty() {
            return Ok(false);
        }
        let unknown = titles.iter().zip(&kinds).filter(|(_, kind)| kind.is_none());
        let unknown: Vec<_> = unknown.map(|(title, _)| format!("`{title}`")).collect();
        if !unknown.is_empty() {
            let sheets = if unknown.len() == 1 { "sheet" } else { "sheets" };
            let unknown = format::list(&unknown, MOST_NAMED);
            self.read.notes.push(format!("{name}: ignored {sheets} {unknown}"));
        }
        let which = &self.how.which;
        let is_wanted =
            |kind: &Option<CsvKind>| kind.is_some_and(|it| which.contains(&it.resource()));
        let wanted: Vec<_> = (0..kinds.len()).filter(|nth| is_wanted(&kinds[*nth])).collect();
        self.others |= wanted.len() < all.len();
        for (nth, sheet) in wanted.iter().zip(book.sheets(&wanted).map_err(unreadable)?) {
            if let Some(kind) = kinds[*nth] {
                let name = format!("{name}#{}", sheet.title);
                let (path, content) = (path.to_owned(), TableContent::Sheet(sheet));
                self.table(InputTable { path, name, kind, content, untouched });
            }
        }
        Ok(true)
    }

    /// Notes which sheets of an exported workbook are complete, and warns of those that are gone.
    fn exported_sheets(&mut self, path: &Path, listed: Option<&ManifestFile>, found: &[CsvKind]) {
        for kind in listed.into_iter().flat_map(|file| &file.sheets) {
            let is_asked = self.how.resource.is_none_or(|resource| resource == *kind);
            if found.contains(kind) && *kind != CsvKind::CampaignLinks {
                self.whole.insert(kind.resource());
            } else if !found.contains(kind) && is_asked {
                let name = path.display();
                let what =
                    format!("{name}: the sheet `{kind}` is gone; its records are left alone");
                self.read.warnings.push(what);
            }
        }
    }

    /// The kinds of the sheets with these titles. The title of a single sheet may be anything if the
    /// resource is given, or if the name of the file shows it.
    fn kinds_of_sheets(&self, path: &Path, titles: &[String]) -> Vec<Option<CsvKind>> {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let of_titles: Vec<_> = titles.iter().map(|it| CsvKind::of_title(it).ok()).collect();
        match (self.how.resource, titles) {
            (Some(kind), [_]) => vec![Some(kind)],
            (Some(kind), _) => {
                of_titles.into_iter().map(|it| it.filter(|it| *it == kind)).collect()
            }
            (None, [_]) if of_titles == [None] => {
                let account = CsvKind::Resource(Resource::Account);
                vec![CsvKind::of_title(&file).ok().filter(|kind| *kind != account)]
            }
            (None, _) => of_titles,
        }
    }

    /// Adds a CSV file. `listed` is its entry in the manifest of an export.
    fn table_of_csv(
        &mut self,
        path: &Path,
        kind: CsvKind,
        bytes: Vec<u8>,
        listed: Option<&ManifestFile>,
    ) {
        if listed.is_some() && kind != CsvKind::CampaignLinks {
            self.whole.insert(kind.resource());
        }
        let untouched = listed.is_some_and(|file| file.is_untouched(&bytes));
        let (name, content) = (path.display().to_string(), TableContent::Csv(bytes));
        self.table(InputTable { path: path.to_owned(), name, kind, content, untouched });
    }

    fn table(&mut self, table: InputTable) {
        if self.tables.iter().any(|it| it.name == table.name) {
            // The file is also in a folder that is read.
            return;
        }
        if table.untouched {
            let (name, content) = (table.name.clone(), ExportContent::Csv(table.kind));
            self.read.untouched.push(UntouchedTable { name, content });
        }
        self.tables.push(table);
    }

    fn folder(&mut self, folder: &Path) -> Result<(), OpError> {
        let name = folder.display();
        if self.how.resource.is_some() {
            let message = format!("cannot read {name} as one resource: it is a folder");
            return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::OmitResource));
        }
        if folder.join(MANIFEST).exists() {
            if self.read.exported {
                let message = format!("cannot combine {name} with another exported folder");
                return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::ReadAlone));
            }
            self.read.exported = true;
            return self.exported(folder);
        }
        let notes = self.read.notes.len();
        if self.others(folder, &[], true)? {
            return Ok(());
        }
        self.read.notes.truncate(notes);
        if self.sheets_of_a_workbook(folder)? {
            return Ok(());
        }
        let message = format!("cannot read {name}: no file in it is named after a resource");
        Err(OpError::new(OpErrorKind::NotFound, message).next(NextStep::NameFilesByResource))
    }

    /// Reads the files of a folder besides `known` whose names show their resources, and notes that
    /// the others are ignored; all of them without `read`. Returns whether there was a file to read.
    fn others(&mut self, folder: &Path, known: &[&str], read: bool) -> Result<bool, OpError> {
        let names = names_in(folder)?;
        let (mut ignored, mut any) = (Vec::new(), false);
        for name in names {
            let path = folder.join(&name);
            let name = name.to_string_lossy();
            if known.contains(&&*name) {
                continue;
            }
            let is_read = read && path.is_file() && self.file_in_folder(&path, &name)?;
            any |= is_read;
            if !is_read {
                ignored.push(name.into_owned());
            }
        }
        if !ignored.is_empty() {
            let names = format::list(&ignored, MOST_NAMED);
            self.read.notes.push(format!("{}: ignored {names}", folder.display()));
        }
        Ok(any)
    }

    /// Reads the files of a folder that LibreOffice wrote for each sheet of one workbook, and notes
    /// it. Returns whether there was such a file.
    fn sheets_of_a_workbook(&mut self, folder: &Path) -> Result<bool, OpError> {
        let Some(sheets) = sheet_files(folder, &names_in(folder)?) else { return Ok(false) };
        self.read.notes.extend(sheets.notes);
        for (path, kind) in sheets.files {
            if self.how.which.contains(&kind.resource()) {
                let bytes = bytes(&path)?;
                self.table_of_csv(&path, kind, bytes, None);
            }
        }
        Ok(true)
    }

    /// Reads a file of a folder, if it is a CSV file or a workbook whose name or sheets show a
    /// resource. Returns false for others: the account's own record, rejected rows, which repeat rows
    /// of another file, and temporary files of spreadsheets.
    fn file_in_folder(&mut self, path: &Path, name: &str) -> Result<bool, OpError> {
        let lower = name.to_lowercase();
        let is_table = [".csv", ".ods", ".xlsx"].iter().any(|end| lower.ends_with(end));
        let is_copy = lower.ends_with(".rejected.csv") || lower.starts_with(['.', '~']);
        let kind = CsvKind::of_title(name).ok();
        if !is_table || is_copy || lower.ends_with(".csv") && kind.is_none() {
            return Ok(false);
        }
        let bytes = bytes(path)?;
        if is_workbook(&bytes) {
            return self.workbook(path, &bytes);
        }
        let account = CsvKind::Resource(Resource::Account);
        let Some(kind) = kind.filter(|kind| *kind != account) else { return Ok(false) };
        match self.how.which.contains(&kind.resource()) {
            true => self.table_of_csv(path, kind, bytes, None),
            false => self.others = true,
        }
        Ok(true)
    }

    fn exported(&mut self, folder: &Path) -> Result<(), OpError> {
        let manifest = manifest(folder)?;
        self.set_origin(folder, manifest.clone())?;
        let mut state = None;
        for file in &manifest.files {
            let path = folder.join(&file.file);
            let resource = match file.content {
                ExportContent::Csv(kind) => Some(kind.resource()),
                ExportContent::Records | ExportContent::Workbook => None,
            };
            if resource.is_some_and(|it| !self.how.which.contains(&it)) {
                self.others = true;
                continue;
            }
            if !path.exists() {
                let gone = path.display();
                self.read
                    .warnings
                    .push(format!("{gone} is missing; its records are left unchanged"));
                continue;
            }
            let bytes = bytes(&path)?;
            match file.content {
                ExportContent::Csv(kind) => self.table_of_csv(&path, kind, bytes, Some(file)),
                ExportContent::Workbook => drop(self.workbook(&path, &bytes)?),
                ExportContent::Records => {
                    if file.is_untouched(&bytes) {
                        let (name, content) = (path.display().to_string(), file.content);
                        self.read.untouched.push(UntouchedTable { name, content });
                    }
                    let told = |error| {
                        let message = format!("{}: {error}", path.display());
                        OpError::new(OpErrorKind::Failed, message)
                            .next(NextStep::FixInputOrExportAgain)
                    };
                    let records = export::records(&bytes).map_err(told)?;
                    state = Some((path, only(records, &self.how.which)));
                }
            }
        }
        let mut known = vec![MANIFEST];
        known.extend(manifest.files.iter().map(|file| file.file.as_str()));
        // A JSON export has all records, so no CSV files are added to it.
        self.others(folder, &known, state.is_none())?;
        if let Some((path, state)) = state {
            self.read.desired = DesiredState::of_state(&state, &path.display().to_string());
            self.read.desired.recreate_missing = false;
            self.read.state = Some(state);
        }
        Ok(())
    }

    /// Finds the state from which the files were exported.
    fn find_base(&mut self) -> Result<(), OpError> {
        let Some(origin) = self.origin.take() else { return Ok(()) };
        self.read.exported = true;
        if origin.is_filtered {
            self.keep_others();
        }
        let of_state = self.read.state.iter().flat_map(State::iter).map(|(resource, _)| resource);
        let of_tables = self.tables.iter().map(|table| table.kind.resource());
        let spoken: BTreeSet<_> = of_state.chain(of_tables).collect();
        let spoken: Vec<_> = spoken.into_iter().collect();
        match base(&origin, self.account, &spoken)? {
            OriginBase::Known { state, deleted } => {
                self.read.base = Some(*state);
                self.read.desired.deleted = deleted;
            }
            OriginBase::Unknown(why) => {
                self.read.warnings.push(why);
                let is_other = self.account.is_some_and(|it| it.name != origin.account);
                let name = Some(origin.account).filter(|_| is_other);
                self.read.of = name.map(|name| InputOwner { name, identity: None });
            }
        }
        Ok(())
    }

    /// Reads the rows of all tables, of `several` files or of one.
    fn finish(mut self, several: bool) -> Result<DesiredInput, OpError> {
        self.find_base()?;
        let Self { how, mut read, tables, whole, others, .. } = self;
        if tables.is_empty() {
            how.csv.require_none(&read.name, "not a CSV file")?;
        }
        how.csv.check(&tables, how.encoding, others)?;
        read.files = tables.iter().map(|table| table.path.clone()).collect();
        let mut problems = CsvProblems::default();
        let mut faulty = BTreeSet::new();
        let mut next = NextStep::FixInput;
        for table in &tables {
            let InputTable { name, kind, untouched, .. } = table;
            let source = match table.source(how.encoding) {
                Ok(source) => source,
                Err(problem) => {
                    faulty.insert(table.path.display().to_string());
                    problems.append(problem.of_file(name));
                    next = NextStep::FixEncoding;
                    continue;
                }
            };
            if let Some(encoding) = source.found_encoding().filter(|_| how.encoding.is_none()) {
                read.encodings.push(format!("{name}: read as {encoding}"));
            }
            let known = ExportContext {
                base: read.base.as_ref(),
                untouched: *untouched,
                columns: Some(&how.csv.columns),
            };
            match csv_files::read_rows(*kind, name, &source, known) {
                Err(wrong) => {
                    faulty.insert(table.path.display().to_string());
                    problems.append(wrong);
                }
                Ok(input) => {
                    read.suspicious.append(input.suspicious);
                    read.notes.extend(input.notes);
                    if !input.renamed.is_empty() {
                        read.renamed.push((name.clone(), input.renamed));
                    }
                    match input.records {
                        CsvRecords::Links(mut links) => {
                            read.desired.campaign_links.append(&mut links);
                        }
                        CsvRecords::Of(resource, mut records) => {
                            let wanted = read.desired.resources.entry(resource).or_default();
                            wanted.records.append(&mut records);
                            wanted.is_complete = whole.contains(&resource);
                        }
                    }
                }
            }
        }
        let repeated = csv_files::read::duplicates_between_files(&read.desired);
        let among_files = !repeated.is_empty();
        problems.append(repeated);
        if !problems.is_empty() {
            // A folder is named as a whole, and so are several files that do not fit together.
            let faulty: Vec<_> = faulty.into_iter().collect();
            let (name, has) = match (several, among_files) {
                (false, _) => (read.name.clone(), "has"),
                (true, true) => (read.name.clone(), "have"),
                (true, false) if faulty.len() == 1 => (faulty[0].clone(), "has"),
                (true, false) => (format::list(&faulty, MOST_NAMED), "have"),
            };
            let message = match problems.count() {
                1 => format!("{name} {has} a mistake"),
                many => format!("{name} {has} {many} mistakes"),
            };
            if problems.has_unknown_columns() && next == NextStep::FixInput {
                next = NextStep::FixInputOrMapColumns;
            }
            let failure = OpError::new(OpErrorKind::Failed, message).details(&problems);
            let annotated = match (&how.csv.annotate, tables.as_slice()) {
                (Some(to), [table]) => {
                    table.annotate(&problems, how.encoding, to, how.csv.force)?
                }
                _ => None,
            };
            return Err(failure.next(annotated.map_or(next, NextStep::FixAnnotatedRows)));
        }
        Ok(read)
    }
}

fn only(state: State, which: &[Resource]) -> State {
    let mut left = State::default().with_sent(state.sent.clone());
    for (resource, records) in state.iter().filter(|(it, _)| which.contains(it)) {
        left.resource_mut(resource).clone_from(records);
    }
    left
}
