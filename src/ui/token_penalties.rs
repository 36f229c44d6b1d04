//! Delays clients that send wrong tokens. Pure: the caller passes the time.
//!
//! A penalty belongs to the client, not to a connection: a guess on a new connection waits too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// A client without a new wrong token for this long after its penalty starts from the beginning.
const MEMORY: Duration = Duration::from_secs(600);

/// The most clients in the table.
const CLIENTS: usize = 4096;

/// The penalties of all clients. All times are monotonic.
pub(crate) struct TokenPenalties {
    first: Duration,
    longest: Duration,
    clients: HashMap<IpAddr, Penalty>,
}

struct Penalty {
    length: Duration,
    end: Duration,
}

impl TokenPenalties {
    /// The first wrong token of a client delays it by `first`, each further one by twice as long,
    /// up
    /// to `longest`.
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, clients: HashMap::new() }
    }

    /// How long a token of `client` has to wait before it is compared; `None` without a penalty.
    pub(crate) fn wait(&self, client: IpAddr, now: Duration) -> Option<Duration> {
        let end = self.clients.get(&client)?.end;
        (now < end).then(|| end.saturating_sub(now))
    }

    /// Records a wrong token of `client`.
    pub(crate) fn add(&mut self, client: IpAddr, now: Duration) {
        self.clients.retain(|_, penalty| now < penalty.end.saturating_add(MEMORY));
        let length = self.clients.get(&client).map(|penalty| penalty.length.saturating_mul(2));
        if length.is_none() && self.clients.len() >= CLIENTS {
            let soonest = self.clients.iter().min_by_key(|(_, penalty)| penalty.end);
            if let Some(client) = soonest.map(|(client, _)| *client) {
                self.clients.remove(&client);
            }
        }
        let length = length.unwrap_or(self.first).min(self.longest);
        self.clients.insert(client, Penalty { length, end: now.saturating_add(length) });
    }
}

#[cfg(test)]
mod tests {
    use crate::ui::token_penalties::*;

    const fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn a_penalty_doubles_with_each_wrong_token_and_is_forgotten() {
        let mut penalties = TokenPenalties::new(seconds(1), seconds(30));
        let mut now = seconds(100);
        for length in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(penalties.wait(client(1), now), None);
            penalties.add(client(1), now);
            assert_eq!(penalties.wait(client(1), now), Some(seconds(length)));
            assert_eq!(penalties.wait(client(2), now), None, "another client");
            now += seconds(length);
        }
        penalties.add(client(1), now + MEMORY - seconds(1));
        now += MEMORY - seconds(1);
        assert_eq!(penalties.wait(client(1), now), Some(seconds(30)));
        now += seconds(30) + MEMORY;
        penalties.add(client(1), now);
        assert_eq!(penalties.wait(client(1), now), Some(seconds(1)));
    }

    #[test]
    fn the_table_has_a_maximum_size_and_drops_the_penalty_that_ends_first() {
        let mut penalties = TokenPenalties::new(seconds(1), seconds(30));
        for number in 0..2 * CLIENTS as u32 {
            penalties.add(client(number), Duration::from_millis(u64::from(number)));
        }
        assert_eq!(penalties.clients.len(), CLIENTS);
        let now = Duration::from_millis(2 * CLIENTS as u64 - 1);
        assert_eq!(penalties.wait(client(2 * CLIENTS as u32 - 1), now), Some(seconds(1)));
        assert!(!penalties.clients.contains_key(&client(0)));
    }
}
