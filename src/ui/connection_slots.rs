//! Which connections to the page stay open: a bounded number, and a bounded number
//! for each client. A new connection takes the place of the oldest one that waits
//! for its client, so that unfinished requests keep no client away, whichever client sends them:
//! behind a proxy and on this machine all clients have one address.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of all clients, each with a value of `C` that is dropped to close it.
pub(crate) struct ConnectionSlots<C> {
    taken: Arc<Mutex<State<C>>>,
    most: usize,
    most_each: usize,
}

struct State<C> {
    next: u64,
    /// The oldest first.
    places: BTreeMap<u64, Taken<C>>,
}

struct Taken<C> {
    client: IpAddr,
    busy: TooManyConnections,
    _close: C,
}

/// The place of one connection, until it is dropped.
pub(crate) struct Place<C> {
    pub busy: TooManyConnections,
    number: u64,
    taken: Arc<Mutex<State<C>>>,
}

/// Whether the program works for a connection, and does not wait for its client.
#[derive(Clone, Default)]
pub(crate) struct TooManyConnections(Arc<AtomicBool>);

/// As long as this lives, the connection is busy.
pub(crate) struct BusySlot(TooManyConnections);

impl TooManyConnections {
    pub(crate) fn begin(&self) -> BusySlot {
        self.0.store(true, Ordering::Release);
        BusySlot(self.clone())
    }

    fn is_busy(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for BusySlot {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// The client at `address`, as far as it can be told from others: who has one IPv6
/// address has the 2⁶⁴ around it.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        other => other,
    }
}

impl<C> ConnectionSlots<C> {
    pub(crate) fn new(most: usize, most_each: usize) -> Self {
        let state = State { next: 0, places: BTreeMap::new() };
        Self { taken: Arc::new(Mutex::new(state)), most, most_each }
    }

    /// A place for a connection of `client`, which ends when `close` is dropped; `None`
    /// where all that could make room are busy.
    pub(crate) fn enter(&self, client: IpAddr, close: C) -> Option<Place<C>> {
        let mut state = lock(&self.taken);
        let of_client = state.places.values().filter(|it| it.client == client).count();
        if of_client >= self.most_each {
            state.close(Some(client))?;
        } else if state.places.len() >= self.most {
            let greediest = state.greediest();
            state.close(greediest).or_else(|| state.close(None))?;
        }
        let number = state.next;
        state.next += 1;
        let busy = TooManyConnections::default();
        state.places.insert(number, Taken { client, busy: busy.clone(), _close: close });
        Some(Place { busy, number, taken: Arc::clone(&self.taken) })
    }
}

impl<C> State<C> {
    /// The client with the most connections.
    fn greediest(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for taken in self.places.values() {
            *counts.entry(taken.client).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client)
    }

    /// Closes the oldest connection that is not busy, of `client` if one is named.
    fn close(&mut self, client: Option<IpAddr>) -> Option<()> {
        let of = |it: &Taken<C>| client.is_none_or(|client| it.client == client);
        let oldest = self.places.iter().find(|(_, it)| of(it) && !it.busy.is_busy());
        let number = oldest.map(|(number, _)| *number)?;
        self.places.remove(&number).map(drop)
    }
}

impl<C> Drop for Place<C> {
    fn drop(&mut self) {
        lock(&self.taken).places.remove(&self.number);
    }
}

fn lock<C>(state: &Mutex<State<C>>) -> MutexGuard<'_, State<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use crate::ui::connection_slots::*;

    fn address(text: &str) -> IpAddr {
        client(text.parse().unwrap())
    }

    /// A connection, and whether it is still open.
    struct Open(Place<Arc<()>>, std::sync::Weak<()>);

    impl Open {
        fn is_closed(&self) -> bool {
            self.1.upgrade().is_none()
        }
    }

    fn enter(places: &ConnectionSlots<Arc<()>>, client: &str) -> Option<Open> {
        let close = Arc::new(());
        let open = Arc::downgrade(&close);
        places.enter(address(client), close).map(|place| Open(place, open))
    }

    #[test]
    fn a_client_at_its_bound_loses_its_oldest_connection_that_waits() {
        let places = ConnectionSlots::new(10, 3);
        let other = enter(&places, "192.0.2.1").unwrap();
        let mut mine: Vec<_> = (0..3).map(|_| enter(&places, "127.0.0.1").unwrap()).collect();
        let working = mine[0].0.busy.begin();
        mine.push(enter(&places, "127.0.0.1").unwrap());
        let closed: Vec<_> = mine.iter().map(Open::is_closed).collect();
        assert_eq!(closed, [false, true, false, false]);
        assert!(!other.is_closed());
        drop(working);
        mine.push(enter(&places, "127.0.0.1").unwrap());
        assert!(mine[0].is_closed(), "it waits again");
    }

    #[test]
    fn a_new_client_takes_a_place_from_who_has_the_most() {
        let places = ConnectionSlots::new(5, 4);
        let few = enter(&places, "192.0.2.1").unwrap();
        let many: Vec<_> = (0..4).map(|_| enter(&places, "192.0.2.2").unwrap()).collect();
        let _new = enter(&places, "192.0.2.3").unwrap();
        assert!(many[0].is_closed() && !few.is_closed());
    }

    #[test]
    fn work_is_never_broken_off_for_somebody_new() {
        let places = ConnectionSlots::new(2, 2);
        let mine: Vec<_> = (0..2).map(|_| enter(&places, "::1").unwrap()).collect();
        let working: Vec<_> = mine.iter().map(|it| it.0.busy.begin()).collect();
        assert!(enter(&places, "::1").is_none());
        assert!(enter(&places, "192.0.2.1").is_none());
        drop((working, mine));
        assert!(enter(&places, "192.0.2.1").is_some(), "who goes frees a place");
    }

    #[test]
    fn a_connection_that_ends_frees_its_place() {
        let places = ConnectionSlots::new(2, 2);
        let stays = enter(&places, "::1").unwrap();
        drop(enter(&places, "::1").unwrap());
        let _new = enter(&places, "::1").unwrap();
        assert!(!stays.is_closed());
    }

    #[test]
    fn one_network_of_ipv6_is_one_client() {
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
