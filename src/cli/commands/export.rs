//! `linkvault export`: write a state as files.

use std::path::Path;
use std::path::PathBuf;

use clap::ValueEnum;
use serde_json::json;
use serde_json::value::RawValue;

use super::scope;
use crate::change::csv;
use crate::cli::session::cannot_write;
use crate::cli::states::{Loaded, Target};
use crate::cli::values;
use crate::cli::{App, Exit, Failure, Kind, Shown, human};
use crate::model::Resource;
use crate::model::{Key, Record};
use crate::vault::reference::Reference;

/// Write a state as CSV or JSON files
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  linkvault export main --to sheets
  linkvault export main@2026-11-01 --to old --format json
  linkvault export main --to sheets --only campaigns,channels")]
pub struct Args {
    /// The state: ACCOUNT, or ACCOUNT@REF with a snapshot, date, tag or `live`
    #[arg(value_name = "REF")]
    pub reference: String,
    /// The folder to write to
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The form of the files
    #[arg(long, default_value = "csv")]
    pub format: Format,
    /// Write only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Leave these resources out
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
}

/// The form of exported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    // One file for each resource.
    Csv,
    // One file.
    Json,
}

/// The file that says what an export is, and of which snapshot.
const MANIFEST: &str = "manifest.json";

/// The one file of a JSON export.
const JSON: &str = "export.json";

/// Writes the state, and a manifest that says which one it is.
///
/// # Errors
/// When there is no such state, or the folder holds something else.
pub fn run(args: &Args, app: &App) -> Result<Exit, Failure> {
    let target = Target::parse(app, &args.reference, Reference::Latest(0), None)?;
    check_folder(&args.to)?;
    let loaded = target.load(app, &scope(&args.only, &args.skip))?;
    for what in &loaded.lacking {
        app.out.warn(format_args!("not exported: {what}"));
    }
    let folder = |error: &std::io::Error| cannot_write(&args.to, error);
    std::fs::create_dir_all(&args.to).map_err(|error| folder(&error))?;
    let files = match args.format {
        Format::Csv => csv_files(args, &loaded)?,
        Format::Json => vec![json_file(args, &loaded)?],
    };
    let manifest = json!({
        "format": 1,
        "account": target.account.name,
        "state": loaded.name,
        "snapshot": loaded.snapshot.as_ref().map(|it| it.number),
        "digest": loaded.snapshot.as_ref().and_then(|it| it.digest.clone()),
        "files": files.iter().map(|file| json!({
            "file": file.name, "resource": file.resource, "records": file.records,
            "blake3": file.hash,
        })).collect::<Vec<_>>(),
    });
    write(&args.to.join(MANIFEST), format!("{manifest:#}\n").as_bytes())?;
    remove_others(&args.to, &files)?;
    if app.out.is_json() {
        let mut document = manifest;
        document["to"] = json!(args.to);
        app.out.json(&document)?;
    }
    for file in &files {
        let records = human::counted(file.records, "record", "records");
        app.out
            .summary(format_args!("{}  {records}", Shown(args.to.join(&file.name).display())))?;
    }
    app.out.summary(format_args!("Exported {} as {}", loaded.name, args.format.name()))?;
    Ok(if loaded.lacking.is_empty() { Exit::Done } else { Exit::Partial })
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Json => "JSON",
        }
    }
}

/// A written file.
struct Written {
    name: String,
    resource: Option<Resource>,
    records: u64,
    hash: String,
}

/// Only an empty folder, or one that holds an export, is written to.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return Ok(()) };
    if entries.next().is_none() || folder.join(MANIFEST).is_file() {
        return Ok(());
    }
    let message = format!("{} holds other files", folder.display());
    Err(Failure::new(Kind::Failed, message).hint("name a new or empty folder with --to"))
}

/// Removes what an earlier export left here and this one did not write: the
/// folder is read as one state. Its manifest is not believed, for it could name
/// any file; only names that an export gives are removed.
fn remove_others(folder: &Path, files: &[Written]) -> Result<(), Failure> {
    let names = Resource::ALL.into_iter().map(csv_name).chain([JSON.to_owned()]);
    for name in names.filter(|name| files.iter().all(|file| file.name != *name)) {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("{} cannot be removed: {error}", path.display());
                return Err(Failure::new(Kind::Failed, message));
            }
            _ => {}
        }
    }
    Ok(())
}

fn csv_name(resource: Resource) -> String {
    format!("{resource}.csv")
}

fn csv_files(args: &Args, loaded: &Loaded) -> Result<Vec<Written>, Failure> {
    let mut files = Vec::new();
    for (resource, records) in loaded.state.iter() {
        let name = csv_name(resource);
        let mut text = Vec::new();
        let path = args.to.join(&name);
        csv::write(resource, records.values(), &mut text)
            .map_err(|error| cannot_write(&path, &error))?;
        write(&path, &text)?;
        files.push(Written {
            name,
            resource: Some(resource),
            records: records.len() as u64,
            hash: blake3::hash(&text).to_hex().to_string(),
        });
    }
    Ok(files)
}

/// Everything in one document, each record exactly as the service sent it.
fn json_file(args: &Args, loaded: &Loaded) -> Result<Written, Failure> {
    let mut resources: Vec<(&str, Vec<Box<RawValue>>)> = Vec::new();
    for (resource, records) in loaded.state.iter() {
        resources.push((resource.name(), records.values().filter_map(raw).collect()));
    }
    let records = resources.iter().map(|(_, records)| records.len() as u64).sum();
    let document = Document { format: 1, state: &loaded.name, resources: Resources(resources) };
    let name = JSON.to_owned();
    let path = args.to.join(&name);
    let mut text = serde_json::to_vec(&document)
        .map_err(|error| cannot_write(&path, &std::io::Error::from(error)))?;
    text.push(b'\n');
    write(&path, &text)?;
    let hash = blake3::hash(&text).to_hex().to_string();
    Ok(Written { name, resource: None, records, hash })
}

#[derive(serde::Serialize)]
struct Document<'a> {
    format: u8,
    state: &'a str,
    resources: Resources<'a>,
}

struct Resources<'a>(Vec<(&'a str, Vec<Box<RawValue>>)>);

impl serde::Serialize for Resources<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, records)| (name, records)))
    }
}

/// A record as it came. The service does not say of an item in which channel
/// it is, so that stands in front.
fn raw(record: &Record<'static>) -> Option<Box<RawValue>> {
    let text = match &record.key {
        Key::Id(_) => record.raw.to_string(),
        Key::Item { channel, .. } => {
            let rest = record.raw.trim_start().strip_prefix('{')?;
            format!("{{\"channel\":{channel},{rest}")
        }
    };
    RawValue::from_string(text).ok()
}

/// Writes a file whole or not at all, for its user alone.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let whole = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.persist(path)?;
        Ok(())
    };
    whole().map_err(|error| cannot_write(path, &error))
}
