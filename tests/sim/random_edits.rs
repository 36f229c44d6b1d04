//! Random edits of an exported account in a spreadsheet, and the account expected after all of them
//! are applied.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use linkvault::change::csv_files::write::{CsvDialect, CsvWriter};
use linkvault::change::csv_files::{CsvKind, CsvRecords, ExportContext, read};
use linkvault::change::desired::DesiredState;
use linkvault::change::plan::AccountMemory;
use linkvault::model::SentFields;
use linkvault::model::{FieldValue, Record, RecordKey, Resource, State};
use linkvault::sandbox::Store;
use linkvault::sandbox::store::{Domain, Item, Pixel, QrCode, QrContentData, StoredChannel};
use serde_json::json;

use crate::sim::account_view::fold;

/// The files that can be edited, except for the account's own.
pub const EDITABLE: [Resource; 6] = [
    Resource::Domains,
    Resource::Campaigns,
    Resource::Channels,
    Resource::ChannelItems,
    Resource::QrCodes,
    Resource::Pixels,
];

/// A row of a file.
#[derive(Clone)]
struct Row {
    values: Vec<FieldValue<'static>>,
    sent: SentFields,
    edited: bool,
}

/// Edited files.
pub struct EditedFiles {
    /// The expected account.
    pub goal: Store,
    /// Number of requested changes that the API does not support.
    pub impossible: usize,
    rows: BTreeMap<Resource, Vec<Row>>,
    links: Vec<(String, u64)>,
    next: u64,
}

/// The kinds of edits that may be drawn.
#[derive(Debug, Clone, Copy)]
pub struct AllowedEdits {
    /// Create QR codes.
    pub codes: bool,
    /// Remove rows, so that their records are deleted.
    pub delete: bool,
    /// Request changes that the API does not support.
    pub impossible: bool,
    pub account: bool,
}

const WORDS: [&str; 8] =
    ["New", "semi; colon, \"q\"", "Größe Ж", "two\nlines", " blanks ", "=1+1", "ﬁ İ ß", "日本"];

fn text(text: impl Into<String>) -> FieldValue<'static> {
    FieldValue::Text(Cow::Owned(text.into()))
}

fn at(resource: Resource, name: &str) -> usize {
    resource.spec().field(name).unwrap().0
}

fn set_url(row: &mut Row, resource: Resource, name: &str, url: &str) {
    row.values[at(resource, name)] = text(url);
    row.edited = true;
}

