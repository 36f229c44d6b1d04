//! A small vault with data of every kind.

use std::path::Path;

use linkvault::model::{RecordKey, Resource, SentValue, SnapshotId};
use linkvault::vault::id_map::IdMapping;
use linkvault::vault::journal::{
    NewRun, RunCommand, RunStatus, StepResult, StepState, StepVerification, VerifiedState,
};
use linkvault::vault::snapshot::ReadState;
use linkvault::vault::{AccountIdentity, Vault};

use crate::vault::snapshot_builder::{TestService, day};

/// The account of the sample.
pub fn identity() -> AccountIdentity {
    AccountIdentity { service: "https://links.example.com".to_owned(), account: 7 }
}

/// Writes the sample: five snapshots, the fourth forgotten, the third partial.
pub fn write(path: &Path) -> Vault {
    let mut vault = Vault::open_or_create(path).unwrap();
    vault.claim(&identity(), false).unwrap();
    vault.learn_page_size(Resource::QrCodes, 500).unwrap();
    first(&mut vault);
    send_slug(&mut vault, r#""fruehling""#);
    second(&mut vault);
    third(&mut vault);
    send_slug(&mut vault, r#""spring-2026""#);
    fourth(&mut vault);
    fifth(&mut vault);
    vault.forget(&[SnapshotId(4)], day(6)).unwrap();
    send(&mut vault);
    run(&mut vault);
    vault
}

fn qr(id: i64, scans: i64, name: &str) -> String {
    format!(
        r#"{{"id":{id},"link":"https:\/\/go.example.com\/qr\/{id}","scans":{scans},"name":"{name}","date":"2026-02-03 04:05:06"}}"#
    )
}

fn first(vault: &mut Vault) {
    let mut service = TestService::begin(vault, day(0));
    service.put(
        Resource::Account,
        &[r#"{"id":7,"email":"ann@example.com","username":"ann","avatar":"https:\/\/links.example.com\/a.png","status":"pro","expires":"2027-11-15 18:00:00","registered":"2020-11-10 18:01:43"}"#],
    );
    service.put(
        Resource::Domains,
        &[
            r#"{"id":1,"domain":"https:\/\/go.example.com","redirectroot":"https:\/\/example.com","redirect404":""}"#,
            r#"{"id":2,"domain":"https:\/\/to.example.com","redirectroot":null,"redirect404":null}"#,
        ],
    );
    service.put(
        Resource::Campaigns,
        &[
            r#"{"id":1,"name":"Spring","public":false,"rotator":false,"list":"https:\/\/go.example.com\/u\/ann\/list-1"}"#,
            r#"{"id":2,"domain":"Facebook Campaign","public":true,"rotator":"https:\/\/go.example.com\/r\/test","list":"x"}"#,
            r#"{"id":"3","campaign":"Sommer \u00fc\u2600","public":"1","rotator":"","list":null}"#,
        ],
    );
    service.put(
        Resource::Channels,
        &[
            r##"{"id":1,"name":"Channel 1","description":"Description of channel 1","color":"#000000","starred":true}"##,
            r##"{"id":2,"name":"Channel 2","description":"","color":"#FF0000","starred":"0"}"##,
        ],
    );
    let link = r#"{"type":"links","id":1,"title":"A link","preview":"https:\/\/google.com","link":"https:\/\/go.example.com\/g","date":"2022-05-12"}"#;
    let bio =
        r#"{"type":"bio","id":1,"title":"My bio","preview":"p","link":"l","date":"2022-06-01"}"#;
    service.put_in(Resource::ChannelItems, Some(1), &[link, bio]);
    service.put_in(Resource::ChannelItems, Some(2), &[link]);
    let codes: Vec<_> = (1..=24).map(|id| qr(id, id * 3, &format!("code {id}"))).collect();
    service.put(Resource::QrCodes, &codes);
    service.put(
        Resource::Pixels,
        &[
            r#"{"id":1,"type":"gtmpixel","name":"GTM Pixel","tag":"GA-123456789","date":"2020-11-10 18:00:00"}"#,
            r#"{"id":2,"type":"twitterpixel","name":"Twitter Pixel","tag":"1234567","date":"2020-11-10 18:10:00"}"#,
        ],
    );
    service.put(
        Resource::Overlays,
        &[r#"{"id":1,"type":"message","name":"Product 1 Promo","date":"2020-11-10 18:00:00"}"#],
    );
    service.put(
        Resource::SplashPages,
        &[r#"{"id":1,"name":"Product 1 Promo","date":"2020-11-10 18:00:00"}"#],
    );
    service.statistics(1, 3, r#"{"clicks":3,"topCountries":{"Germany":2,"France":1}}"#);
    service.statistics(2, 6, r#"{"clicks":6}"#);
    service.finish();
}

fn second(vault: &mut Vault) {
    let mut service = TestService::begin_tagged(vault, day(1), Some("before the move"));
    service.put(Resource::QrCodes, &[qr(1, 5, "code 1"), qr(2, 6, "renamed"), qr(25, 0, "new")]);
    service.statistics(1, 5, r#"{"clicks":5,"topCountries":{"Germany":4,"France":1}}"#);
    service.put(
        Resource::Campaigns,
        &[r#"{"id":1,"name":"Spring 2026","public":true,"rotator":false,"list":"https:\/\/go.example.com\/u\/ann\/list-1"}"#],
    );
    service.remove(Resource::Campaigns, &[RecordKey::Id(2)]);
    service.remove(
        Resource::ChannelItems,
        &[RecordKey::Item { channel: 2, kind: "links".to_owned(), id: 1 }],
    );
    service.finish();
}

fn third(vault: &mut Vault) {
    let mut service = TestService::begin_tagged(vault, day(2), Some("odd"));
    service.put(Resource::Campaigns, &crate::vault::unusual_records::CAMPAIGNS);
    service.put(Resource::QrCodes, &crate::vault::unusual_records::QR_CODES);
    service
        .vault
        .conclude(SnapshotId(3), Resource::Pixels, ReadState::Failed, Some("500 at /api/pixels"))
        .unwrap();
    service.finish();
}

fn fourth(vault: &mut Vault) {
    let mut service = TestService::begin(vault, day(3));
    service.put(Resource::QrCodes, &[qr(1, 9, "only in the fourth"), qr(3, 10, "code 3")]);
    service.put(
        Resource::Domains,
        &[r#"{"id":9,"domain":"https:\/\/brief.example.com","redirectroot":"","redirect404":""}"#],
    );
    service.finish();
}

fn fifth(vault: &mut Vault) {
    let mut service = TestService::begin(vault, day(4));
    service.put(Resource::QrCodes, &[qr(1, 11, "code 1"), qr(4, 12, "code 4")]);
    service.remove(Resource::Domains, &[RecordKey::Id(9)]);
    service.remove(Resource::QrCodes, &[RecordKey::Id(24)]);
    service.statistics(1, 11, r#"{"clicks":11,"topCountries":{"Germany":10,"France":1}}"#);
    service.finish();
}

/// Stores a sent value that later ones replace.
fn send_slug(vault: &mut Vault, value: &str) {
    vault.remember(Resource::Campaigns, &RecordKey::Id(1), "slug", value, day(1)).unwrap();
}

fn send(vault: &mut Vault) {
    for (resource, id, field, value) in [
        (Resource::QrCodes, 25, "type", r#""text""#),
        (Resource::QrCodes, 25, "data", r#""hello""#),
        (Resource::QrCodes, 25, "foreground", r#""rgb(0,0,0)""#),
        (Resource::Campaigns, 1, "slug", r#""spring""#),
    ] {
        vault.remember(resource, &RecordKey::Id(id), field, value, day(5)).unwrap();
    }
}

/// Adds a finished run and an interrupted one.
fn run(vault: &mut Vault) {
    let new = NewRun {
        command: RunCommand::Restore,
        input: r#"{"from":"main@#1"}"#.to_owned(),
        plan_id: "c0ffee".to_owned(),
        plan: r#"{"steps":[]}"#.to_owned(),
        touched: vec![Resource::Campaigns, Resource::QrCodes],
        before: SnapshotId(3),
        steps: vec![r#"{"step":1}"#.to_owned(), r#"{"step":2}"#.to_owned()],
    };
    let run = vault.begin_run(&new, day(6)).unwrap();
    vault.mark_sent(run, &[1], day(6)).unwrap();
    let done = StepResult {
        id: Some(44),
        remember: vec![SentValue {
            resource: Resource::Campaigns,
            key: RecordKey::Id(44),
            field: "slug".to_owned(),
            value: "winter".into(),
            created: true,
        }],
        maps: Some(IdMapping {
            origin: String::new(),
            resource: Resource::Campaigns,
            old: 2,
            new: 44,
        }),
        ..StepResult::of(StepState::Done)
    };
    vault.record_result(run, 1, &done, day(6), true).unwrap();
    vault.mark_sent(run, &[2], day(6)).unwrap();
    let refused =
        StepResult::of(StepState::Refused).with_message("You have reach the maximum limit.");
    vault.record_result(run, 2, &refused, day(6), false).unwrap();
    let seen = StepVerification {
        step: 1,
        result: VerifiedState::Verified,
        remark: Some("`Winter` is stored as `winter`".to_owned()),
        id: None,
        remember: Vec::new(),
        maps: None,
    };
    vault.verify_steps(run, &[seen], day(6)).unwrap();
    vault.suspend_run(run, RunStatus::Partial, Some(SnapshotId(5)), 9, day(6)).unwrap();
    let open = vault.begin_run(&NewRun { plan_id: "d0".to_owned(), ..new }, day(7)).unwrap();
    vault.mark_sent(open, &[1, 2], day(7)).unwrap();
}
