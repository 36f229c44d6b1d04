//! The flags of every command that makes a plan, and their conversion to options of operations.

use std::time::Duration;

use clap::ValueEnum;

use super::{Output, values};
use crate::change::csv_files::{CsvKind, TextEncoding};
use crate::change::policy::{OnConflict, Policy};
use crate::change::record_filter::{FieldFilter, RecordFilter, RecordSelector};
use crate::config::parse_duration;
use crate::model::{CountOrPercent, Resource};
use crate::ops::input::{CsvOptions, InputOptions};

/// The maximum age of a list when a write that depends on it is sent: a flag of every command that
/// writes or estimates the cost of writes.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct MaxStalenessArgs {
    /// Before a write, read its lists again if they are older than this, such as 10m; default:
    /// `max_staleness` in the configuration, else 5m
    #[arg(
        long,
        value_name = "TIME",
        value_parser = parse_duration,
        env = "LINKVAULT_MAX_STALENESS",
        hide_env_values = true
    )]
    pub max_staleness: Option<Duration>,
}

/// How a plan is shown: flags of every command that shows one.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct PlanOutputArgs {
    /// Print only the number of steps of each resource
    #[arg(long)]
    pub summary: bool,
    /// Print a long plan at once; default: page by page on a terminal, with PAGER or less
    #[arg(long)]
    pub no_pager: bool,
}

impl PlanOutputArgs {
    /// From now on shows plans in this way.
    pub fn apply(self, out: &Output) {
        let mut plans = out.plans();
        (plans.summary, plans.no_pager) = (self.summary, self.no_pager);
    }
}

/// What a plan may do: flags of every command that makes one.
#[derive(Debug, Clone, clap::Args)]
pub struct PolicyArgs {
    /// The resource of a CSV file whose name is not that of a resource
    #[arg(long, value_name = "RESOURCE", value_parser = values::sheet())]
    pub resource: Option<CsvKind>,
    /// The encoding of CSV files, such as windows-1252; default: found from their bytes
    #[arg(long, value_name = "LABEL", value_parser = values::encoding)]
    pub encoding: Option<TextEncoding>,
    /// Process only these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub only: Vec<Resource>,
    /// Skip these resources
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = values::resource())]
    pub skip: Vec<Resource>,
    /// Which records to touch.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Delete records of the account that the input does not contain
    #[arg(long)]
    pub delete: bool,
    /// With --delete: if the input has no record of a resource, delete all records of it
    #[arg(long, requires = "delete")]
    pub allow_empty: bool,
    /// Refuse a plan that deletes more of a resource's records than this number or share, such
    /// as 50 or 30%
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_delete: CountOrPercent,
    /// Refuse a plan that updates more of a resource's records than this number or share
    #[arg(long, value_name = "BOUND", default_value = "30%")]
    pub max_update: CountOrPercent,
    /// Which value to use if a cell was edited in the file and its field changed in the account
    #[arg(long, value_name = "WHOSE", default_value = "fail")]
    pub on_conflict: ConflictChoice,
}

/// Which value is used in a conflict.
// clap would print doc comments of the variants in every command's help.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConflictChoice {
    // Neither: nothing is written.
    Fail,
    Mine,
    Theirs,
}

impl From<ConflictChoice> for OnConflict {
    fn from(whose: ConflictChoice) -> Self {
        match whose {
            ConflictChoice::Fail => Self::Fail,
            ConflictChoice::Mine => Self::Mine,
            ConflictChoice::Theirs => Self::Theirs,
        }
    }
}

impl PolicyArgs {
    /// The policy of these flags.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            delete: self.delete,
            allow_empty: self.allow_empty,
            max_delete: self.max_delete,
            max_update: self.max_update,
            on_conflict: self.on_conflict.into(),
            account: self.resource == Some(CsvKind::Resource(Resource::Account)),
        }
    }

    /// The part of the input to use as the desired state.
    #[must_use]
    pub fn input(&self) -> InputOptions {
        InputOptions {
            resource: self.resource,
            encoding: self.encoding,
            csv: CsvOptions::default(),
            only: self.only.clone(),
            skip: self.skip.clone(),
            filter: self.filter.filter(),
            delete: self.delete,
        }
    }
}

/// Which records a command touches: flags of every command that compares, changes or exports
/// records.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct FilterArgs {
    /// Of this resource, touch only records whose field matches; repeatable
    #[arg(long = "where", value_name = "RESOURCE.FIELD~PATTERN")]
    pub wheres: Vec<FieldFilter>,
    /// Touch only this record, such as campaigns/3, and what --name selects; repeatable
    #[arg(long = "id", value_name = "RESOURCE/ID", value_parser = RecordSelector::by_id)]
    pub ids: Vec<RecordSelector>,
    /// Touch only records of this name, such as `campaigns/Spring*`, and what --id selects;
    /// repeatable
    #[arg(long = "name", value_name = "RESOURCE/NAME", value_parser = RecordSelector::by_name)]
    pub names: Vec<RecordSelector>,
}

impl FilterArgs {
    /// These flags as a filter.
    #[must_use]
    pub fn filter(&self) -> RecordFilter {
        let selectors = [self.ids.as_slice(), &self.names].concat();
        RecordFilter { wheres: self.wheres.clone(), selectors }
    }
}

/// The format in which a plan is printed.
// clap would print doc comments of the variants in the help.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    // For a ticket or a page.
    Markdown,
}
