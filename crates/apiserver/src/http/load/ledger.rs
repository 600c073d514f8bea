//! Current usage of each identity: requests, watches, bytes in memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Limits, Refusal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Request,
    Watch,
    Bytes,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Ledger {
    limits: Limits,
    accounts: Mutex<Accounts>,
}

#[derive(Debug, Default)]
struct Accounts {
    by_user: HashMap<Arc<str>, Account>,
    watches: usize,
    bytes: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Account {
    requests: usize,
    watches: usize,
    bytes: usize,
}

/// Something that an identity has, until it is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Arc<Ledger>,
    user: Arc<str>,
    item: Item,
    amount: usize,
}

impl Ledger {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            accounts: Mutex::default(),
        }
    }

    /// Enters something, if the limits allow it.
    pub(super) fn enter(
        self: &Arc<Self>,
        user: &str,
        item: Item,
        amount: usize,
    ) -> Result<Entry, Refusal> {
        let mut accounts = self.accounts.lock();
        accounts.check(&self.limits, user, item, amount)?;
        Ok(self.entry(&mut accounts, user, item, amount))
    }

    /// Enters bytes whatever the limits are.
    pub(super) fn note(self: &Arc<Self>, user: &str, bytes: usize) -> Entry {
        self.entry(&mut self.accounts.lock(), user, Item::Bytes, bytes)
    }

    fn entry(
        self: &Arc<Self>,
        accounts: &mut Accounts,
        user: &str,
        item: Item,
        amount: usize,
    ) -> Entry {
        let known = accounts.by_user.get_key_value(user);
        let user = known.map_or_else(|| Arc::from(user), |(user, _)| user.clone());
        accounts.add(&user, item, amount);
        Entry {
            ledger: self.clone(),
            user,
            item,
            amount,
        }
    }
}

impl Accounts {
    fn check(&self, limits: &Limits, user: &str, item: Item, amount: usize) -> Result<(), Refusal> {
        let own = self.by_user.get(user).copied().unwrap_or_default();
        let share = &limits.identity;
        // Bytes that are not taken refuse requests, too, as nothing is known of the size of an answer beforehand.
        let more = if item == Item::Bytes { amount } else { 0 };
        let mine = own.bytes + more;
        let even = limits.buffered / self.by_user.len().max(1);
        let has_memory =
            mine <= share.buffered && (self.bytes + more <= limits.buffered || mine <= even);
        match item {
            Item::Request if own.requests + amount > share.requests => Err(Refusal::Requests),
            Item::Watch if own.watches + amount > share.watches => Err(Refusal::Watches),
            Item::Watch if self.watches + amount > limits.watches => Err(Refusal::Watches),
            Item::Request | Item::Bytes if !has_memory => Err(Refusal::Buffered),
            _ => Ok(()),
        }
    }

    fn add(&mut self, user: &Arc<str>, item: Item, amount: usize) {
        let account = self.by_user.entry(user.clone()).or_default();
        match item {
            Item::Request => account.requests += amount,
            Item::Watch => {
                account.watches += amount;
                self.watches += amount;
            }
            Item::Bytes => {
                account.bytes += amount;
                self.bytes += amount;
            }
        }
    }

    fn remove(&mut self, user: &str, item: Item, amount: usize) {
        let Some(account) = self.by_user.get_mut(user) else {
            return;
        };
        match item {
            Item::Request => account.requests -= amount,
            Item::Watch => {
                account.watches -= amount;
                self.watches -= amount;
            }
            Item::Bytes => {
                account.bytes -= amount;
                self.bytes -= amount;
            }
        }
        if *account == Account::default() {
            self.by_user.remove(user);
        }
    }
}

impl Entry {
    pub(super) fn user(&self) -> &Arc<str> {
        &self.user
    }

    /// Adds to it, if the limits allow it.
    pub(super) fn grow(&mut self, amount: usize) -> Result<(), Refusal> {
        let mut accounts = self.ledger.accounts.lock();
        accounts.check(&self.ledger.limits, &self.user, self.item, amount)?;
        accounts.add(&self.user, self.item, amount);
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut accounts = self.ledger.accounts.lock();
        accounts.remove(&self.user, self.item, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Share;
    use super::*;

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger::new(Limits {
            watches: 3,
            buffered: 100,
            identity: Share {
                requests: 2,
                watches: 2,
                buffered: 80,
                ..Share::default()
            },
            ..Limits::default()
        }))
    }

    #[test]
    fn one_identity_has_its_share_and_gets_it_back() {
        let ledger = ledger();
        let enter = |user, item| ledger.enter(user, item, 1);
        let two = [enter("a", Item::Request), enter("a", Item::Request)];
        assert_eq!(
            enter("a", Item::Request).err(),
            Some(Refusal::Requests),
            "a third"
        );
        assert!(enter("b", Item::Request).is_ok());
        drop(two);
        assert!(enter("a", Item::Request).is_ok());
        let _watches = [enter("a", Item::Watch), enter("a", Item::Watch)];
        assert_eq!(enter("a", Item::Watch).err(), Some(Refusal::Watches));
        let _third = enter("b", Item::Watch).unwrap();
        assert_eq!(enter("c", Item::Watch).err(), Some(Refusal::Watches));
    }

    #[test]
    fn when_memory_is_full_an_identity_still_gets_its_even_share() {
        let ledger = ledger();
        let mut hoarder = ledger.enter("a", Item::Bytes, 70).unwrap();
        assert_eq!(hoarder.grow(11), Err(Refusal::Buffered), "beyond its share");
        let _other = ledger.enter("b", Item::Bytes, 30).unwrap();
        assert_eq!(hoarder.grow(1), Err(Refusal::Buffered));
        let small = ledger.enter("c", Item::Bytes, 33).unwrap();
        let unsent = ledger.note("a", 20);
        assert_eq!(
            ledger.enter("a", Item::Request, 1).err(),
            Some(Refusal::Buffered),
            "answers that are not taken"
        );
        assert!(ledger.enter("d", Item::Request, 1).is_ok());
        drop((hoarder, small, unsent));
        assert_eq!(ledger.accounts.lock().bytes, 30);
        assert_eq!(ledger.accounts.lock().by_user.len(), 1);
    }
}
