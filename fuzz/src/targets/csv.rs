//! CSV files: `change::csv_files`.

use std::collections::BTreeMap;

use linkvault::change::csv_files::{
    self, ColumnOptions, CsvKind, CsvRecords, ExportContext, RowSource, pairs, rejected,
};

pub const WORDS: &[&str] = &[
    "id,name\n",
    "id;name\n",
    "id\tname\n",
    "name,slug,public\n",
    "type,data\n",
    "channel,type,id\n",
    "campaign,link\n",
    "from,to\n",
    "name,description,color\n",
    "old name,name\n",
    "Name,starred\n",
    "ja",
    "#fa0",
    " a",
    "1,2E+3",
    "10.07.2025 15:05",
    "domain,redirectroot,redirect404\n",
    "type,name,tag\n",
    "\u{feff}",
    "\r\n",
    "\n",
    "\"",
    "\"\"",
    "sep=;\n",
    "#ff0000",
    "rgb(1,2,3)",
    "yes",
    "no",
    "true",
    "1",
    "-1",
    "9223372036854775808",
    ",",
    ";",
    "\t",
    "text",
    "link",
    "links",
    "foreground",
    "background",
    "problem",
    "=1+1",
    "\u{1}",
    "{\"a\":1}",
];

const NAME: &str = "file.csv";

/// The longest list of mistakes, in lines: 100 mistakes and the number of further ones.
const MAX_LINES: usize = 101;

pub fn run(input: &[u8]) {
    let (which, bytes) = super::choice(input);
    let kinds: Vec<_> = CsvKind::all().collect();
    let kind = kinds[which % kinds.len()];
    let _ = pairs(NAME, bytes);
    let sheet = match csv_files::read(kind, NAME, bytes, ExportContext::default()) {
        Ok(sheet) => sheet,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.count() > 0);
            let lines = problems.lines();
            assert!(!lines.is_empty() && lines.len() <= MAX_LINES, "{}", lines.len());
            let more = format!("and {} more", problems.more);
            let (last, first) = lines.split_last().unwrap_or((&more, &[]));
            assert!(first.iter().all(|line| line.starts_with(NAME)), "{lines:?}");
            assert!(last.starts_with(NAME) || *last == more, "{lines:?}");
            assert!((1..=MAX_LINES).contains(&problems.grouped_lines().len()), "{lines:?}");
            return;
        }
    };
    let source = RowSource::of_csv(bytes, None).unwrap_or_else(|it| panic!("{it:?}"));
    let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u64 + 1;
    let found = lines_of(&sheet.records);
    assert!(found.iter().all(|line| (1..=lines).contains(line)), "{found:?} of {lines}");
    assert!(found.is_sorted(), "{found:?}");

    // Rows that were refused can be corrected and read again: all of them are there,
    // with the same values.
    let problems: BTreeMap<_, _> =
        found.iter().map(|line| (*line, "why; \"so\"".to_owned())).collect();
    if problems.len() == found.len() {
        let read = (kind, &ColumnOptions::default());
        let again =
            rejected(&source, read, &problems).unwrap_or_else(|| panic!("the file has a header"));
        let again =
            csv_files::read(kind, NAME, &again, ExportContext::default()).unwrap_or_else(|it| {
                panic!("{:?} in {:?}", it.lines(), String::from_utf8_lossy(&again))
            });
        assert_eq!(without_lines(again.records), without_lines(sheet.records));
    }
}

fn lines_of(records: &CsvRecords) -> Vec<u64> {
    let sources: Vec<_> = match records {
        CsvRecords::Of(_, rows) => rows.iter().map(|row| row.source.as_ref()).collect(),
        CsvRecords::Links(rows) => rows.iter().map(|row| row.source.as_ref()).collect(),
    };
    sources.into_iter().filter_map(|source| source?.line).collect()
}

fn without_lines(mut records: CsvRecords) -> CsvRecords {
    match &mut records {
        CsvRecords::Of(_, rows) => rows.iter_mut().for_each(|row| row.source = None),
        CsvRecords::Links(rows) => rows.iter_mut().for_each(|row| row.source = None),
    }
    records
}
