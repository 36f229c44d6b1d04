//! The minimum number of requests of a backup, by the service's behaviour.

use linkvault::model::Resource;
use linkvault::sandbox::Behaviour;
use linkvault::sandbox::behaviour::{BeyondLast, Envelope, Order, ResultIs};

use super::world::World;

/// The page size of the first request.
const FIRST_PAGE_SIZE: u64 = 1000;

/// For a service without other users, of which nothing was deleted; without statistics.
pub fn requests(world: &World) -> u64 {
    let (vault, service) = (world.open(), world.service());
    let (store, behaviour) = (service.store(), service.behaviour());
    let lists = [
        (Resource::Domains, "domains", store.domains.len()),
        (Resource::Campaigns, "campaigns", store.campaigns.len()),
        (Resource::Channels, "channels", store.channels.len()),
        (Resource::QrCodes, "qr", store.qr_codes.len()),
        (Resource::Pixels, "pixels", store.pixels.len()),
        (Resource::Overlays, "overlay", store.overlays.len()),
        (Resource::SplashPages, "splash", store.splash.len()),
    ];
    let list = |resource, records: usize| {
        let asked = vault.learned_page_size(resource).unwrap().unwrap_or(FIRST_PAGE_SIZE);
        list(behaviour, resource, asked, records as u64)
    };
    let mut least = 1;
    for (resource, part, records) in lists {
        let offered = !behaviour.not_offered.0.contains(&part);
        least += if offered { list(resource, records) } else { 1 };
    }
    if !behaviour.not_offered.0.contains(&"channels") {
        let items = store.channels.iter().map(|(_, row)| row.items.len());
        least += items.map(|items| list(Resource::ChannelItems, items)).sum::<u64>();
    }
    least
}

/// The requests of one list of `records`: its pages, and the proof that they did not change.
fn list(behaviour: &Behaviour, resource: Resource, asked: u64, records: u64) -> u64 {
    let size = behaviour.max_limit.unwrap_or(asked).min(asked);
    let full = records / size;
    let pages = match behaviour.envelope {
        // Only a page that is not full, or is empty, shows that it is the last.
        Envelope::NoMaxPage => full + 1,
        Envelope::RecordsOnly if full == 0 => 1 + u64::from(records > 0),
        Envelope::RecordsOnly => full + 1,
        _ => records.div_ceil(size).max(1),
    };
    // A page after the last that repeats it does not count.
    let repeated = matches!(behaviour.envelope, Envelope::NoMaxPage | Envelope::RecordsOnly)
        && behaviour.beyond_last != BeyondLast::Empty
        && records > 0
        && (records.is_multiple_of(size) || full == 0);
    let shown = pages - u64::from(repeated && pages > 1);
    let total = behaviour.result == ResultIs::Total && behaviour.envelope != Envelope::RecordsOnly;
    // Page 1 of a list that begins with the newest record shows what is created.
    let is_newest_first = behaviour.order == Order::Descending
        && resource != Resource::ChannelItems
        && size.min(records) >= 10;
    let tail = u64::from(records.div_ceil(size) > 2 && !is_newest_first);
    let proof = match behaviour.envelope {
        _ if shown < 2 => 0,
        _ if total => 1 + tail,
        _ if shown == 2 => 1,
        // The last page is read early, or everything again.
        Envelope::NoMaxPage | Envelope::RecordsOnly => 1 + shown,
        _ => 2,
    };
    pages + proof
}
