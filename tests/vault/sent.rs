//! Values that were sent and can never be read back.

use linkvault::model::{Key, Resource};
use linkvault::vault::Vault;

use super::desk::{assert_sound, day};

#[test]
fn what_was_sent_is_remembered_by_record_and_field_and_the_last_one_counts() {
    let mut vault = Vault::in_memory().unwrap();
    let key = Key::Item { channel: 1, kind: "odd/kind".to_owned(), id: -3 };
    let code = Key::Id(5);
    vault.remember(Resource::QrCodes, &code, "data", r#""old""#, day(0)).unwrap();
    vault.remember(Resource::QrCodes, &code, "data", r#"["new"]"#, day(1)).unwrap();
    vault.remember(Resource::QrCodes, &code, "type", r#""text""#, day(2)).unwrap();
    vault.remember(Resource::QrCodes, &Key::Id(55), "type", r#""wifi""#, day(2)).unwrap();
    let sent = vault.remembered(Resource::QrCodes, &code).unwrap();
    let told: Vec<_> = sent.iter().map(|(name, it)| (&**name, &*it.value, it.time)).collect();
    assert_eq!(told, [("data", r#"["new"]"#, day(1)), ("type", r#""text""#, day(2))]);
    assert_eq!(vault.remembered_all(Resource::QrCodes).unwrap().len(), 2);
    assert!(vault.remembered_all(Resource::Campaigns).unwrap().is_empty());
    assert!(vault.remembered(Resource::ChannelItems, &key).unwrap().is_empty());
    assert_sound(&mut vault);
}

#[test]
fn a_password_is_never_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.db");
    let mut vault = Vault::open_or_create(&path).unwrap();
    let secret = r#""correct horse battery""#;
    vault.remember(Resource::Account, &Key::Id(1), "password", secret, day(0)).unwrap();
    assert!(vault.remembered_all(Resource::Account).unwrap().is_empty());
    vault.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(13).any(|part| part == b"correct horse"));
}
