//! Tests of reading and writing CSV files.

use calamine::Reader as _;
use proptest::prelude::*;

use crate::change::csv_files::write::{CsvDialect, CsvWriter};
use crate::change::csv_files::*;
use crate::change::desired::{DesiredRecord, DesiredState, RecordRef};
use crate::change::workbook::Workbook;
use crate::change::workbook::write::{SheetWriter, WorkbookWriter};
use crate::model::SentFields;
use crate::model::{DecodedRecord, FieldValue, Record, RecordKey, State};

fn parse(resource: Resource, text: &str) -> Result<CsvInput, CsvProblems> {
    read(CsvKind::Resource(resource), "x.csv", text.as_bytes(), ExportContext::default())
}

fn rows(resource: Resource, text: &str) -> Vec<DesiredRecord> {
    match parse(resource, text) {
        Ok(CsvInput { records: CsvRecords::Of(_, rows), .. }) => rows,
        other => panic!("{other:?}"),
    }
}

fn wrong(resource: Resource, text: &str) -> Vec<String> {
    parse(resource, text).unwrap_err().lines()
}

#[test]
fn templates_have_the_columns_for_an_import() {
    let headers: Vec<_> = CsvKind::all()
        .map(|sheet| format!("{}: {}", sheet.name(), sheet.template().join(",")))
        .collect();
    let expected = [
        "account: id,email",
        "domains: id,domain,redirectroot,redirect404",
        "campaigns: id,name,public,slug",
        "channels: id,name,description,color,starred",
        "channel_items: channel,type,id",
        "qr_codes: id,type,data,background,foreground,logo",
        "pixels: id,type,name,tag",
        "overlays: id,name",
        "splash_pages: id,name",
        "campaign_links: campaign,link",
    ];
    assert_eq!(headers, expected);
    for sheet in CsvKind::all() {
        assert_eq!(CsvKind::from_name(sheet.name()), Some(sheet));
        assert!(sheet.template().iter().all(|name| sheet.columns().any(|it| it == *name)));
    }
}

#[test]
fn all_mistakes_are_reported() {
    let text = "id,name,public,color\n";
    assert_eq!(
        wrong(Resource::Channels, text),
        ["x.csv:1: public: unknown column; the columns are id, name, description, color, starred"]
    );
    let text = "id,nmae,name,name,Password\n";
    assert_eq!(
        wrong(Resource::Channels, text),
        [
            "x.csv:1: nmae: unknown column; did you mean `name`?",
            "x.csv:1: name: duplicate column",
            "x.csv:1: Password: passwords are not allowed in files; remove the column",
        ]
    );
    let text = "id,name,starred,color\n1,a,maybe,red\n\n1.5,b,,\n,,yes,#000000\n4,c\n5,,true,\n";
    assert_eq!(
        wrong(Resource::Channels, text),
        [
            "x.csv:2: starred: `maybe` is not a boolean; write true or false",
            "x.csv:2: color: `red` is not a colour; write #RRGGBB",
            "x.csv:4: id: `1.5` is not a whole number",
            "x.csv:5: name: is missing; a channel without an id needs it",
            "x.csv:6: 2 cells, but the header has 4",
            "x.csv:7: name: must not be empty",
        ]
    );
}

#[test]
fn a_mistake_hides_no_other_mistake() {
    let text = "name,color,starred,bogus\nA,red,maybe,1\n,#12345G,true,2\n\
                B,#ff,yes,3\nB,#ffffff,yes,3\n";
    assert_eq!(
        wrong(Resource::Channels, text),
        [
            "x.csv:1: bogus: unknown column; the columns are id, name, description, color, starred",
            "x.csv:2: color: `red` is not a colour; write #RRGGBB",
            "x.csv:2: starred: `maybe` is not a boolean; write true or false",
            "x.csv:3: color: `#12345G` is not a colour; write #RRGGBB",
            "x.csv:3: name: is missing; a channel without an id needs it",
            "x.csv:4: color: `#ff` is not a colour; write #RRGGBB",
            "x.csv:5: name: `B` is already in row 4",
        ]
    );
    // A name that cannot be read is not missing.
    let text = "id,name,color\nx,A,#ffffff\n2,A,#ffffff\n";
    assert_eq!(wrong(Resource::Channels, text).len(), 1);
}

