//! Writes rejected rows of CSV files, so that they can be fixed and applied again. The journal of a
//! run stores the paths and hashes of its input files, so that a resumed run finds the files, or
//! reports that it cannot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Env;
use super::input;
use super::migration_flags::{RecordedFlags, RecordedMigration};
use super::output_files::{OutputKind, write_output};
use crate::change::csv_files::rejected::rejected;
use crate::change::csv_files::{ColumnOptions, CsvKind, RowSource, TextEncoding};
use crate::change::desired::SourceLocation;
use crate::change::plan::{MigrationMatches, MigrationNote, Plan, PlanStep, UnsupportedChange};
use crate::change::workbook::Workbook;
use crate::format;
use crate::model::{Resource, Verb};

/// What the journal of a run stores in addition to its steps.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunInput {
    /// The input files, by their names in the steps.
    files: BTreeMap<String, File>,
    /// Changes that the API cannot make.
    pub unsupported: Vec<UnsupportedChange>,
    /// The number of further records of the input that have no step and are left to a person.
    pub manual: u64,
    /// The number of changes that were left out because the account's value was kept in a conflict.
    pub conflicts: u64,
    /// The note of a migration, for the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<RecordedMigration>,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    path: PathBuf,
    blake3: String,
    /// The encoding that the user named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// The title of the sheet, if the file is a workbook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sheet: Option<String>,
    /// What the rows are, if the name of the file or sheet does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// How the columns were read.
    #[serde(default, skip_serializing_if = "ColumnOptions::is_empty")]
    columns: ColumnOptions,
}

impl RunInput {
    /// The input of a plan that was just made from files, whose columns were read with `columns` and in
    /// the encoding that the user named. Reads the files.
    #[must_use]
    pub fn of(plan: &Plan, encoding: Option<TextEncoding>, columns: &ColumnOptions) -> Self {
        let steps = plan.steps.iter().map(|step| (&step.source, kind_of(step)));
        let others = plan.unsupported.iter();
        let others = others.map(|it| (&it.source, CsvKind::Resource(it.resource)));
        let sources = steps.chain(others);
        let sources = sources.filter_map(|(source, kind)| Some((source.as_ref()?, kind)));
        let mut files = BTreeMap::new();
        for (source, kind) in sources.filter(|(source, _)| source.line.is_some()) {
            let (path, sheet) = file_and_sheet(&source.file);
            if !files.contains_key(&source.file)
                && let Some((file, _)) = File::read(path)
            {
                let encoding = encoding.map(|it| it.name().to_owned());
                let sheet = sheet.map(str::to_owned);
                let kind = Some(kind.name().to_owned());
                let columns = columns.clone();
                let file = File { encoding, sheet, kind, columns, ..file };
                files.insert(source.file.clone(), file);
            }
        }
        let conflicts = plan.conflicts.kept.len() as u64;
        Self { files, unsupported: plan.unsupported.clone(), conflicts, ..Self::moved(plan) }
    }

    /// The input of a plan that another process made. The files that it names are not read.
    #[must_use]
    pub fn without_files(plan: &Plan) -> Self {
        let unnamed = |it: &UnsupportedChange| UnsupportedChange { source: None, ..it.clone() };
        let unsupported = plan.unsupported.iter().map(unnamed).collect();
        Self { unsupported, ..Self::moved(plan) }
    }

    fn moved(plan: &Plan) -> Self {
        let note = |it: &MigrationMatches| RecordedMigration {
            note: MigrationNote { origin: it.origin.clone(), agreed: it.agreed.clone() },
            flags: None,
        };
        Self { moved: plan.foreign.as_ref().map(note), ..Self::default() }
    }

    /// This input, with the flags of the migration.
    #[must_use]
    pub fn with_flags(mut self, flags: Option<RecordedFlags>) -> Self {
        if let Some(moved) = &mut self.moved {
            moved.flags = flags;
        }
        self
    }

    /// The number of changes in the input without a step.
    #[must_use]
    pub const fn missing(&self) -> u64 {
        self.unsupported.len() as u64 + self.manual + self.conflicts
    }

