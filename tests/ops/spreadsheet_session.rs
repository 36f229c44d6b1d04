//! A whole session with files that LibreOffice wrote: 12 renames, 40 channels with their items, 150
//! QR codes and 20 pixels as one plan, in two languages and three formats.

use std::path::Path;

use linkvault::sandbox::Store;

use crate::support::{CommandOutput, TestEnvironment};

/// The columns that are only for people, in both languages.
const IGNORED: [(&str, &str); 2] = [
    ("de", "Titel (nur zur Info),Standort,Angelegt,Bemerkung,Besitzer,Budget"),
    ("en", "Title (info only),Location,Created,Remarks,Owner,Budget"),
];

/// Some of the records, as they were typed.
const TYPED: [(&str, &str); 8] = [
    ("de", "campaign Großer Bücherflohmarkt true"),
    (
        "de",
        r##"channel "Messe 2007" "\"Zitat\" und; Semikolon, Komma" #C0FFEE false ["links/107"]"##,
    ),
    ("de", r##"channel "Filiale München 🍺" "2026-03-01 00:00:00" #00AA00 false ["qr/8"]"##),
    ("de", "pixel fbpixel Pixel für Kampagne 0 123457000000000"),
    ("en", "campaign Great flea market true"),
    (
        "en",
        r##"channel "Fair 2007" "\"Quote\" and; semicolon, comma" #C0FFEE false ["links/107"]"##,
    ),
    ("en", r##"channel "Branch Düsseldorf" "Line 1\nLine 2" #FF8000 true ["links/105"]"##),
    ("en", "pixel bing Pixel of campaign 19 01234019"),
];

fn fixtures(language: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/spring-{language}"))
}

/// Copies the workbook, or the CSV files into a folder. Returns the input's name.
fn input(environment: &TestEnvironment, language: &str, format: &str) -> String {
    let name = format!("spring.{format}");
    if format != "csv" {
        let from = fixtures(language).join(format!("book.{format}"));
        std::fs::copy(from, environment.path(&name)).unwrap();
        return name;
    }
    std::fs::create_dir(environment.path("spring")).unwrap();
    for entry in std::fs::read_dir(fixtures(language)).unwrap() {
        let from = entry.unwrap().path();
        let encoding = from.extension().unwrap();
        if encoding == "windows-1252" || encoding == "utf-8" {
            let stem = from.file_stem().unwrap().to_str().unwrap();
            std::fs::copy(&from, environment.path(&format!("spring/{stem}.csv"))).unwrap();
        }
    }
    "spring".to_owned()
}

/// What the files describe of an account, as one sorted line for each record.
fn records(store: &Store) -> Vec<String> {
    let campaigns =
        store.campaigns.iter().map(|(_, it)| format!("campaign {} {}", it.name, it.public));
    let channels = store.channels.iter().map(|(_, it)| {
        let mut items: Vec<_> =
            it.items.iter().map(|item| format!("{}/{}", item.kind, item.id)).collect();
        items.sort();
        let (name, text) = (&it.name, &it.description);
        format!("channel {name:?} {text:?} {} {} {items:?}", it.color, it.starred)
    });
    let codes = store.qr_codes.iter().map(|(_, it)| format!("code {:?}", it.content));
    let pixels =
        store.pixels.iter().map(|(_, it)| format!("pixel {} {} {}", it.kind, it.name, it.tag));
    let mut lines: Vec<_> = campaigns.chain(channels).chain(codes).chain(pixels).collect();
    lines.sort();
    lines
}

/// The records as a CSV file can say them: a date as the sheet shows it, and with Windows-1252 a
/// question mark for each character that this encoding does not have.
fn as_csv(language: &str, records: &[String]) -> Vec<String> {
    let lossy = |letter: char| if letter > '\u{ff}' && letter != '–' { '?' } else { letter };
    let mut lines: Vec<String> = records.to_vec();
    for line in &mut lines {
        let date = if language == "de" { "01.03.2026" } else { "03/01/2026" };
        *line = line.replace("2026-03-01 00:00:00", date);
        if language == "de" {
            *line = line.chars().map(lossy).collect();
        }
    }
    lines.sort();
    lines
}

/// The number of rows for each resource, action and outcome.
fn outcomes(environment: &TestEnvironment) -> Vec<(String, usize)> {
    let text = environment.text("results.csv");
    let mut reader = csv::Reader::from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for row in reader.records().map(Result::unwrap) {
        *counts.entry([&row[2], &row[3], &row[5]].join(" ")).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn session(language: &str, format: &str) -> (Vec<String>, Vec<String>) {
    let (environment, service) = TestEnvironment::with_service("");
    let before = records(service.sandbox().store());
    let name = input(&environment, language, format);
    let ignored = IGNORED.iter().find(|(of, _)| *of == language).unwrap().1;
    let flags = ["--map", "Display name=name", "--ignore-columns", ignored, "--accept-suspicious"];
    let import = |more: &[&str]| -> CommandOutput {
        environment.import(&name, &[&flags[..], more].concat())
    };
    let ran = import(&["--results", "results.csv"]).succeeds();
    ran.stdout_has("\n267 steps: ").stdout_has("run 1 of main: 267 done, 267 verified");
    let counts = [
        ("campaigns update done", 7),
        ("channel_items assign done", 45),
        ("channels create done", 40),
        ("channels update done", 5),
        ("pixels create done", 20),
        ("qr_codes create done", 150),
    ];
    assert_eq!(outcomes(&environment), counts.map(|(text, count)| (text.to_owned(), count)));
    let after = records(service.sandbox().store());
    import(&[]).succeeds().stdout_is("Nothing to do.\n");
    let undo = environment.run(&["undo", "main", "1", "--yes"]).exits_with(3);
    undo.stdout_has("run 2 of main: 202 done, 202 verified");
    // What the API cannot delete: 20 pixels, and items that were added to channels of before.
    let left = records(service.sandbox().store());
    let extra: Vec<_> = left.iter().filter(|line| !before.contains(line)).collect();
    assert_eq!(extra.iter().filter(|line| line.starts_with("pixel ")).count(), 20);
    assert_eq!(extra.iter().filter(|line| line.starts_with("channel ")).count(), 5);
    assert_eq!((extra.len(), left.len()), (25, before.len() + 20));
    (before, after)
}

#[test]
fn the_same_session_has_the_same_result_in_each_format() {
    for language in ["de", "en"] {
        let run = |format| std::thread::spawn(move || session(language, format));
        let [xlsx, ods, csv] = ["xlsx", "ods", "csv"].map(run).map(|it| it.join().unwrap());
        let (before, after) = xlsx;
        assert_eq!(after, ods.1, "{language}");
        let changed = |all: &[String]| -> Vec<String> {
            all.iter().filter(|line| !before.contains(line)).cloned().collect()
        };
        assert_eq!(as_csv(language, &changed(&after)), changed(&csv.1), "{language}");
        assert_eq!(changed(&after).len(), 7 + 45 + 150 + 20);
        for typed in TYPED.iter().filter(|(of, _)| *of == language).map(|(_, typed)| typed) {
            assert!(
                after.iter().any(|line| line.starts_with(typed)),
                "{typed} is not in {after:#?}"
            );
        }
    }
}