#[test]
fn rows_for_the_same_record_are_reported() {
    let text = "id,name\n1,a\n2,a\n,A\n1,c\n";
    assert_eq!(
        wrong(Resource::Campaigns, text),
        ["x.csv:4: name: `A` is already in row 3", "x.csv:5: id: 1 is already in row 2"]
    );
    let text = "domain\nhttps://Go.x.example/\nhttp://go.x.example\n";
    let same = "x.csv:3: domain: `http://go.x.example` is already in row 2";
    assert_eq!(wrong(Resource::Domains, text), [same]);
    let text = "type,name,tag\nbing,one,A\nbing,two,a\n";
    assert!(parse(Resource::Pixels, text).is_ok(), "another tag is another pixel");
    let text = "channel,type,id\n1,links,5\n1,qr,5\nNews,links,5\nnews,links,5\n";
    assert_eq!(wrong(Resource::ChannelItems, text), ["x.csv:5: id: 5 is already in row 4"]);
    let text = "campaign,link\n1,5\nSale,5\n1,5\n";
    let links = read(CsvKind::CampaignLinks, "x.csv", text.as_bytes(), ExportContext::default());
    assert_eq!(links.unwrap_err().lines(), ["x.csv:4: link 5 is already in row 2"]);
    let text = "email\na@example.com\nb@example.com\n";
    assert_eq!(wrong(Resource::Account, text), ["x.csv:3: this file must have only one row"]);
}

#[test]
fn at_most_a_hundred_mistakes_are_listed() {
    let text = format!("id,name\n{}", "x,a\n".repeat(150));
    let lines = wrong(Resource::Campaigns, &text);
    assert_eq!((lines.len(), lines[100].as_str()), (101, "and 50 more"));
}

#[test]
fn an_unknown_type_of_a_new_pixel_is_suspicious() {
    let text = "type,name,tag\ntikotk,a,b\nother,b,c\nbing,c,\"1,2E+14\"\n";
    let read = parse(Resource::Pixels, text).unwrap();
    let told = "x.csv:2: type: `tikotk` is not a known pixel type; did you mean `tiktok`? known: ";
    assert!(read.suspicious.lines()[0].starts_with(told), "{:?}", read.suspicious);
    let lines = read.suspicious.grouped_lines();
    let told = "x.csv: type: 2 cells are not a known pixel type; known: gtmpixel, ";
    assert!(lines[0].starts_with(told) && lines[0].ends_with("(rows 2, 3)"), "{lines:?}");
    assert_eq!(lines[1], "x.csv:4: tag: `1,2E+14` is a number that a spreadsheet has rounded");
}

#[test]
fn values_of_the_export_are_not_suspicious() {
    let raw = r#"{"id":1,"name":"Pinterest ","public":true}"#;
    let record = DecodedRecord::read(Resource::Campaigns, None, raw).unwrap().record.into_owned();
    let mut state = State::default();
    state.resource_mut(Resource::Campaigns).insert(record.key.clone(), record);
    let known = ExportContext { base: Some(&state), ..ExportContext::default() };
    let suspicious = |text: &str| {
        let kind = CsvKind::Resource(Resource::Campaigns);
        read(kind, "x.csv", text.as_bytes(), known).unwrap().suspicious.lines()
    };
    assert_eq!(suspicious("id,name\n1,Pinterest \n"), [""; 0]);
    let told = "x.csv:2: name: `Pinterest  ` ends with a space";
    assert_eq!(suspicious("id,name\n1,Pinterest  \n"), [told]);
}

