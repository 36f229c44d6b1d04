//! Reads TOML tables key by key and collects every mistake with its place. Reading a key declares
//! it: the declared keys are the allowed keys, the suggestions for a misspelt key and the rows of
//! the reference. `keys` defines what each key means.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::document::PlaceCounter;
use crate::config::home::Home;
use crate::config::problem::ConfigProblem;
use crate::config::values::{ConfigValueError, percent};
use crate::config::vault_address::is_address;
use crate::model::CountOrPercent;
use crate::suggest::did_you_mean;

/// The declaration of a key.
pub(super) struct KeySpec {
    pub(super) name: &'static str,
    /// Type of its value, for the reference.
    pub(super) kind: &'static str,
    /// Description, for the reference.
    pub(super) about: &'static str,
    /// If it is a table: its keys, or the keys of each table in it.
    pub(super) keys: Vec<Self>,
}

/// The text and the mistakes found so far.
pub(super) struct TomlReader<'t> {
    text: &'t str,
    home: &'t Home,
    problems: RefCell<Vec<FoundMistake>>,
}

/// A mistake at a byte of the text. Line and column are counted for all together.
#[derive(PartialEq, Eq)]
struct FoundMistake {
    byte: usize,
    key: String,
    what: String,
}

impl<'t> TomlReader<'t> {
    pub(super) fn new(text: &'t str, home: &'t Home) -> Self {
        Self { text, home, problems: RefCell::default() }
    }

    /// Reads a whole document with `read`. Returns its result and the declared keys.
    pub(super) fn document<T>(
        &self,
        document: Option<&DeTable<'t>>,
        read: impl FnOnce(&TomlTable<'_, 't>) -> T,
    ) -> (T, Vec<KeySpec>) {
        TomlTable::new(self, String::new(), 0..0, document).read(read)
    }

    /// Records a mistake at `span`.
    pub(super) fn problem(&self, span: Range<usize>, key: &str, what: impl Into<String>) {
        let mistake = FoundMistake { byte: span.start, key: key.to_owned(), what: what.into() };
        self.problems.borrow_mut().push(mistake);
    }

    /// All mistakes, in the order of the text.
    pub(super) fn finish(self) -> Vec<ConfigProblem> {
        let mut mistakes = self.problems.into_inner();
        mistakes.sort_by_key(|mistake| mistake.byte);
        mistakes.dedup();
        let mut places = PlaceCounter::new(self.text);
        let problems = mistakes.into_iter().map(|FoundMistake { byte, key, what }| {
            let (line, column) = places.place(byte);
            ConfigProblem { line, column, key, what }
        });
        problems.collect()
    }
}

/// A table and its path.
pub(super) struct TomlTable<'r, 't> {
    reader: &'r TomlReader<'t>,
    path: String,
    /// Position of the table, for mistakes about missing keys.
    span: Range<usize>,
    /// `None` if the file does not have the table. Its keys are declared nevertheless.
    table: Option<&'r DeTable<'t>>,
    keys: RefCell<Vec<KeySpec>>,
}

/// One value with its position.
pub(super) struct TomlEntry<'r, 't> {
    reader: &'r TomlReader<'t>,
    pub(super) key: String,
    span: Range<usize>,
    value: &'r DeValue<'t>,
}

impl<'r, 't> TomlTable<'r, 't> {
    fn new(
        reader: &'r TomlReader<'t>,
        path: String,
        span: Range<usize>,
        table: Option<&'r DeTable<'t>>,
    ) -> Self {
        Self { reader, path, span, table, keys: RefCell::default() }
    }

    fn absent(reader: &'r TomlReader<'t>) -> Self {
        Self::new(reader, String::new(), 0..0, None)
    }

    /// Reads this table with `read`. Each key that `read` did not declare is a mistake.
    fn read<T>(self, read: impl FnOnce(&Self) -> T) -> (T, Vec<KeySpec>) {
        let value = read(&self);
        let known = self.keys.take();
        for key in self.table.into_iter().flat_map(DeTable::keys) {
            let name: &str = key.get_ref();
            if !known.iter().any(|known| known.name == name) {
                let near = did_you_mean(name, known.iter().map(|known| known.name));
                let what = format!("unknown key{near}");
                self.reader.problem(key.span(), &self.full_name(name), what);
            }
        }
        (value, known)
    }

    fn full_name(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn entry(&self, name: &str, value: &'r Spanned<DeValue<'t>>) -> TomlEntry<'r, 't> {
        let key = self.full_name(name);
        TomlEntry { reader: self.reader, key, span: value.span(), value: value.get_ref() }
    }

    fn get(&self, name: &str) -> Option<TomlEntry<'r, 't>> {
        Some(self.entry(name, self.table?.get(name)?))
    }

    fn declare(
        &self,
        name: &'static str,
        kind: &'static str,
        about: &'static str,
        keys: Vec<KeySpec>,
    ) {
        self.keys.borrow_mut().push(KeySpec { name, kind, about, keys });
    }

    /// Whether the file has this table and it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_some_and(DeTable::is_empty)
    }

    /// Records a mistake about the whole table, if the file has it.
    pub(super) fn problem(&self, what: impl Into<String>) {
        if self.table.is_some() {
            self.reader.problem(self.span.clone(), &self.path, what);
        }
    }

    /// The entry called `name`.
    pub(super) fn key(
        &self,
        name: &'static str,
        kind: &'static str,
        about: &'static str,
    ) -> Option<TomlEntry<'r, 't>> {
        self.declare(name, kind, about, Vec::new());
        self.get(name)
    }

