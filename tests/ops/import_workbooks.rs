//! `import` and `export` of workbooks, with files that LibreOffice wrote.

use std::io::{Cursor, Write as _};
use std::path::Path;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::named_exports::edited_xlsx;
use crate::support::{LiveService, TestEnvironment};

fn fixture(environment: &TestEnvironment, name: &str, to: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::create_dir_all(environment.path(to).parent().unwrap()).unwrap();
    std::fs::copy(from, environment.path(to)).unwrap();
}

/// The channels that the fixtures describe: name, description, colour and star.
fn assert_channels(service: &LiveService) {
    let service = service.sandbox();
    let channels: Vec<_> = service.store().channels.iter().map(|(_, it)| it.clone()).collect();
    let found = |name: &str| {
        let channel = channels.iter().find(|it| it.name == name).unwrap();
        (channel.description.clone(), channel.color.clone(), channel.starred)
    };
    let first = found("Größe € 2026");
    assert_eq!(first, ("first line\nsecond line".into(), "#1F6F54".into(), true));
    let second = found("2027");
    assert_eq!(second, ("Größe € 2026!".into(), "#AABBCC".into(), false));
}

#[test]
fn the_sheets_of_a_workbook_are_one_plan() {
    for file in ["spring.xlsx", "spring.ods"] {
        let (environment, service) = TestEnvironment::with_service("");
        fixture(&environment, file, file);
        let ran = environment.import(file, &[]).succeeds();
        ran.stderr_has(&format!("{file}: ignored sheet `Notes`\n"))
            .stdout_has("run 1 of main: 3 done, 3 verified");
        assert_channels(&service);
        environment.import(file, &[]).succeeds().stdout_is("Nothing to do.\n");
        // The content of a file counts, not its name.
        fixture(&environment, file, "spring/book.csv.xlsx");
        environment.import("spring", &[]).succeeds().stdout_is("Nothing to do.\n");
        environment.import(file, &["--only", "channels"]).succeeds();
    }
}

#[test]
fn csv_files_of_a_spreadsheet_are_read_in_each_encoding() {
    for name in ["channels.utf-8", "channels.utf-16", "channels.windows-1252"] {
        let (environment, service) = TestEnvironment::with_service("");
        fixture(&environment, name, "channels.csv");
        let ran = environment.import("channels.csv", &[]).succeeds();
        ran.stdout_has("run 1 of main: 2 done, 2 verified");
        assert_channels(&service);
    }
}

#[test]
fn mistakes_in_a_workbook_have_the_place_that_the_spreadsheet_shows() {
    for file in ["mistakes.xlsx", "mistakes.ods"] {
        let (environment, service) = TestEnvironment::with_service("");
        fixture(&environment, file, file);
        environment.import(file, &[]).exits_with(1).stderr_is(&format!(
            "error: {file} has a mistake\n  {file}#Channels:6: color: the formula of this cell has an \
             error as its result: `#N/A`\nhint: fix the file and run the command again; nothing was written\n"
        ));
        let ran = environment.import(file, &["--resource", "pixels"]).exits_with(64);
        ran.stderr_has(&format!("error: cannot read {file}: no sheet in it is named `pixels`\n"));
        assert_eq!(service.request_count(), 0);
    }
}

#[test]
fn a_workbook_that_cannot_be_read_says_what_to_do() {
    let (environment, service) = TestEnvironment::with_service("");
    let hint =
        "hint: save it as .xlsx or .ods without a password, or as CSV; nothing was written\n";
    let encrypted: Vec<_> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let ole = b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1".to_vec();
    for (bytes, why) in [
        ([&ole[..], &encrypted].concat(), "it has a password"),
        (ole, "it is a workbook of the old format .xls"),
        (b"PK\x03\x04 not a zip archive".to_vec(), "it is damaged: "),
    ] {
        for name in ["channels.xlsx", "channels.csv"] {
            std::fs::write(environment.path(name), &bytes).unwrap();
            let ran = environment.import(name, &[]).exits_with(1);
            ran.stderr_has(&format!("error: cannot read {name}: {why}")).stderr_has(hint);
        }
    }
    for file in ["password.xlsx", "password.ods"] {
        fixture(&environment, file, file);
        let ran = environment.import(file, &[]).exits_with(1);
        ran.stderr_is(&format!("error: cannot read {file}: it has a password\n{hint}"));
    }
    assert_eq!(service.request_count(), 0);
}

/// A workbook whose sheet `channels` has the XML `begin`, then `mebibytes` of blanks.
fn workbook(begin: &str, mebibytes: usize) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let book = r#"<workbook><sheets><sheet name="channels" r:id="r1"/></sheets></workbook>"#;
    let relation = r#"<Relationships><Relationship Id="r1" Type="/worksheet" Target="sheet.xml"/></Relationships>"#;
    for (name, text) in [
        ("[Content_Types].xml", "<Types/>"),
        ("xl/workbook.xml", book),
        ("xl/_rels/workbook.xml.rels", relation),
        ("xl/sheet.xml", begin),
    ] {
        let options = SimpleFileOptions::default().compression_level(Some(1));
        writer.start_file(name, options).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    let blanks = vec![b' '; 1 << 20];
    (0..mebibytes).for_each(|_| writer.write_all(&blanks).unwrap());
    writer.finish().unwrap().into_inner()
}

