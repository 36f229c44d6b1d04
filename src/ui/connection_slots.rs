//! Limits the open connections of the web UI, in total and for each client. A new connection
//! replaces the oldest one that waits for its client. So unfinished requests cannot block other
//! clients, even behind a proxy, where all clients have the same address.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The open connections of all clients. Dropping a connection's `C` closes it.
pub(crate) struct ConnectionSlots<C> {
    taken: Arc<Mutex<OpenConnections<C>>>,
    max: usize,
    max_per_client: usize,
}

struct OpenConnections<C> {
    next: u64,
    /// By increasing number, so the oldest is first.
    places: BTreeMap<u64, OpenConnection<C>>,
}

struct OpenConnection<C> {
    client: IpAddr,
    busy: BusyFlag,
    _close: C,
}

/// The slot of one connection. Dropping it frees the slot.
pub(crate) struct ConnectionSlot<C> {
    pub busy: BusyFlag,
    number: u64,
    taken: Arc<Mutex<OpenConnections<C>>>,
}

/// Whether the server is working on a request of the connection, rather than waiting for the
/// client.
#[derive(Clone, Default)]
pub(crate) struct BusyFlag(Arc<AtomicBool>);

/// The connection is busy until this is dropped.
pub(crate) struct BusyGuard(BusyFlag);

impl BusyFlag {
    pub(crate) fn begin(&self) -> BusyGuard {
        self.0.store(true, Ordering::Release);
        BusyGuard(self.clone())
    }

    fn is_busy(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// The identity of the client at `address`. All addresses of an IPv6 /64 network are one client:
/// its owner can use any of them.
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
    pub(crate) fn new(max: usize, max_per_client: usize) -> Self {
        let state = OpenConnections { next: 0, places: BTreeMap::new() };
        Self { taken: Arc::new(Mutex::new(state)), max, max_per_client }
    }

    /// Takes a slot for a connection of `client`, which closes when `close` is dropped. `None` if
    /// all connections that could be replaced are busy.
    pub(crate) fn enter(&self, client: IpAddr, close: C) -> Option<ConnectionSlot<C>> {
        let mut state = lock(&self.taken);
        let of_client = state.places.values().filter(|it| it.client == client).count();
        if of_client >= self.max_per_client {
            state.close(Some(client))?;
        } else if state.places.len() >= self.max {
            let greediest = state.busiest_client();
            state.close(greediest).or_else(|| state.close(None))?;
        }
        let number = state.next;
        state.next += 1;
        let busy = BusyFlag::default();
        state.places.insert(number, OpenConnection { client, busy: busy.clone(), _close: close });
        Some(ConnectionSlot { busy, number, taken: Arc::clone(&self.taken) })
    }
}

impl<C> OpenConnections<C> {
    /// The client with the most connections.
    fn busiest_client(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for taken in self.places.values() {
            *counts.entry(taken.client).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(client, _)| client)
    }

    /// Closes the oldest connection that is not busy: of `client`, or of any client for `None`.
    fn close(&mut self, client: Option<IpAddr>) -> Option<()> {
        let of = |it: &OpenConnection<C>| client.is_none_or(|client| it.client == client);
        let oldest = self.places.iter().find(|(_, it)| of(it) && !it.busy.is_busy());
        let number = oldest.map(|(number, _)| *number)?;
        self.places.remove(&number).map(drop)
    }
}

impl<C> Drop for ConnectionSlot<C> {
    fn drop(&mut self) {
        lock(&self.taken).places.remove(&self.number);
    }
}

fn lock<C>(state: &Mutex<OpenConnections<C>>) -> MutexGuard<'_, OpenConnections<C>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use crate::ui::connection_slots::*;

    fn address(text: &str) -> IpAddr {
        client(text.parse().unwrap())
    }

    /// A slot, and a reference that tells whether its connection is still open.
    struct Open(ConnectionSlot<Arc<()>>, std::sync::Weak<()>);

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
    fn a_client_at_its_limit_loses_its_oldest_idle_connection() {
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
    fn a_new_client_replaces_a_connection_of_the_client_with_the_most() {
        let places = ConnectionSlots::new(5, 4);
        let few = enter(&places, "192.0.2.1").unwrap();
        let many: Vec<_> = (0..4).map(|_| enter(&places, "192.0.2.2").unwrap()).collect();
        let _new = enter(&places, "192.0.2.3").unwrap();
        assert!(many[0].is_closed() && !few.is_closed());
    }

    #[test]
    fn busy_connections_are_never_replaced() {
        let places = ConnectionSlots::new(2, 2);
        let mine: Vec<_> = (0..2).map(|_| enter(&places, "::1").unwrap()).collect();
        let working: Vec<_> = mine.iter().map(|it| it.0.busy.begin()).collect();
        assert!(enter(&places, "::1").is_none());
        assert!(enter(&places, "192.0.2.1").is_none());
        drop((working, mine));
        assert!(enter(&places, "192.0.2.1").is_some(), "a closed connection frees its slot");
    }

    #[test]
    fn a_connection_that_ends_frees_its_slot() {
        let places = ConnectionSlots::new(2, 2);
        let stays = enter(&places, "::1").unwrap();
        drop(enter(&places, "::1").unwrap());
        let _new = enter(&places, "::1").unwrap();
        assert!(!stays.is_closed());
    }

    #[test]
    fn one_ipv6_network_is_one_client() {
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), address("192.0.2.1"));
    }
}
