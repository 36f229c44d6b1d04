//! Compares two states, or files and a state.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::account_session::SessionLimits;
use super::input::{self, CsvOptions, DesiredInput, FileOptions, filtered_scope};
use super::plan::warn_of_filters;
use super::state_ref::{LoadedState, StateRef};
use super::{Env, NextStep, OpError, OpErrorKind};
use crate::change::csv_files::{CsvKind, TextEncoding};
use crate::change::desired::{DesiredRecord, RecordRef};
use crate::change::diff::{self, ChangeKind, StateDiff};
use crate::change::overlay;
use crate::change::plan::PlanProblems;
use crate::change::record_filter::{FilteredRecord, RecordFilter};
use crate::config::AccountConfig;
use crate::model::{RecordKey, Resource, State};
use crate::vault::reference::Reference;

/// The states to compare.
pub struct DiffRequest<'a> {
    /// The older state: a reference, or a file or folder.
    pub from: &'a str,
    /// The newer state, in the same form; the newest snapshot if `None`.
    pub to: Option<&'a str>,
    /// Only these resources; all if empty.
    pub only: &'a [Resource],
    /// Not these resources.
    pub skip: &'a [Resource],
    /// Which records are compared.
    pub filter: RecordFilter,
    /// The content of a CSV file whose name does not show it.
    pub resource: Option<CsvKind>,
    /// The encoding of CSV files; the one that their bytes show if `None`.
    pub encoding: Option<TextEncoding>,
    /// How the columns of CSV files are read.
    pub csv: CsvOptions,
    /// Limits on requests, time and the wait for the lock, to read a live account.
    pub limits: SessionLimits,
}

/// The differences.
pub struct DiffReport {
    /// The name of the older state, such as `main@#12`.
    pub from: String,
    /// The name of the newer state.
    pub to: String,
    /// The differences, record by record.
    pub found: StateDiff,
    /// Rows of files that match no record of the other state.
    pub new_rows: Vec<NewRow>,
    /// Messages about resources that could not be read.
    pub not_compared: Vec<String>,
    /// Messages about resources that a snapshot shows as last known before it, and warnings about
    /// files.
    pub stale: Vec<String>,
}

/// A row of a file that matches no record of the other state.
#[derive(Clone)]
pub struct NewRow {
    /// The resource of the file.
    pub resource: Resource,
    /// The fields of the row.
    pub row: DesiredRecord,
    /// Added if the newer side is the file, removed if the older side is.
    pub kind: ChangeKind,
}

impl NewRow {
    /// The fields with a value that a list shows, by name.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let fields = self.resource.spec().fields;
        let given = self.row.fields.iter().filter_map(|(place, value)| {
            let field = fields.get(*place).filter(|field| field.is_read())?;
            Some((field.name, value.json()))
        });
        given.filter(|(_, value)| !value.is_null()).collect()
    }

    /// File and line of the row; empty if unknown.
    #[must_use]
    pub fn source(&self) -> String {
        self.row.source.as_ref().map(ToString::to_string).unwrap_or_default()
    }
}

/// Compares two states.
///
/// # Errors
/// If one of them does not exist or cannot be read.
pub fn compare(env: &Env, request: &DiffRequest<'_>) -> Result<DiffReport, OpError> {
    let which = filtered_scope(request.only, request.skip, &request.filter)?;
    let Sides { mut before, mut after } = sides(env, request, &which)?;
    let rows = [&before, &after].into_iter().flat_map(|side| {
        side.new.iter().map(|(resource, row)| {
            FilteredRecord::of_fields(*resource, row.id.map(RecordKey::Id), &row.fields)
        })
    });
    let states = [&before.state, &after.state].into_iter().flat_map(FilteredRecord::of_state);
    warn_of_filters(env, &request.filter.unmatched(rows.chain(states)));
    request.filter.retain_in_both(&mut before.state, &mut after.state);
    let found = diff::diff(&before.state, &after.state);
    let rows = |side: &Side| {
        let kind = side.kind;
        let row = move |(resource, row)| NewRow { resource, row, kind };
        let admits = |(resource, row): &(Resource, DesiredRecord)| {
            let key = row.id.map(RecordKey::Id);
            request.filter.admits(&FilteredRecord::of_fields(*resource, key, &row.fields))
        };
        side.new.clone().into_iter().filter(admits).map(row).collect::<Vec<_>>()
    };
    let new_rows = [rows(&before), rows(&after)].concat();
    Ok(DiffReport {
        found,
        new_rows,
        from: before.name,
        to: after.name,
        not_compared: [before.lacking, after.lacking].concat(),
        stale: [before.stale, after.stale].concat(),
    })
}

/// One side of a comparison.
struct Side {
    name: String,
    state: State,
    lacking: Vec<String>,
    stale: Vec<String>,
    /// Rows of a file that match no record of the other side.
    new: Vec<(Resource, DesiredRecord)>,
    /// Whether these rows count as added or as removed.
    kind: ChangeKind,
}

struct Sides {
    before: Side,
    after: Side,
}

/// A side on the command line, before its records are read.
enum Named {
    State(Box<StateRef>),
    Files(PathBuf),
}