#[test]
fn hostile_workbooks_are_one_error_and_nothing_is_sent() {
    let (environment, service) = TestEnvironment::with_service("");
    let import_one = |bytes: &[u8]| {
        std::fs::write(environment.path("a.xlsx"), bytes).unwrap();
        environment.import("a.xlsx", &[])
    };
    import_one(&workbook("<worksheet><sheetData>", 257)).exits_with(1).stderr_is(
        "error: cannot read a.xlsx: it has more than 256 MiB when it is unpacked\n\
         hint: split it into several files\n",
    );
    let far = r#"<sheetData><row r="1048576"><c r="A1048576" t="str"><v>name</v></c><c r="XFD1048576"><v>1</v></c></row></sheetData>"#;
    import_one(&workbook(far, 0))
        .exits_with(1)
        .stderr_has("a.xlsx#channels:1048576: header: too many columns: 16384\n");
    let wide = r#"<sheetData><row><c t="str"><v>name</v></c></row><row r="9"><c t="str"><v>A</v></c><c r="XFD9"><v>1</v></c></row></sheetData>"#;
    import_one(&workbook(wide, 0))
        .exits_with(1)
        .stderr_has("a.xlsx#channels:9: 16384 cells, but the header has 1\n");
    let broken = r#"<sheetData><row><c t="str"><v>&bomb;</v></c></row></sheetData>"#;
    import_one(&workbook(broken, 0))
        .exits_with(1)
        .stderr_has("error: cannot read a.xlsx: it is damaged: unknown entity &bomb;\n");
    assert_eq!(service.request_count(), 0);
}

