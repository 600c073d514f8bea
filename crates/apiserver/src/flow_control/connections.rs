//! Limits on open connections.
//!
//! A connection belongs to the identity of its last request. It is unidentified before its first request. On a full server
//! a new connection evicts the oldest unidentified connection, or else the newest connection of the identity with the most
//! connections. Connections of administrators are never evicted.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Limits, Rejection};
use crate::identity::Identity;

/// The open connections and their limits.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    max: usize,
    max_unidentified: usize,
    max_per_identity: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    open: usize,
    unidentified: BTreeMap<u64, CancellationToken>,
    by_user: HashMap<Arc<str>, BTreeMap<u64, CancellationToken>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Unidentified,
    Administrator,
    User(Arc<str>),
}

/// An open connection, closed when dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    limiter: Arc<ConnectionLimiter>,
    owner: Mutex<Owner>,
    /// Cancelled to end the connection at once.
    pub(crate) evicted: CancellationToken,
    /// Cancelled to end the connection after its current responses.
    pub(crate) finishing: CancellationToken,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max: limits.connections,
            max_unidentified: limits.unidentified,
            max_per_identity: limits.identity.connections,
            state: Mutex::default(),
        }
    }

    /// Opens a connection. Returns `None` if the server is full of connections of administrators.
    pub(crate) fn open(self: &Arc<Self>) -> Option<Connection> {
        let mut state = self.state.lock();
        if state.open >= self.max && !state.evict() {
            return None;
        }
        if state.unidentified.len() >= self.max_unidentified {
            state.evict();
        }
        let id = state.next;
        state.next += 1;
        state.open += 1;
        let evicted = CancellationToken::new();
        state.unidentified.insert(id, evicted.clone());
        Some(Connection {
            id,
            limiter: self.clone(),
            owner: Mutex::new(Owner::Unidentified),
            evicted,
            finishing: CancellationToken::new(),
        })
    }

    /// Evicts a connection to free its file descriptor.
    pub(crate) fn evict(&self) {
        self.state.lock().evict();
    }
}

impl State {
    /// Evicts the connection with the lowest priority and stops counting it.
    fn evict(&mut self) -> bool {
        let evicted = self.unidentified.pop_first().or_else(|| {
            let largest = self.by_user.values_mut().max_by_key(|own| own.len());
            largest.and_then(BTreeMap::pop_last)
        });
        let Some((_, connection)) = evicted else {
            return false;
        };
        self.open -= 1;
        connection.cancel();
        true
    }

    /// Removes a connection. Returns `false` if it was evicted.
    fn remove(&mut self, id: u64, owner: &Owner) -> bool {
        match owner {
            Owner::Administrator => true,
            Owner::Unidentified => self.unidentified.remove(&id).is_some(),
            Owner::User(user) => {
                let Some(own) = self.by_user.get_mut(user) else {
                    return false;
                };
                let found = own.remove(&id).is_some();
                if own.is_empty() {
                    self.by_user.remove(user);
                }
                found
            }
        }
    }
}

impl Connection {
    /// Assigns the connection to an identity. An identity with too many loses the connection after this request.
    pub(crate) fn claim(&self, identity: &Identity) -> Result<(), Rejection> {
        let mut owner = self.owner.lock();
        let is_same = match &*owner {
            Owner::Unidentified => false,
            Owner::Administrator => identity.is_master(),
            Owner::User(user) => **user == *identity.user && !identity.is_master(),
        };
        if is_same {
            return Ok(());
        }
        let mut state = self.limiter.state.lock();
        let next = if identity.is_master() {
            Owner::Administrator
        } else {
            let known = state.by_user.get_key_value(&*identity.user);
            if known.is_some_and(|(_, own)| own.len() >= self.limiter.max_per_identity) {
                self.finishing.cancel();
                return Err(Rejection::Connections);
            }
            let known = known.map(|(user, _)| user.clone());
            Owner::User(known.unwrap_or_else(|| Arc::from(&*identity.user)))
        };
        if !state.remove(self.id, &owner) {
            // It was evicted.
            return Ok(());
        }
        if let Owner::User(user) = &next {
            let own = state.by_user.entry(user.clone()).or_default();
            own.insert(self.id, self.evicted.clone());
        }
        *owner = next;
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.limiter.state.lock();
        if state.remove(self.id, self.owner.get_mut()) {
            state.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_control::Share;

    fn limiter(max: usize, unidentified: usize, of_one: usize) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter::new(&Limits {
            connections: max,
            unidentified,
            identity: Share {
                connections: of_one,
                ..Share::default()
            },
            ..Limits::default()
        }))
    }

    fn user(name: &str) -> Identity {
        Identity::service_account("default", name)
    }

    fn opened(limiter: &Arc<ConnectionLimiter>, name: &str) -> Connection {
        let connection = limiter.open().unwrap();
        connection.claim(&user(name)).unwrap();
        connection
    }

    #[test]
    fn a_new_connection_evicts_the_oldest_unidentified_one() {
        let limiter = limiter(10, 2, 10);
        let all = [(); 3].map(|()| limiter.open().unwrap());
        let closed: Vec<bool> = all.iter().map(|c| c.evicted.is_cancelled()).collect();
        assert_eq!(closed, [true, false, false]);
        all[1].claim(&Identity::anonymous()).unwrap();
        let _fourth = limiter.open().unwrap();
        assert!(!all[1].evicted.is_cancelled() && !all[2].evicted.is_cancelled());
        drop(all);
        assert_eq!(limiter.state.lock().open, 1);
    }

    #[test]
    fn one_identity_cannot_hold_all_connections() {
        let limiter = limiter(10, 10, 2);
        let _two = [opened(&limiter, "a"), opened(&limiter, "a")];
        let third = limiter.open().unwrap();
        assert_eq!(third.claim(&user("a")), Err(Rejection::Connections));
        assert!(third.finishing.is_cancelled());
        let _other = opened(&limiter, "b");
        let _admins = [(); 5].map(|()| {
            let connection = limiter.open().unwrap();
            connection.claim(&Identity::admin()).unwrap();
            connection
        });
    }

    #[test]
    fn a_full_server_evicts_a_connection_of_the_largest_identity() {
        let limiter = limiter(4, 4, 4);
        let many = [(); 2].map(|()| opened(&limiter, "a"));
        let few = opened(&limiter, "b");
        let admin = limiter.open().unwrap();
        admin.claim(&Identity::admin()).unwrap();
        let new = opened(&limiter, "c");
        assert!(many[1].evicted.is_cancelled(), "the newest of the largest");
        for connection in [&many[0], &few, &admin, &new] {
            assert!(!connection.evicted.is_cancelled());
        }
        drop((many, few, new));
        let _admins = [(); 3].map(|()| {
            let connection = limiter.open().unwrap();
            connection.claim(&Identity::admin()).unwrap();
            connection
        });
        assert!(
            limiter.open().is_none(),
            "only administrators are connected"
        );
    }
}
