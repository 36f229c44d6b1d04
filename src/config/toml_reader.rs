//! Reads TOML tables key by key and notes every mistake with its place,
//! instead of stopping at the first. What a key means is decided in `keys`.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::ConfigProblem;
use crate::config::document::place;
use crate::config::table::KeySpec;
use crate::config::values::{ConfigValueError, percent};
use crate::model::CountOrPercent;
use crate::suggest::did_you_mean;

/// The text that is read, and the mistakes found so far.
pub(super) struct TomlReader<'t> {
    text: &'t str,
    problems: RefCell<Vec<ConfigProblem>>,
}

impl<'t> TomlReader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, problems: RefCell::default() }
    }

    /// Notes a mistake at `span`.
    pub(super) fn problem(&self, span: Range<usize>, key: &str, what: impl Into<String>) {
        let (line, column) = place(self.text, span.start);
        let problem = ConfigProblem { line, column, key: key.to_owned(), what: what.into() };
        self.problems.borrow_mut().push(problem);
    }

    /// Every mistake, in the order of the text.
    pub(super) fn finish(self) -> Vec<ConfigProblem> {
        let mut problems = self.problems.into_inner();
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.dedup();
        problems
    }
}

/// A table, and the path that leads to it.
pub(super) struct TomlTable<'r, 't> {
    pub(super) reader: &'r TomlReader<'t>,
    path: String,
    /// Where the table begins, for what is missing in it.
    span: Range<usize>,
    table: &'r DeTable<'t>,
}

/// One value and where it stands.
pub(super) struct TomlEntry<'r, 't> {
    reader: &'r TomlReader<'t>,
    pub(super) key: String,
    pub(super) span: Range<usize>,
    value: &'r DeValue<'t>,
}

impl<'r, 't> TomlTable<'r, 't> {
    /// The whole document.
    pub(super) fn root(reader: &'r TomlReader<'t>, table: &'r DeTable<'t>) -> Self {
        Self { reader, path: String::new(), span: 0..0, table }
    }

    /// Notes each key that is none of `known`.
    pub(super) fn only(self, known: &[KeySpec]) -> Self {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.iter().any(|known| known.name == name) {
                let near = did_you_mean(name, known.iter().map(|known| known.name));
                self.reader.problem(
                    key.span(),
                    &self.key(name),
                    format!("there is no such key{near}"),
                );
            }
        }
        self
    }

    /// The full name of a key in this table.
    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Every entry, by name.
    pub(super) fn entries(&self) -> Vec<(String, Range<usize>, TomlEntry<'r, 't>)> {
        let entries = self.table.iter().map(|(key, value)| {
            let name = key.get_ref().to_string();
            let entry = TomlEntry {
                reader: self.reader,
                key: self.key(&name),
                span: value.span(),
                value: value.get_ref(),
            };
            (name, key.span(), entry)
        });
        entries.collect()
    }

    /// The entry called `name`.
    pub(super) fn get(&self, name: &str) -> Option<TomlEntry<'r, 't>> {
        let value: &'r Spanned<DeValue<'t>> = self.table.get(name)?;
        let (key, span) = (self.key(name), value.span());
        Some(TomlEntry { reader: self.reader, key, span, value: value.get_ref() })
    }

    /// Notes something about the table as a whole.
    pub(super) fn problem(&self, what: impl Into<String>) {
        self.reader.problem(self.span.clone(), &self.path, what);
    }

    /// The text under `name`, checked by `check`.
    pub(super) fn checked<T>(
        &self,
        name: &str,
        check: impl FnOnce(&str) -> Result<T, ConfigValueError>,
    ) -> Option<T> {
        let entry = self.get(name)?;
        let text = entry.text()?;
        check(text).map_err(|error| entry.problem(error.to_string())).ok()
    }

    /// The count under `name`, at least `least`.
    pub(super) fn count(&self, name: &str, least: u32) -> Option<u32> {
        self.get(name)?.count(least)
    }
}

impl<'r, 't> TomlEntry<'r, 't> {
    pub(super) fn problem(&self, what: impl Into<String>) {
        self.reader.problem(self.span.clone(), &self.key, what);
    }

    fn wrong<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.problem(format!("is {found}, but must be {wanted}"));
        None
    }

    pub(super) fn text(&self) -> Option<&'r str> {
        self.value.as_str().or_else(|| self.wrong("a string"))
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.wrong("true or false"))
    }

    fn count(&self, least: u32) -> Option<u32> {
        self.count_up_to(least, u32::MAX)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn count_up_to<N>(&self, least: N, most: N) -> Option<N>
    where
        N: TryFrom<i128> + PartialOrd + std::fmt::Display,
    {
        let Some(integer) = self.value.as_integer() else {
            return self.wrong("an integer");
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let count = number.and_then(|number| N::try_from(number).ok());
        count.filter(|count| *count >= least).or_else(|| {
            self.problem(format!("must be a whole number from {least} to {most}"));
            None
        })
    }

    /// A count, or a percentage as text.
    pub(super) fn amount(&self) -> Option<CountOrPercent> {
        let Some(text) = self.value.as_str() else {
            return self.count(0).map(|count| CountOrPercent::Count(count.into()));
        };
        percent(text).map(CountOrPercent::Percent).or_else(|| {
            self.problem("must be a whole number, or a percentage such as \"30%\"");
            None
        })
    }

    /// A list of strings that is not empty.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let wanted = "a list of strings, such as [\"pass\", \"show\", \"links\"]";
        let Some(array) = self.value.as_array() else {
            return self.wrong(wanted);
        };
        let words: Option<Vec<_>> =
            array.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
        words.filter(|words| words.first().is_some_and(|word| !word.is_empty())).or_else(|| {
            self.problem(format!("must be {wanted}"));
            None
        })
    }

    /// The table that this value is.
    pub(super) fn section(&self) -> Option<TomlTable<'r, 't>> {
        let Some(table) = self.value.as_table() else {
            return self.wrong("a table");
        };
        let (path, span) = (self.key.clone(), self.span.clone());
        Some(TomlTable { reader: self.reader, path, span, table })
    }
}