#[test]
fn the_address_of_a_code_is_checked_by_its_exported_type() {
    let record =
        DecodedRecord::read(Resource::QrCodes, None, r#"{"id":1}"#).unwrap().record.into_owned();
    let sent: SentFields = [("type".to_owned(), "link".into())].into();
    let sent = [((Resource::QrCodes, RecordKey::Id(1)), sent)].into();
    let mut state = State::default().with_sent(Some(sent));
    state.resource_mut(Resource::QrCodes).insert(record.key.clone(), record);
    let known = ExportContext { base: Some(&state), ..ExportContext::default() };
    let read =
        read(CsvKind::Resource(Resource::QrCodes), "x.csv", b"id,data\n1,x.example\n", known);
    assert_eq!(read.unwrap().suspicious.count(), 1);
}

#[test]
fn other_forms_of_values_and_names_are_remarked_once_for_each_column() {
    let text = "Name,color,starred\nA,\"rgb(1,2,3)\",ja\nB,#fff,nein\nC,#000000,yes\nD,,\n";
    let read = parse(Resource::Channels, text).unwrap();
    assert_eq!(
        read.notes,
        [
            "x.csv: color: 2 cells have another form, such as `rgb(1,2,3)`, read as `#010203`",
            "x.csv: starred: 2 cells have another form, such as `ja`, read as `true`",
        ]
    );
    let read = parse(Resource::QrCodes, "type,data\nLink,https://a.example\n").unwrap();
    assert_eq!(read.notes, ["x.csv: type: `Link` is read as `link`"]);
    let text = "type,data\nText,[a\n";
    let row = &rows(Resource::QrCodes, text)[0];
    assert_eq!(row.value(Resource::QrCodes, "data"), Some(&FieldValue::Text("[a".into())));
}

#[test]
fn a_new_domain_needs_a_scheme() {
    let text = "domain\ngo.example.com\nhttps://a.example.com\nHTTP://b.example.com\n";
    let told = "x.csv:2: domain: `go.example.com` has no http:// or https:// in front";
    assert_eq!(wrong(Resource::Domains, text), [told]);
    assert!(parse(Resource::Domains, "id,domain\n1,go.example.com\n").is_ok());
}

#[test]
fn an_old_name_finds_the_record() {
    let text = "old name,name,color\nA,B,#ffffff\n,C,\nD,,\n";
    let old_names = |text: &str| -> Vec<_> {
        rows(Resource::Channels, text).into_iter().map(|row| row.old_name).collect()
    };
    assert_eq!(
        wrong(Resource::Channels, text),
        ["x.csv:4: name: must not be empty"],
        "a row with an old name changes a record"
    );
    let text = "old name,name\nA,B\n,C\nB,A\n";
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(old_names(text), [name("A"), None, name("B")]);
    assert_eq!(old_names("old_name,color\nA,#ffffff\n"), [name("A")], "without a new name");
    assert_eq!(
        old_names("id,old name\n1,A\n"),
        [Some("A".to_owned())],
        "it is compared with the record of the id"
    );
    let text = "old name,name\nNews,A\nnews,B\n";
    let told = "x.csv:3: old name: `news` is already in row 2";
    assert_eq!(wrong(Resource::Channels, text), [told]);
}

#[test]
fn rows_after_line_breaks_are_told_by_row_and_line() {
    let text = "name,description,color\nA,\"a\nb\nc\",red\nB,,blue\nB,,\n";
    let problems = parse(Resource::Channels, text).unwrap_err();
    assert_eq!(
        problems.lines(),
        [
            "x.csv: row 2 (line 4): color: `red` is not a colour; write #RRGGBB",
            "x.csv: row 3 (line 5): color: `blue` is not a colour; write #RRGGBB",
            "x.csv: row 4 (line 6): name: `B` is already in row 3 (line 5)",
        ]
    );
    assert_eq!(
        problems.grouped_lines(),
        [
            "x.csv: color: 2 cells are not a colour; write #RRGGBB (rows 2 (line 4), 3 (line 5))",
            "x.csv: row 4 (line 6): name: `B` is already in row 3 (line 5)",
        ]
    );
    let source = rows(Resource::Channels, "name,description\nA,\"a\nb\"\nB,\n")[1].source.clone();
    assert_eq!(source.unwrap().to_string(), "x.csv: row 3 (line 4)");
}

#[test]
fn empty_cells_mean_empty_except_for_write_only_fields() {
    let row = &rows(Resource::Channels, "id,name,description\n1,a,\n")[0];
    assert_eq!(row.value(Resource::Channels, "description"), Some(&FieldValue::Null));
    assert_eq!(row.value(Resource::Channels, "color"), None);
    let row = &rows(Resource::QrCodes, "id,data,logo\n1,,https://x/l.png\n")[0];
    assert_eq!(row.value(Resource::QrCodes, "data"), None);
    assert!(row.value(Resource::QrCodes, "logo").is_some());
}

#[test]
fn a_row_has_id_channel_and_line() {
    let text = "\u{feff}channel;type;id;problem\r\nShop window;links;33;odd\r\n7;qr;1;\r\n";
    let rows = rows(Resource::ChannelItems, text);
    assert_eq!(rows[0].channel, Some(RecordRef::Name("Shop window".to_owned())));
    assert_eq!((rows[1].channel.clone(), rows[1].id), (Some(RecordRef::Id(7)), Some(1)));
    assert_eq!(rows[1].source.as_ref().unwrap().to_string(), "x.csv:3");
}

#[test]
fn a_file_that_is_not_text_is_one_mistake() {
    for (bytes, told) in [
        (&b"\n\n"[..], "x.csv: the file is empty; its first line must be id,name,public,slug"),
        (
            b"id,name\n1,\0\n2,\0\n",
            "x.csv:2: the line has a NUL character, so the file is not text",
        ),
        (
            b"name\nB\xC3\xA4r\nB\xE4r\nB\xE4r\n",
            "x.csv:3: the line is not UTF-8, but another line is, so the encoding is ambiguous",
        ),
    ] {
        let read =
            read(CsvKind::Resource(Resource::Campaigns), "x.csv", bytes, ExportContext::default());
        assert_eq!(read.unwrap_err().lines(), [told]);
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        r#"[=+@\-;,"'\n\r\t é寿\u{feff}\u{0}\[\{]{0,6}"#,
        any::<String>(),
        Just("null".to_owned()),
        Just("[1,2]".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => text().prop_map(|it| serde_json::Value::from(it).to_string()),
        1 => any::<i64>().prop_map(|it| it.to_string()),
        1 => prop::sample::select(&["null", "true", "false", "[1,\"a\"]", "{\"a\":1}", "1.5"][..])
            .prop_map(str::to_owned),
    ]
}

/// A record of any resource with unusual values.
fn record(resource: Resource) -> impl Strategy<Value = Record<'static>> {
    let fields: Vec<_> =
        resource.spec().read_fields().filter(|it| !matches!(it.name, "id" | "channel")).collect();
    let values = prop::collection::vec(value(), fields.len());
    (any::<i64>(), 0..3_i64, 0..3_usize, values).prop_map(move |(id, channel, kind, values)| {
        let mut raw = format!("{{\"id\":{id}");
        for (field, value) in fields.iter().zip(values) {
            let item = resource == Resource::ChannelItems && field.name == "type";
            let kind = format!("\"{}\"", ["links", "bio", "qr"][kind]);
            raw += &format!(",\"{}\":{}", field.name, if item { kind } else { value });
        }
        raw += "}";
        DecodedRecord::read(resource, Some(channel), &raw).unwrap().record.into_owned()
    })
}

fn state() -> impl Strategy<Value = State> {
    let each: Vec<_> = Resource::ALL
        .into_iter()
        .map(|it| {
            let most = if it == Resource::Account { 1 } else { 4 };
            prop::collection::vec(record(it), 0..=most)
        })
        .collect();
    each.prop_map(|lists| {
        let mut state = State::default();
        for (resource, records) in Resource::ALL.into_iter().zip(lists) {
            let all = state.resource_mut(resource);
            all.extend(records.into_iter().map(|it| (it.key.clone(), it)));
        }
        state
    })
}

fn written(resource: Resource, records: &State, sent: Option<&SentFields>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = CsvWriter::begin(resource, &mut out, CsvDialect::Plain).unwrap();
    for record in records.get(resource).unwrap().values() {
        writer.record(record, sent).unwrap();
    }
    writer.finish().unwrap();
    out
}

fn without_source(rows: Vec<DesiredRecord>) -> Vec<DesiredRecord> {
    rows.into_iter().map(|row| DesiredRecord { source: None, ..row }).collect()
}

proptest! {
    /// An export that was not edited gives the same state.
    #[test]
    fn an_export_reads_back(state in state()) {
        let desired = DesiredState::of_state(&state, "x");
        for resource in Resource::ALL {
            let bytes = written(resource, &state, None);
            let kind = CsvKind::Resource(resource);
            let known = ExportContext { base: Some(&state), ..ExportContext::default() };
            let read = read(kind, "x.csv", &bytes, known).map_err(|it| it.lines()).unwrap();
            let CsvRecords::Of(_, rows) = read.records else { panic!("links") };
            let expected = without_source(desired.resources[&resource].records.clone());
            prop_assert_eq!(without_source(rows), expected);
        }
    }

    /// So does a workbook, and other programs find the same cells in it.
    #[test]
    fn an_exported_workbook_reads_back(state in state()) {
        let desired = DesiredState::of_state(&state, "x");
        let mut book = WorkbookWriter::begin().unwrap();
        for resource in Resource::ALL {
            let mut sheet = SheetWriter::begin(CsvKind::Resource(resource)).unwrap();
            for record in state.get(resource).unwrap().values() {
                sheet.record(record, None).unwrap();
            }
            book.add(sheet).unwrap();
        }
        let mut bytes = Vec::new();
        book.finish("{}", &mut bytes).unwrap();
        let mut other = calamine::Xlsx::new(std::io::Cursor::new(&bytes)).unwrap();
        let mut book = Workbook::open(&bytes).unwrap();
        let all: Vec<_> = (0..book.titles().len()).collect();
        for (resource, sheet) in Resource::ALL.into_iter().zip(book.sheets(&all).unwrap()) {
            let kind = CsvKind::Resource(resource);
            let known = ExportContext { base: Some(&state), untouched: false, columns: None };
            let read = read_rows(kind, "x.xlsx", &RowSource::Sheet(&sheet), known);
            let CsvRecords::Of(_, rows) = read.map_err(|it| it.lines()).unwrap().records else { panic!("links") };
            let expected = without_source(desired.resources[&resource].records.clone());
            prop_assert_eq!(without_source(rows), expected);
            let mut cells = other.worksheet_cells_reader(kind.name()).unwrap();
            let mut ours = sheet.rows().flat_map(|row| row.cells().map(move |cell| (row.number, cell)));
            while let Some(cell) = cells.next_cell().unwrap() {
                let text = calamine::Data::from(cell.get_value().clone()).to_string();
                if !text.is_empty() {
                    let (row, (column, _, found)) = ours.next().unwrap();
                    prop_assert_eq!((cell.get_position().0 + 1, cell.get_position().1 as usize), (row, column));
                    prop_assert_eq!(text.as_str(), found);
                }
            }
            prop_assert_eq!(ours.next(), None);
        }
    }

    /// Without the exported state, an untouched file still gives the same cells.
    #[test]
    fn an_untouched_file_is_read_without_its_state(state in state()) {
        let desired = DesiredState::of_state(&state, "x");
        for resource in Resource::ALL {
            let bytes = written(resource, &state, None);
            let known = ExportContext { untouched: true, ..ExportContext::default() };
            let kind = CsvKind::Resource(resource);
            let read = read(kind, "x.csv", &bytes, known).map_err(|it| it.lines()).unwrap();
            let CsvRecords::Of(_, rows) = read.records else { panic!("links") };
            let cells = |rows: &[DesiredRecord]| -> Vec<_> {
                rows.iter().map(|row| row.fields.values().map(|it| it.cell().into_owned()).collect::<Vec<_>>()).collect()
            };
            prop_assert_eq!(cells(&rows), cells(&desired.resources[&resource].records));
        }
    }

    /// The sent values of a code read back from the file.
    #[test]
    fn sent_values_read_back(
        data in text(), kind in prop::sample::select(crate::model::resource::QR_TYPES),
        list in prop::collection::vec(text(), 0..3), is_list in any::<bool>(),
    ) {
        let json = !matches!(kind, "text" | "link");
        // For these types a text that looks like JSON is ambiguous.
        let looks = !is_list && data.trim_start().starts_with(['[', '{']);
        prop_assume!(if json { !looks } else { !is_list });
        let data = if is_list { serde_json::Value::from(list) } else { data.into() };
        let sent: SentFields =
            [("type".to_owned(), kind.into()), ("data".to_owned(), data.clone())].into();
        let mut state = State::default();
        let record = DecodedRecord::read(Resource::QrCodes, None, r#"{"id":1}"#).unwrap().record.into_owned();
        state.resource_mut(Resource::QrCodes).insert(RecordKey::Id(1), record);
        let bytes = written(Resource::QrCodes, &state, Some(&sent));
        let kind = CsvKind::Resource(Resource::QrCodes);
        let known = ExportContext { base: Some(&state), ..ExportContext::default() };
        let read = read(kind, "x.csv", &bytes, known).map_err(|it| it.lines()).unwrap();
        let CsvRecords::Of(_, rows) = read.records else { panic!("links") };
        let expected = Some(data).filter(|it| *it != "");
        prop_assert_eq!(rows[0].value(Resource::QrCodes, "data").map(FieldValue::json), expected);
    }

    /// No bytes make the reader panic.
    #[test]
    fn any_file_is_read_or_refused(
        nth in 0..10_usize, parts in prop::collection::vec(prop_oneof![
            prop::sample::select(&["id", "name", "type", "channel", "data", "problem", ",", ",", ";", "\n",
                "\n", "\"", "1", "true", "\r", "#ffffff", "[", "link", "campaign", "old name", "Name", "1,2E+3",
                "ja", " a"][..]).prop_map(|it| it.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ], 0..40),
    ) {
        let kind = CsvKind::all().nth(nth).unwrap();
        let bytes = parts.concat();
        match read(kind, "x.csv", &bytes, ExportContext::default()) {
            Ok(_) => {}
            Err(problems) => {
                prop_assert!(problems.count() > 0);
                prop_assert!(!problems.grouped_lines().is_empty());
            }
        }
        if let Ok(source) = RowSource::of_csv(&bytes, None) {
            let _ = ColumnOptions::default().check(&[(kind, header_names(kind, &source))], false);
            let _ = rejected(&source, (kind, &ColumnOptions::default()), &[(2, "x".to_owned())].into());
        }
    }
}