impl EditedFiles {
    /// The exported files, without edits.
    pub fn unedited(store: &Store, state: &State, memory: &AccountMemory) -> Self {
        let mut rows = BTreeMap::new();
        for resource in EDITABLE.into_iter().chain([Resource::Account]) {
            let records = state.get(resource).unwrap().values();
            let row = |record: &Record<'static>| Row {
                values: record.values.clone(),
                sent: memory.sent.get(&(resource, record.key.clone())).cloned().unwrap_or_default(),
                edited: false,
            };
            rows.insert(resource, records.map(row).collect());
        }
        Self { goal: store.clone(), impossible: 0, rows, links: Vec::new(), next: 1 }
    }

    /// Draws some edits.
    pub fn draw(&mut self, rng: &mut Rng, may: AllowedEdits) {
        // Two runs of one history must not create the same names.
        self.next = rng.u64(1_000..1_000_000_000);
        if may.delete {
            self.remove(rng);
        }
        self.domains(rng, may);
        self.campaigns(rng, may);
        self.channels(rng);
        self.codes(rng, may);
        self.pixels(rng, may);
        self.items(rng, may);
        self.campaign_links(rng);
        if may.account && rng.bool() {
            let row = &mut self.rows.get_mut(&Resource::Account).unwrap()[0];
            let email = format!("new{}@example.org", self.next);
            set_url(row, Resource::Account, "email", &email);
            self.goal.account.email = email;
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn name(&mut self, rng: &mut Rng) -> String {
        format!("{} {}", rng.choice(WORDS).unwrap(), self.number())
    }

    fn of(&mut self, resource: Resource) -> &mut Vec<Row> {
        self.rows.get_mut(&resource).unwrap()
    }

    fn add(
        &mut self,
        resource: Resource,
        fields: &[(&str, FieldValue<'static>)],
        sent: SentFields,
    ) {
        let mut values = vec![FieldValue::Null; resource.spec().read_fields().count()];
        for (name, value) in fields {
            values[at(resource, name)] = value.clone();
        }
        self.of(resource).push(Row { values, sent, edited: true });
    }

    fn remove(&mut self, rng: &mut Rng) {
        for resource in
            [Resource::Domains, Resource::Campaigns, Resource::Channels, Resource::QrCodes]
        {
            // The last row stays: an empty file deletes nothing.
            while self.rows[&resource].len() > 1 && rng.u8(..4) == 0 {
                let count = self.rows[&resource].len();
                let row = self.of(resource).remove(rng.usize(..count));
                let FieldValue::Int(id) = row.values[0] else { continue };
                let gone = id.cast_unsigned();
                match resource {
                    Resource::Domains => drop(self.goal.domains.remove(gone)),
                    Resource::Campaigns => drop(self.goal.campaigns.remove(gone)),
                    Resource::Channels => drop(self.goal.channels.remove(gone)),
                    _ => drop(self.goal.remove_qr(gone)),
                }
                let of_code = |row: &Row| {
                    row.values[1].cell() == "qr" && row.values[2].cell() == id.to_string()
                };
                self.of(Resource::ChannelItems).retain(|row| match resource {
                    Resource::Channels => row.values[0] != FieldValue::Int(id),
                    Resource::QrCodes => !of_code(row),
                    _ => true,
                });
            }
        }
    }

    fn domains(&mut self, rng: &mut Rng, may: AllowedEdits) {
        use Resource::Domains;
        for nth in 0..self.rows[&Domains].len() {
            let number = self.number();
            let row = &mut self.rows.get_mut(&Domains).unwrap()[nth];
            let FieldValue::Int(id) = row.values[0] else { continue };
            let goal = self.goal.domains.get_mut(id.cast_unsigned()).unwrap();
            if rng.u8(..4) == 0 {
                let url = if rng.bool() {
                    String::new()
                } else {
                    format!("https://n{number}.example/ü")
                };
                set_url(row, Domains, "redirectroot", &url);
                goal.redirectroot = url;
            }
            if rng.u8(..6) == 0 {
                let url = format!("http://n{number}.example/lost?a=1&b=2");
                set_url(row, Domains, "redirect404", &url);
                goal.redirect404 = url;
            }
            if may.impossible && rng.u8(..12) == 0 {
                set_url(row, Domains, "domain", &format!("https://other{number}.example"));
                self.impossible += 1;
            }
        }
        for _ in 0..rng.u8(..2) {
            let domain = format!("https://Made{}.example.org", self.number());
            self.add(Domains, &[("domain", text(&domain))], SentFields::new());
            self.goal.domains.add(Domain { domain, ..Domain::default() });
        }
    }

    fn campaigns(&mut self, rng: &mut Rng, may: AllowedEdits) {
        use Resource::Campaigns;
        let (name_at, public_at) = (at(Campaigns, "name"), at(Campaigns, "public"));
        let mut order: Vec<_> = (0..self.rows[&Campaigns].len()).collect();
        rng.shuffle(&mut order);
        // A chain: each takes the name of the next, and the last one a new name.
        let ring = may.impossible && rng.u8(..8) == 0 && order.len() > 1;
        let chained = if ring || rng.bool() { order.len().min(rng.usize(2..5)) } else { 0 };
        let old: Vec<_> = order[..chained]
            .iter()
            .map(|nth| self.rows[&Campaigns][*nth].values[name_at].clone())
            .collect();
        for (place, nth) in order.into_iter().enumerate() {
            let fresh = self.name(rng);
            let number = self.number();
            let row = &mut self.rows.get_mut(&Campaigns).unwrap()[nth];
            let FieldValue::Int(id) = row.values[0] else { continue };
            let goal = self.goal.campaigns.get_mut(id.cast_unsigned()).unwrap();
            if place < chained {
                row.edited = true;
                row.values[name_at] = match old.get(place + 1) {
                    Some(next) => next.clone(),
                    None if ring => old[0].clone(),
                    None => text(&fresh),
                };
                if ring {
                    self.impossible += 1;
                    continue;
                }
                goal.name = row.values[name_at].cell().into_owned();
            } else if rng.u8(..4) == 0 {
                let loud = goal.name.to_uppercase();
                let new = if rng.bool() && fold(&loud) == fold(&goal.name) { loud } else { fresh };
                set_url(row, Campaigns, "name", &new);
                goal.name = new;
            }
            if rng.u8(..4) == 0 {
                goal.public = !goal.public;
                row.values[public_at] = FieldValue::Bool(goal.public);
                row.edited = true;
            }
            if rng.u8(..6) == 0 {
                let slug = format!("s-{number}");
                // A new row has no rotator from a later reading.
                row.sent.remove("rotator");
                row.sent.insert("slug".to_owned(), json!(slug));
                row.edited = true;
                goal.rotator = Some(format!("{}/r/{slug}", self.goal.base));
                goal.slug = Some(slug);
            }
        }
        for _ in 0..rng.u8(..3) {
            let (name, number, public) = (self.name(rng), self.number(), rng.bool());
            let slug = rng.bool().then(|| format!("made-{number}"));
            let sent = slug.iter().map(|slug| ("slug".to_owned(), json!(slug))).collect();
            self.add(
                Campaigns,
                &[("name", text(&name)), ("public", FieldValue::Bool(public))],
                sent,
            );
            self.goal.add_campaign(&name, slug.as_deref(), public);
        }
    }

    fn channels(&mut self, rng: &mut Rng) {
        use Resource::Channels;
        for nth in 0..self.rows[&Channels].len() {
            let fresh = self.name(rng);
            let row = &mut self.rows.get_mut(&Channels).unwrap()[nth];
            let FieldValue::Int(id) = row.values[0] else { continue };
            let goal = self.goal.channels.get_mut(id.cast_unsigned()).unwrap();
            if rng.u8(..5) == 0 {
                set_url(row, Channels, "name", &fresh);
                goal.name.clone_from(&fresh);
            }
            if rng.u8(..5) == 0 {
                let about = if rng.bool() { String::new() } else { format!("about {fresh}") };
                set_url(row, Channels, "description", &about);
                goal.description = about;
            }
            if rng.u8(..5) == 0 {
                let color = format!("#{:06x}", rng.u32(..0x0100_0000));
                set_url(row, Channels, "color", &color);
                goal.color = color;
            }
            if rng.u8(..5) == 0 {
                goal.starred = !goal.starred;
                row.values[at(Channels, "starred")] = FieldValue::Bool(goal.starred);
                row.edited = true;
            }
        }
        for _ in 0..rng.u8(..3) {
            let row = StoredChannel {
                name: self.name(rng),
                starred: rng.bool(),
                ..StoredChannel::default()
            };
            let starred = FieldValue::Bool(row.starred);
            self.add(
                Channels,
                &[("name", text(&row.name)), ("starred", starred)],
                SentFields::new(),
            );
            self.goal.channels.add(row);
        }
    }

    fn codes(&mut self, rng: &mut Rng, may: AllowedEdits) {
        use Resource::QrCodes;
        for nth in 0..self.rows[&QrCodes].len() {
            let number = self.number();
            let row = &mut self.rows.get_mut(&QrCodes).unwrap()[nth];
            let FieldValue::Int(id) = row.values[0] else { continue };
            let content = &mut self.goal.qr_codes.get_mut(id.cast_unsigned()).unwrap().content;
            if rng.u8(..4) > 0 {
                continue;
            }
            row.edited = true;
            let color = format!("rgb({},0,255)", rng.u8(..));
            let known = row.sent.contains_key("data");
            if rng.bool() || (!known && !may.impossible) {
                content.data = Some(json!(format!("moved {number}")));
                row.sent.insert("data".to_owned(), content.data.clone().unwrap());
            } else if !known {
                // The values that an update would have to send are unknown.
                row.sent.insert("foreground".to_owned(), json!(color));
                self.impossible += 1;
                continue;
            }
            row.sent.insert("background".to_owned(), json!(color));
            content.background = Some(color);
        }
        for _ in 0..if may.codes { rng.u8(..3) } else { 0 } {
            let number = self.number();
            let (kind, data) = match rng.u8(..3) {
                0 => ("text", json!(format!("made {number}"))),
                1 => ("link", json!(format!("https://made.example/{number}"))),
                _ => ("vcard", json!(["N:Doe", format!("TEL:{number}")])),
            };
            let sent = [("type", json!(kind)), ("data", data.clone())];
            let sent = sent.map(|(name, value)| (name.to_owned(), value)).into();
            self.add(QrCodes, &[], sent);
            let content = QrContentData {
                kind: Some(kind.to_owned()),
                data: Some(data),
                ..QrContentData::default()
            };
            self.goal.qr_codes.add(QrCode { content, ..QrCode::default() });
        }
    }

    fn pixels(&mut self, rng: &mut Rng, may: AllowedEdits) {
        use Resource::Pixels;
        let name = self.name(rng);
        if let Some(row) = self.of(Pixels).first_mut()
            && may.impossible
            && rng.u8(..6) == 0
        {
            set_url(row, Pixels, "name", &name);
            self.impossible += 1;
        }
        for _ in 0..rng.u8(..2) {
            let kind = if rng.u8(..8) == 0 { "newpixel" } else { "bing" }.to_owned();
            let row = Pixel {
                kind,
                name: self.name(rng),
                tag: self.number().to_string(),
                ..Pixel::default()
            };
            let fields = [("type", &row.kind), ("name", &row.name), ("tag", &row.tag)];
            self.add(Pixels, &fields.map(|(name, value)| (name, text(value))), SentFields::new());
            self.goal.pixels.add(row);
        }
    }

    fn items(&mut self, rng: &mut Rng, may: AllowedEdits) {
        use Resource::ChannelItems;
        if may.impossible && may.delete && rng.u8(..6) == 0 && self.of(ChannelItems).len() > 1 {
            self.of(ChannelItems).pop();
            self.impossible += 1;
        }
        let channels: Vec<_> =
            self.goal.channels.iter().map(|(id, row)| (id, row.name.clone())).collect();
        let there: BTreeSet<_> = self.ids(Resource::Channels);
        let codes: Vec<_> = self.ids(Resource::QrCodes).into_iter().collect();
        for _ in 0..rng.u8(..4) {
            let Some((channel, name)) = rng.choice(&channels) else { return };
            let (kind, id) = match (rng.u8(..3), rng.choice(&codes)) {
                (0, Some(code)) => ("qr", *code),
                (1, _) => ("bio", self.number()),
                _ => ("links", self.number()),
            };
            let goal = self.goal.channels.get_mut(*channel).unwrap();
            if goal.items.iter().any(|it| it.kind == kind && it.id == id) {
                continue;
            }
            goal.items.push(Item { kind: kind.to_owned(), id, ..Item::default() });
            let owner = match there.contains(channel) && rng.bool() {
                true => FieldValue::Int(channel.cast_signed()),
                false => text(name),
            };
            let fields = [
                ("channel", owner),
                ("type", text(kind)),
                ("id", FieldValue::Int(id.cast_signed())),
            ];
            self.add(ChannelItems, &fields, SentFields::new());
        }
    }

    fn ids(&self, resource: Resource) -> BTreeSet<u64> {
        let id = |row: &Row| match row.values[0] {
            FieldValue::Int(id) => Some(id.cast_unsigned()),
            _ => None,
        };
        self.rows[&resource].iter().filter_map(id).collect()
    }

    fn campaign_links(&mut self, rng: &mut Rng) {
        let there = self.ids(Resource::Campaigns);
        let ring: BTreeSet<_> = self.goal.campaigns.iter().map(|(id, _)| id).collect();
        for campaign in ring {
            if rng.u8(..4) > 0 {
                continue;
            }
            let link = self.number();
            let goal = self.goal.campaigns.get_mut(campaign).unwrap();
            goal.members.insert(link);
            let owner =
                if there.contains(&campaign) { campaign.to_string() } else { goal.name.clone() };
            self.links.push((owner, link));
        }
    }

    /// The files as the program reads them. Of a spreadsheet without a base, only edited rows and
    /// some others.
    pub fn desired(&self, base: Option<&State>, whole: bool, rng: &mut Rng) -> DesiredState {
        let mut desired = DesiredState::default();
        for (resource, rows) in &self.rows {
            let mut file = Vec::new();
            let mut writer = CsvWriter::begin(*resource, &mut file, CsvDialect::Plain).unwrap();
            for row in rows {
                if whole || row.edited || rng.u8(..3) == 0 {
                    let record = Record {
                        key: RecordKey::Id(0),
                        values: row.values.clone(),
                        raw: "".into(),
                    };
                    writer.record(&record, Some(&row.sent)).unwrap();
                }
            }
            writer.finish().unwrap();
            let known = ExportContext { base, ..ExportContext::default() };
            let name = format!("{resource}.csv");
            let sheet = read(CsvKind::Resource(*resource), &name, &file, known)
                .unwrap_or_else(|error| panic!("{error:?}\n{}", String::from_utf8_lossy(&file)));
            let CsvRecords::Of(_, records) = sheet.records else { panic!("no records") };
            let wanted = desired.resources.entry(*resource).or_default();
            (wanted.records, wanted.is_complete) = (records, whole);
        }
        let mut writer = "campaign,link\n".to_owned();
        for (campaign, link) in &self.links {
            writer += &format!("\"{}\",{link}\n", campaign.replace('"', "\"\""));
        }
        let links = CsvKind::CampaignLinks;
        let sheet =
            read(links, "campaign_links.csv", writer.as_bytes(), ExportContext::default()).unwrap();
        let CsvRecords::Links(links) = sheet.records else { panic!("no links") };
        desired.campaign_links = links;
        desired
    }
}