fn sides(env: &Env, request: &DiffRequest<'_>, which: &[Resource]) -> Result<Sides, OpError> {
    let path = |text: Option<&str>| text.map_or(Ok(None), |text| input::path(env, text));
    let file = path(request.to)?;
    // An account alone means its last two snapshots; with another side, its newest one.
    let missing = Reference::Latest(usize::from(request.to.is_none()));
    let from = match path(Some(request.from))? {
        Some(path) => Named::Files(path),
        None => Named::State(Box::new(StateRef::parse(env, request.from, missing, None)?)),
    };
    let to = request.to.unwrap_or("latest");
    let to = match file {
        Some(path) => Named::Files(path),
        None => {
            let account = match &from {
                Named::State(target) => Some(target.account.clone()),
                Named::Files(_) if names_an_account(env, to)? => None,
                Named::Files(path) => Some(input::account_of(env, path)?),
            };
            let target = StateRef::parse(env, to, Reference::Latest(0), account.as_ref())?;
            Named::State(Box::new(target))
        }
    };
    if request.resource.is_some()
        && !matches!((&from, &to), (Named::Files(_), _) | (_, Named::Files(_)))
    {
        let message = "cannot read a state as one resource: no CSV file is named";
        return Err(OpError::new(OpErrorKind::Usage, message).next(NextStep::OmitResource));
    }
    if let (Named::State(_), Named::State(target)) = (&from, &to) {
        request.csv.require_none(&target.account.name, "not a CSV file")?;
    }
    let load = |target: &StateRef, which: &[Resource]| target.load(env, &request.limits, which);
    let (resource, encoding) = (request.resource, request.encoding);
    let how = FileOptions { resource, encoding, which: which.to_vec(), csv: request.csv.clone() };
    let files = |path: &Path, account: Option<&AccountConfig>| {
        input::read_files(&[path.to_owned()], &how, account)
    };
    Ok(match (from, to) {
        (Named::State(from), Named::State(to)) => Sides {
            before: Side::from_state(load(&from, which)?)?,
            after: Side::from_state(load(&to, which)?)?,
        },
        (Named::State(from), Named::Files(path)) => {
            let read = files(&path, Some(&from.account))?;
            let before = Side::from_state(load(&from, &resources_of(&read))?)?;
            let after = Side::from_files(env, read, &before.state, ChangeKind::Added)?;
            Sides { before, after }
        }
        (Named::Files(path), Named::State(to)) => {
            let read = files(&path, Some(&to.account))?;
            let after = Side::from_state(load(&to, &resources_of(&read))?)?;
            let before = Side::from_files(env, read, &after.state, ChangeKind::Removed)?;
            Sides { before, after }
        }
        (Named::Files(from), Named::Files(to)) => {
            let read = |path: &Path| files(path, input::exporting_account(env, path)?.as_ref());
            let (from, to) = (read(&from)?, read(&to)?);
            let under = from.state.clone().unwrap_or_default();
            let after = Side::from_files(env, to, &under, ChangeKind::Added)?;
            let before = Side::from_files(env, from, &after.state, ChangeKind::Removed)?;
            Sides { before, after }
        }
    })
}

/// Whether `text` begins with an account.
fn names_an_account(env: &Env, text: &str) -> Result<bool, OpError> {
    Ok(text.contains('@') || env.config()?.account(text).is_ok())
}

/// The resources that files contain, and channels if items name them.
fn resources_of(read: &DesiredInput) -> Vec<Resource> {
    let wanted = &read.desired.resources;
    let items = wanted.get(&Resource::ChannelItems).into_iter().flat_map(|it| &it.records);
    // Channels are looked up by their names.
    let named = items.into_iter().any(|row| matches!(row.channel, Some(RecordRef::Name(_))));
    let is_named = |it: &Resource| wanted.contains_key(it) || named && *it == Resource::Channels;
    Resource::ALL.into_iter().filter(is_named).collect()
}

impl Side {
    fn from_state(mut loaded: LoadedState) -> Result<Self, OpError> {
        Ok(Self {
            state: loaded.state()?,
            stale: loaded.stale(),
            name: loaded.name,
            lacking: loaded.unread,
            new: Vec::new(),
            kind: ChangeKind::Added,
        })
    }

    /// A side from files: their fields laid over the other side.
    ///
    /// # Errors
    /// If a row has an old name that is the name of no record of the other side, or of several.
    fn from_files(
        env: &Env,
        read: DesiredInput,
        other: &State,
        kind: ChangeKind,
    ) -> Result<Self, OpError> {
        read.send_notes(env);
        read.warn_of_suspicious(env);
        for (resource, fields) in input::unlisted_fields(&read.desired) {
            let fields = fields.join(", ");
            env.note(format_args!("not compared: {fields} of {resource}; no list shows them"));
        }
        let (state, new) = match read.state {
            Some(state) => (state, Vec::new()),
            None => {
                let laid = overlay::overlay(&read.desired, other, read.base.as_ref());
                if !laid.unmatched.is_empty() {
                    return Err(OpError::from(&PlanProblems::unmatched(&laid.unmatched)));
                }
                let new = laid.new.into_iter().map(|(resource, row)| (resource, row.clone()));
                (laid.state, new.collect())
            }
        };
        let (name, stale) = (read.name, read.warnings);
        Ok(Self { name, state, lacking: Vec::new(), stale, new, kind })
    }
}
