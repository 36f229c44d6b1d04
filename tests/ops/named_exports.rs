//! An edited export, named in each way that a user may name it: others' edits are never reverted by
//! an ordinary step.

use std::io::{Cursor, Read as _, Write as _};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::support::{LiveService, TestEnvironment};

const OURS: &str = "Edited by us";
const THEIRS: &str = "Renamed by a colleague";

/// The account after a backup, exported as `format` from `state` to the folder `Sheets`; then a
/// colleague renames campaign 2.
fn exported(state: &str, format: &str) -> (TestEnvironment, LiveService) {
    let (environment, service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    let export = ["export", state, "--to", "Sheets", "--format", format];
    environment.run(&export).succeeds();
    rename(&service, 2, THEIRS);
    (environment, service)
}

/// A change by a colleague.
fn rename(service: &LiveService, id: i64, name: &str) {
    let place = u64::try_from(id).unwrap();
    service
        .sandbox()
        .mutate(|store| store.campaigns.get_mut(place).unwrap().name = name.to_owned());
    assert!(campaigns(service).contains(&(id, name.to_owned())));
    service.new_requests();
}

/// The text of a part of a zip archive.
fn part(archive: &[u8], name: &str) -> String {
    let mut archive = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut text = String::new();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

fn zip(parts: &[(String, String)]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        writer.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The workbook with one text replaced, as a spreadsheet would save it again.
pub fn edited_xlsx(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let names: Vec<String> = (0..archive.len())
        .map(|nth| archive.by_index(nth).unwrap().name().unwrap().into_owned())
        .collect();
    let edited = names.into_iter().map(|name| {
        let text = part(bytes, &name);
        let text = if name == "xl/sharedStrings.xml" { text.replace(from, to) } else { text };
        (name, text)
    });
    zip(&edited.collect::<Vec<_>>())
}

/// The campaigns of an exported workbook, and its hidden sheet, as LibreOffice saves them as `.ods`.
fn as_ods(bytes: &[u8], campaigns: &[(i64, &str)]) -> Vec<u8> {
    let strings = part(bytes, "xl/sharedStrings.xml");
    let begin = strings.find("{\"").or_else(|| strings.find("{&quot;")).unwrap();
    let origin = &strings[begin..begin + strings[begin..].find("</t>").unwrap()];
    let cell = |text: &str| {
        format!(
            "<table:table-cell office:value-type=\"string\"><text:p>{text}</text:p></table:table-cell>"
        )
    };
    let row = |cells: &[String]| {
        let cells: String = cells.iter().map(|text| cell(text)).collect();
        format!("<table:table-row>{cells}</table:table-row>")
    };
    let rows: String =
        campaigns.iter().map(|(id, name)| row(&[id.to_string(), (*name).to_owned()])).collect();
    let header = row(&["id".to_owned(), "name".to_owned()]);
    let content = format!(
        "<office:document-content><office:body><office:spreadsheet>\
         <table:table table:name=\"linkvault\" table:display=\"false\">{}</table:table>\
         <table:table table:name=\"campaigns\">{header}{rows}</table:table>\
         </office:spreadsheet></office:body></office:document-content>",
        row(&[origin.to_owned()])
    );
    let parts = [
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet".to_owned()),
        ("content.xml", content),
    ];
    zip(&parts.map(|(name, text)| (name.to_owned(), text)))
}

#[test]
fn a_copy_without_its_base_lists_possible_reverts_apart() {
    let (environment, service) = exported("main", "csv");
    environment.edit("Sheets/campaigns.csv", "Summer Sale", OURS);
    std::fs::create_dir(environment.path("Desktop")).unwrap();
    let copy = environment.path("Desktop/campaigns.csv");
    std::fs::copy(environment.path("Sheets/campaigns.csv"), copy).unwrap();
    let told = format!(
        "May revert other people's edits, because it is not known which cells were edited:\n  \
         Desktop/campaigns.csv:3: campaigns 2: name: \"Author Evenings\" is the value of snapshot \
         #1, and the account has \"{THEIRS}\"\n\n"
    );
    let plan = ["plan", "Desktop/campaigns.csv", "--to", "main"];
    environment.run(&plan).succeeds().stdout_has(&told).stdout_has("2 steps: 2 updates.");
    let document = environment.run(&[&plan[..], &["--json"]].concat()).succeeds().json();
    let reverts = document["possible_reverts"].as_array().unwrap();
    assert_eq!(reverts.len(), 1);
    assert_eq!((&reverts[0]["key"], &reverts[0]["snapshot"]), (&"2".into(), &1.into()));
    let asked = environment.run(&["import", "Desktop/campaigns.csv", "--to", "main"]);
    asked.exits_with(64).stdout_has(&told).stderr_has(
        "Nothing protects other people's edits from this input, and 1 change may revert one. ",
    );
    assert_eq!(service.writes(), Vec::<String>::new());
}

/// The names of all campaigns with their ids.
fn campaigns(service: &LiveService) -> Vec<(i64, String)> {
    let service = service.sandbox();
    let all = service.store().campaigns.iter();
    all.map(|(id, it)| (i64::try_from(id).unwrap(), it.name.clone())).collect()
}

/// Plans and imports `input`: the edit is the only step, and the colleague's name stays.
fn only_our_edit_is_pushed(environment: &TestEnvironment, service: &LiveService, input: &str) {
    let plan = environment.run(&["plan", input, "--to", "main", "--json"]).succeeds();
    let steps = plan.json()["steps"].clone();
    assert_eq!(steps.as_array().unwrap().len(), 1, "{input}: {steps}");
    assert_eq!((&steps[0]["key"], &steps[0]["after"]["name"]), (&"4".into(), &OURS.into()));
    let rehearsed = environment.run(&["rehearse", input, "--to", "main"]);
    assert!(rehearsed.stdout().contains("1 done"), "{input}: {}", rehearsed.stdout());
    environment.import(input, &[]).succeeds().stdout_has("1 done, 1 verified");
    let names = campaigns(service);
    assert!(names.contains(&(2, THEIRS.to_owned())), "{input}: {names:?}");
    assert!(names.contains(&(4, OURS.to_owned())), "{input}: {names:?}");
}

#[test]
fn a_csv_file_named_alone_is_compared_with_the_base_of_its_folder() {
    for state in ["main", "main@live"] {
        for input in ["Sheets", "Sheets/campaigns.csv"] {
            let (environment, service) = exported(state, "csv");
            environment.edit("Sheets/campaigns.csv", "Summer Sale", OURS);
            only_our_edit_is_pushed(&environment, &service, input);
        }
    }
}

#[test]
fn a_workbook_is_compared_with_its_base_wherever_it_is_saved() {
    for state in ["main", "main@live"] {
        for input in ["Sheets", "Sheets/export.xlsx", "Desktop/copy.xlsx", "Desktop/copy.ods"] {
            let (environment, service) = exported(state, "xlsx");
            let book = environment.path("Sheets/export.xlsx");
            let bytes = std::fs::read(&book).unwrap();
            let edited = edited_xlsx(&bytes, "Summer Sale", OURS);
            std::fs::create_dir(environment.path("Desktop")).unwrap();
            match input {
                "Desktop/copy.xlsx" => std::fs::write(environment.path(input), edited).unwrap(),
                "Desktop/copy.ods" => {
                    let rows = [(1, "Spring Reading List"), (2, "Author Evenings"), (4, OURS)];
                    std::fs::write(environment.path(input), as_ods(&bytes, &rows)).unwrap();
                }
                _ => std::fs::write(book, edited).unwrap(),
            }
            only_our_edit_is_pushed(&environment, &service, input);
        }
    }
}