    /// The JSON text that the journal stores.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the text of the journal; empty if the text is not valid.
    #[must_use]
    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl File {
    fn read(path: &Path) -> Option<(Self, Vec<u8>)> {
        let path = path.canonicalize().ok()?;
        let bytes = input::bytes(&path).ok()?;
        let blake3 = blake3::hash(&bytes).to_hex().to_string();
        let columns = ColumnOptions::default();
        Some((Self { path, blake3, encoding: None, sheet: None, kind: None, columns }, bytes))
    }

    /// What its rows are: by the name of the file or sheet, unless they were read as another resource.
    fn kind(&self) -> Option<CsvKind> {
        let read_as = self.kind.as_deref().and_then(CsvKind::from_name);
        let file = || self.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named = kind_of_name(&self.sheet.clone().unwrap_or_else(file));
        match (named, read_as) {
            (Some(named), Some(read_as)) if named.resource() != read_as.resource() => Some(read_as),
            (named, read_as) => named.or(read_as),
        }
    }

    /// The file beside it for its rejected rows. Its name begins with the resource, unless the name of
    /// the file does.
    fn rejected(&self) -> PathBuf {
        let path = self.path.with_extension("rejected.csv");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match self.kind() {
            Some(kind) if self.sheet.is_some() || kind_of_name(&name) != Some(kind) => {
                path.with_file_name(format!("{kind}.{name}"))
            }
            _ => path,
        }
    }
}

/// What the rows of a file or a sheet with this name are, if it says so.
fn kind_of_name(name: &str) -> Option<CsvKind> {
    let by_end = || CsvKind::of_sheet_file(name).map(|(_, kind)| kind);
    CsvKind::of_title(name).ok().or_else(by_end)
}

/// What a row with this step is.
fn kind_of(step: &PlanStep) -> CsvKind {
    match (step.resource, step.verb) {
        (Resource::Campaigns, Verb::Assign) => CsvKind::CampaignLinks,
        (resource, _) => CsvKind::Resource(resource),
    }
}

/// The path and the title in the name of a table, such as `book.xlsx#channels`.
fn file_and_sheet(name: &str) -> (&Path, Option<&str>) {
    let whole = Path::new(name);
    let split = name.match_indices('#').map(|(at, _)| (Path::new(&name[..at]), &name[at + 1..]));
    match split.into_iter().find(|(path, _)| !whole.is_file() && path.is_file()) {
        Some((path, title)) => (path, Some(title)),
        None => (whole, None),
    }
}

/// The rejected rows of a file with the content `bytes`, as a CSV file.
fn rejected_of(
    file: &File,
    bytes: &[u8],
    problems: &BTreeMap<u64, String>,
) -> Result<Vec<u8>, String> {
    let gone = || "the file has no header".to_owned();
    let kind = file.kind().ok_or("its resource is not known")?;
    let read = (kind, &file.columns);
    if let Some(title) = &file.sheet {
        let mut book = Workbook::open(bytes).map_err(|error| error.to_string())?;
        let nth = book.titles().iter().position(|it| it == title).ok_or_else(gone)?;
        let sheets = book.sheets(&[nth]).map_err(|error| error.to_string())?;
        let sheet = sheets.first().ok_or_else(gone)?;
        return rejected(&RowSource::Sheet(sheet), read, problems).ok_or_else(gone);
    }
    let encoding = file.encoding.as_deref().and_then(TextEncoding::of_label);
    let source = RowSource::of_csv(bytes, encoding).map_err(|problem| problem.what)?;
    rejected(&source, read, problems).ok_or_else(gone)
}

/// The problems of rejected rows, by file and line.
pub type Rows = BTreeMap<String, BTreeMap<u64, String>>;

/// The rows of refused steps and of unsupported changes.
#[must_use]
pub fn rows(refused: &[(PlanStep, String)], unsupported: &[UnsupportedChange]) -> Rows {
    let mut all = Rows::new();
    let steps = refused.iter().map(|(step, why)| (&step.source, why));
    let others = unsupported.iter().map(|it| (&it.source, &it.reason));
    for (source, why) in steps.chain(others) {
        if let Some(SourceLocation { file, line: Some(line), .. }) = source {
            let problems = all.entry(file.clone()).or_default();
            let text = problems.entry(*line).or_default();
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(why);
        }
    }
    all
}

/// Writes the rejected rows of each file beside it, or to the file `to` if there is only one input
/// file. A failure is a warning and does not change the result of the run.
pub fn write(env: &Env, all: &Rows, origin: &RunInput, to: Option<&Path>) {
    let to = to.filter(|_| all.len() == 1);
    for (name, problems) in all {
        let count = format::counted(problems.len() as u64, "row", "rows");
        match write_one(env, name, problems, origin, to) {
            Ok(path) => {
                let path = path.display();
                let without = origin.files.get(name).filter(|it| it.columns.renames());
                let without =
                    without.map_or("", |_| " without --map, --ignore-columns and --match-on");
                env.note(format_args!(
                    "{count} rejected and written to {path}; fix and apply that file{without}"
                ));
            }
            Err(why) => env
                .warn(format_args!("{count} of {name} rejected, but not written to a file: {why}")),
        }
    }
}

fn write_one(
    env: &Env,
    name: &str,
    problems: &BTreeMap<u64, String>,
    origin: &RunInput,
    to: Option<&Path>,
) -> Result<PathBuf, String> {
    let known = origin.files.get(name);
    // Only files that the journal lists are read: a name in a plan file is not trusted.
    let known = known.ok_or("the input file is not known")?;
    let (found, bytes) = File::read(&known.path).ok_or("cannot read the file again")?;
    if found.blake3 != known.blake3 {
        return Err("the file has changed since".to_owned());
    }
    let rows = rejected_of(known, &bytes, problems)?;
    let path = to.map_or_else(|| known.rejected(), Path::to_owned);
    write_output(&path, OutputKind::Rejected, env.force, &rows).map_err(|error| error.message)?;
    let here = std::env::current_dir().ok().and_then(|here| here.canonicalize().ok());
    let short = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    Ok(short.unwrap_or(path))
}