    /// The text under `name`, checked by `check`.
    pub(super) fn text<T>(
        &self,
        name: &'static str,
        about: &'static str,
        check: impl FnOnce(&str) -> Result<T, ConfigValueError>,
    ) -> Option<T> {
        self.key(name, "string", about)?.checked(check)
    }

    /// The duration under `name`, checked by `check`.
    pub(super) fn duration(
        &self,
        name: &'static str,
        about: &'static str,
        check: impl FnOnce(&str) -> Result<Duration, ConfigValueError>,
    ) -> Option<Duration> {
        self.key(name, "duration", about)?.checked(check)
    }

    /// The count under `name`, at least `least`.
    pub(super) fn count(&self, name: &'static str, about: &'static str, least: u32) -> Option<u32> {
        self.key(name, "integer", about)?.count_up_to(least, u32::MAX)
    }

    pub(super) fn path(&self, name: &'static str, about: &'static str) -> Option<PathBuf> {
        self.key(name, "path", about)?.path()
    }

    pub(super) fn words(&self, name: &'static str, about: &'static str) -> Option<Vec<String>> {
        self.key(name, "list of strings", about)?.words()
    }

    /// Reads the table under `name` with `read`.
    pub(super) fn table<T>(
        &self,
        name: &'static str,
        about: &'static str,
        read: impl FnOnce(&Self) -> T,
    ) -> Option<T> {
        let table = self.get(name).and_then(|entry| entry.table());
        let exists = table.is_some();
        let (value, keys) = table.unwrap_or_else(|| Self::absent(self.reader)).read(read);
        self.declare(name, "table", about, keys);
        exists.then_some(value)
    }

    /// Reads each table in the table under `name` with `read`, and checks its name with `check`.
    pub(super) fn tables<T>(
        &self,
        name: &'static str,
        about: &'static str,
        check: impl Fn(&str) -> Result<String, ConfigValueError>,
        read: impl Fn(&str, &Self) -> Option<T>,
    ) -> Vec<T> {
        let (_, keys) = Self::absent(self.reader).read(|table| read("NAME", table));
        self.declare(name, "tables", about, keys);
        let Some(outer) = self.get(name).and_then(|entry| entry.table()) else {
            return Vec::new();
        };
        let mut values = Vec::new();
        for (name, value) in outer.table.into_iter().flatten() {
            let entry = outer.entry(name.get_ref(), value);
            if let Err(error) = check(name.get_ref()) {
                self.reader.problem(name.span(), &entry.key, error.to_string());
            }
            let Some(table) = entry.table() else { continue };
            values.extend(table.read(|table| read(name.get_ref(), table)).0);
        }
        values
    }
}

impl<'r, 't> TomlEntry<'r, 't> {
    pub(super) fn problem(&self, what: impl Into<String>) {
        self.reader.problem(self.span.clone(), &self.key, what);
    }

    fn wrong<T>(&self, expected: &str) -> Option<T> {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        };
        self.problem(format!("is {found}, but must be {expected}"));
        None
    }

    fn text(&self) -> Option<&'r str> {
        self.value.as_str().or_else(|| self.wrong("a string"))
    }

    /// The text, checked by `check`.
    pub(super) fn checked<T>(
        &self,
        check: impl FnOnce(&str) -> Result<T, ConfigValueError>,
    ) -> Option<T> {
        check(self.text()?).map_err(|error| self.problem(error.to_string())).ok()
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.wrong("true or false"))
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
        count.filter(|count| *count >= least && *count <= most).or_else(|| {
            self.problem(format!("must be a whole number from {least} to {most}"));
            None
        })
    }

    /// A count, or a percentage as text.
    pub(super) fn count_or_percent(&self) -> Option<CountOrPercent> {
        let Some(text) = self.value.as_str() else {
            return self.count_up_to(0, u32::MAX).map(|count| CountOrPercent::Count(count.into()));
        };
        percent(text).map(CountOrPercent::Percent).or_else(|| {
            self.problem("must be a whole number, or a percentage such as \"30%\"");
            None
        })
    }

    /// A list of strings that is not empty.
    pub(super) fn words(&self) -> Option<Vec<String>> {
        let expected = "a list of strings, such as [\"pass\", \"show\", \"links\"]";
        let Some(array) = self.value.as_array() else {
            return self.wrong(expected);
        };
        let words: Option<Vec<_>> =
            array.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect();
        words.filter(|words| words.first().is_some_and(|word| !word.is_empty())).or_else(|| {
            self.problem(format!("must be {expected}"));
            None
        })
    }

    /// Whether the value is the address of a vault in an object store.
    pub(super) fn is_address(&self) -> bool {
        self.value.as_str().is_some_and(is_address)
    }

    /// A path: `~/` is the user's home, and a relative path starts at the folder of the
    /// configuration.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let text = self.text()?;
        if text.is_empty() {
            self.problem("is empty, but must be a path");
            return None;
        }
        if let Some(rest) = text.strip_prefix("~/") {
            let Some(folders) = directories::BaseDirs::new() else {
                self.problem("begins with `~`, but this user has no home folder");
                return None;
            };
            return Some(folders.home_dir().join(rest));
        }
        Some(self.reader.home.config_folder().join(Path::new(text)))
    }

    fn table(&self) -> Option<TomlTable<'r, 't>> {
        let Some(table) = self.value.as_table() else {
            return self.wrong("a table");
        };
        Some(TomlTable::new(self.reader, self.key.clone(), self.span.clone(), Some(table)))
    }
}
