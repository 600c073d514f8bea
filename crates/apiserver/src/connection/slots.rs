//! The connections that are open, and whose they are.
//!
//! A connection belongs to the identity of its last request; before the first it is unidentified. Where there is no room
//! for a new one, the oldest unidentified one is closed, or else the newest of the identity with the most. Connections of
//! administrators are never closed for others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::http::load::{Limits, Refusal};
use crate::identity::Identity;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Slots {
    most: usize,
    unidentified: usize,
    of_one: usize,
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

/// An open connection; closed when dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    slots: Arc<Slots>,
    owner: Mutex<Owner>,
    /// It is to end at once.
    pub(super) evicted: CancellationToken,
    /// It is to end after the answers that are under way.
    pub(super) finishing: CancellationToken,
}

impl Slots {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            most: limits.connections,
            unidentified: limits.unidentified,
            of_one: limits.identity.connections,
            state: Mutex::default(),
        }
    }

    /// Makes room for a new connection; none if only administrators are connected.
    pub(super) fn open(self: &Arc<Self>) -> Option<Connection> {
        let mut state = self.state.lock();
        if state.open >= self.most && !state.evict() {
            return None;
        }
        if state.unidentified.len() >= self.unidentified {
            state.evict();
        }
        let id = state.next;
        state.next += 1;
        state.open += 1;
        let evicted = CancellationToken::new();
        state.unidentified.insert(id, evicted.clone());
        Some(Connection {
            id,
            slots: self.clone(),
            owner: Mutex::new(Owner::Unidentified),
            evicted,
            finishing: CancellationToken::new(),
        })
    }

    /// Closes a connection to free what it holds, such as a file descriptor.
    pub(super) fn evict(&self) {
        self.state.lock().evict();
    }
}

impl State {
    /// Closes the connection that has the least right to be there. It counts no more from now on.
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

    /// Removes a connection; false if it was evicted.
    fn remove(&mut self, id: u64, owner: &Owner) -> bool {
        match owner {
            Owner::Administrator => true,
            Owner::Unidentified => self.unidentified.remove(&id).is_some(),
            Owner::User(user) => {
                let Some(own) = self.by_user.get_mut(user) else {
                    return false;
                };
                let was_there = own.remove(&id).is_some();
                if own.is_empty() {
                    self.by_user.remove(user);
                }
                was_there
            }
        }
    }
}

impl Connection {
    /// Makes it a connection of an identity. If that has too many, it ends after this request.
    pub(crate) fn claim(&self, identity: &Identity) -> Result<(), Refusal> {
        let mut owner = self.owner.lock();
        let is_same = match &*owner {
            Owner::Unidentified => false,
            Owner::Administrator => identity.is_master(),
            Owner::User(user) => **user == *identity.user && !identity.is_master(),
        };
        if is_same {
            return Ok(());
        }
        let mut state = self.slots.state.lock();
        let next = if identity.is_master() {
            Owner::Administrator
        } else {
            let known = state.by_user.get_key_value(&*identity.user);
            if known.is_some_and(|(_, own)| own.len() >= self.slots.of_one) {
                self.finishing.cancel();
                return Err(Refusal::Connections);
            }
            let known = known.map(|(user, _)| user.clone());
            Owner::User(known.unwrap_or_else(|| Arc::from(&*identity.user)))
        };
        if !state.remove(self.id, &owner) {
            // Its end is on the way.
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
        let mut state = self.slots.state.lock();
        if state.remove(self.id, self.owner.get_mut()) {
            state.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::load::Share;

    fn slots(most: usize, unidentified: usize, of_one: usize) -> Arc<Slots> {
        Arc::new(Slots::new(&Limits {
            connections: most,
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

    fn opened(slots: &Arc<Slots>, name: &str) -> Connection {
        let connection = slots.open().unwrap();
        connection.claim(&user(name)).unwrap();
        connection
    }

    #[test]
    fn the_oldest_unidentified_connection_makes_room() {
        let slots = slots(10, 2, 10);
        let all = [(); 3].map(|()| slots.open().unwrap());
        let closed: Vec<bool> = all.iter().map(|c| c.evicted.is_cancelled()).collect();
        assert_eq!(closed, [true, false, false]);
        all[1].claim(&Identity::anonymous()).unwrap();
        let _fourth = slots.open().unwrap();
        assert!(!all[1].evicted.is_cancelled() && !all[2].evicted.is_cancelled());
        drop(all);
        assert_eq!(slots.state.lock().open, 1);
    }

    #[test]
    fn one_identity_has_its_share_of_connections() {
        let slots = slots(10, 10, 2);
        let _two = [opened(&slots, "a"), opened(&slots, "a")];
        let third = slots.open().unwrap();
        assert_eq!(third.claim(&user("a")), Err(Refusal::Connections));
        assert!(third.finishing.is_cancelled());
        let _other = opened(&slots, "b");
        let _admins = [(); 5].map(|()| {
            let connection = slots.open().unwrap();
            connection.claim(&Identity::admin()).unwrap();
            connection
        });
    }

    #[test]
    fn on_a_full_server_the_identity_with_the_most_makes_room() {
        let slots = slots(4, 4, 4);
        let many = [(); 2].map(|()| opened(&slots, "a"));
        let few = opened(&slots, "b");
        let admin = slots.open().unwrap();
        admin.claim(&Identity::admin()).unwrap();
        let new = opened(&slots, "c");
        assert!(many[1].evicted.is_cancelled(), "the newest of the largest");
        for connection in [&many[0], &few, &admin, &new] {
            assert!(!connection.evicted.is_cancelled());
        }
        drop((many, few, new));
        let _admins = [(); 3].map(|()| {
            let connection = slots.open().unwrap();
            connection.claim(&Identity::admin()).unwrap();
            connection
        });
        assert!(slots.open().is_none(), "only administrators are connected");
    }
}