#[test]
fn cells_that_do_not_show_their_value_are_mistakes_or_suspicious() {
    let (environment, service) = TestEnvironment::with_service("");
    let import_one = |cells: [&str; 2]| {
        let [one, other] = cells;
        let sheet = format!(
            r#"<worksheet><sheetData><row><c t="str"><v>name</v></c><c t="str"><v>description</v></c></row>
            <row><c t="str"><v>One</v></c>{one}</row><row><c t="str"><v>Two</v></c>{other}</row></sheetData></worksheet>"#
        );
        std::fs::write(environment.path("a.xlsx"), workbook(&sheet, 0)).unwrap();
        environment.import("a.xlsx", &[])
    };
    let formula = "<c><f>A2</f></c>";
    import_one([formula; 2]).exits_with(1).stderr_has(
        "  a.xlsx#channels: description: 2 cells have a formula without a result; open the file in a \
         spreadsheet and save it (rows 2, 3)\n",
    );
    import_one([r#"<c t="e"><v>#REF!</v></c>"#; 2]).exits_with(1).stderr_has(
        "  a.xlsx#channels: description: 2 cells have a formula with an error as its result (rows 2, 3); \
         the first: the formula of this cell has an error as its result: `#REF!`\n",
    );
    import_one(["<c><v>1234567890123450</v></c>"; 2]).exits_with(1).stderr_has(
        "  a.xlsx#channels: description: 2 cells are numbers with more digits than a spreadsheet stores; \
         format them as text and type them again (rows 2, 3)\n",
    );
    let merged = r#"<c t="str"><v>both</v></c></row></sheetData><mergeCells><mergeCell ref="A1:B1"/><mergeCell ref="B2:B3"/></mergeCells><sheetData><row>"#;
    import_one(["", merged]).exits_with(1).stderr_has(
        "  a.xlsx#channels:2: cells of this row are merged, so that only the first has a value; unmerge them\n",
    );
    import_one(["", r#"<c t="inlineStr"><is><t>a_x0000_b</t></is></c>"#])
        .exits_with(1)
        .stderr_has("  a.xlsx#channels:3: the row has a NUL character\n");
    import_one(["", r#"<c t="d"><v>2026-03-05</v></c>"#]).exits_with(64).stderr_has(
        "  a.xlsx#channels:3: description: `2026-03-05 00:00:00` is a date, a time or a percentage, which \
         the sheet shows in another form\n",
    );
    assert_eq!(service.request_count(), 0);
}

#[test]
fn the_options_of_columns_may_be_for_a_sheet_that_is_not_read() {
    let (environment, _service) = TestEnvironment::with_service("");
    std::fs::create_dir(environment.path("in")).unwrap();
    environment.write("in/campaigns.csv", "Title,name\nx,A\n");
    environment.write("in/channels.csv", "name\nWindow\n");
    let plan = ["plan", "in", "--to", "main", "--ignore-columns", "Title", "--map", "Titel=name"];
    environment.run(&plan).exits_with(64).stderr_has("no column is called `Titel`");
    let only = [&plan[..], &["--only", "channels"]].concat();
    environment.run(&only).succeeds().stdout_has("1 create");
}

#[test]
fn a_title_above_the_header_is_told() {
    let (environment, service) = TestEnvironment::with_service("");
    environment.write("channels.csv", "Our channels,,\n,,\nName,color,Owner\nWindow,#aabbcc,Mia\n");
    let told = "  channels.csv: row 3 looks like the header; delete the rows above it\n";
    environment.import("channels.csv", &[]).exits_with(1).stderr_has(told);
    let ignored = ["--ignore-columns", "Owner"];
    environment.import("channels.csv", &ignored).exits_with(1).stderr_has(told);
    environment.write("channels.csv", "name\nname\ncolor\n");
    environment.import("channels.csv", &["-n"]).succeeds().stdout_has("2 creates");
    assert_eq!(service.writes().len(), 0);
}

#[test]
fn the_file_with_mistakes_is_named_among_several() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.write("campaigns.csv", "name\nA\n");
    environment.write("channels.csv", "name,color\nB,red\nC,blue\n");
    environment.write("pixels.csv", "name\nP\n");
    let import = ["import", "campaigns.csv", "channels.csv", "--to", "main", "-n"];
    environment.run(&import).exits_with(1).stderr_has("error: channels.csv has 2 mistakes\n");
    let import = ["import", "pixels.csv", "channels.csv", "--to", "main", "-n"];
    let ran = environment.run(&import).exits_with(1);
    ran.stderr_has("error: channels.csv, pixels.csv have 4 mistakes\n");
}

#[test]
fn an_export_as_a_workbook_reads_back_as_unedited() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment
        .run(&["export", "main", "--to", "sheets", "--format", "xlsx"])
        .succeeds()
        .stdout_has("sheets/export.xlsx  ");
    let files: Vec<_> = std::fs::read_dir(environment.path("sheets")).unwrap().collect();
    assert_eq!(files.len(), 2, "the workbook and the manifest");
    let plan = ["plan", "sheets", "--to", "main", "--detailed-exitcode", "--delete"];
    environment.run(&plan).succeeds();
    // A spreadsheet writes a whole new file. Then each cell is compared with the snapshot.
    let manifest = environment.text("sheets/manifest.json");
    let at = manifest.find("\"blake3\": \"").unwrap() + 11;
    environment
        .write("sheets/manifest.json", &format!("{}0{}", &manifest[..at], &manifest[at + 1..]));
    environment.run(&plan).succeeds();
    let diff = environment.run(&["diff", "sheets"]).succeeds();
    diff.stdout_is("sheets to main@#1: 0 added, 0 changed, 0 removed\n");
    environment.run(&["export", "main", "--to", "sheets", "-q"]).succeeds();
    assert!(!environment.path("sheets/export.xlsx").exists(), "replaced by CSV files");
}

#[test]
fn csv_files_for_excel_read_back_as_unedited() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    for (dialect, header) in [("excel", "\u{feff}id;name;"), ("excel-comma", "\u{feff}id,name,")] {
        environment.run(&["export", "main", "--to", "sheets", "--dialect", dialect]).succeeds();
        let text = environment.text("sheets/campaigns.csv");
        assert!(text.starts_with(header) && text.contains("\r\n"), "{text}");
        environment.run(&["plan", "sheets", "--to", "main", "--detailed-exitcode"]).succeeds();
        environment.edit("sheets/campaigns.csv", "Newsletter", "Monthly letter");
        let plan = environment.run(&["plan", "sheets", "--to", "main"]).succeeds();
        plan.stdout_has("1 step: 1 update.");
    }
    let wrong = ["export", "main", "--to", "json", "--format", "json", "--dialect", "excel"];
    environment.run(&wrong).exits_with(64).stderr_has("--dialect is only for --format csv");
}

#[test]
fn rejected_rows_of_a_sheet_are_a_csv_file_named_after_its_resource() {
    let (environment, _service) = TestEnvironment::with_service("");
    environment.run(&["backup", "-q"]).succeeds();
    environment.run(&["export", "main", "--to", "sheets", "--format", "xlsx", "-q"]).succeeds();
    let exported = std::fs::read(environment.path("sheets/export.xlsx")).unwrap();
    // The API cannot change pixels' tags.
    let edited = edited_xlsx(&exported, "GTM-EX4MPL", "GTM-OTHER1");
    std::fs::write(environment.path("old.xlsx"), edited).unwrap();
    let ran = environment.import("old.xlsx", &["--only", "pixels"]).exits_with(3);
    ran.stderr_has(
        "1 row rejected and written to pixels.old.rejected.csv; fix and apply that file\n",
    );
    let text = environment.text("pixels.old.rejected.csv");
    assert!(text.starts_with("\u{feff}id,type,name,tag,date,problem\n1,gtmpixel,"), "{text}");
    let again = environment.import("pixels.old.rejected.csv", &[]).exits_with(3);
    again.stdout_has("pixels.old.rejected.csv:2: ");
}
