//! The crawler and the vault on simulated time, against the sandbox in process.

pub mod world;

use linkvault::crawl::{self, Options};
use linkvault::vault::Vault;
use world::World;

#[test]
fn a_backup_holds_what_the_service_holds() {
    let world = World::lifelike();
    let mut vault = Vault::in_memory().unwrap();
    let summary = world.crawl(&mut vault, &Options::new("http://sandbox")).unwrap();
    println!("{summary:#?}");
    let report = vault.check().unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let _ = crawl::RESUMABLE;
}
