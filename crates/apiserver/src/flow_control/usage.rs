//! The requests, watches and buffered bytes of each identity.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Limits, Rejection};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Request,
    Watch,
    Bytes,
}

/// The current usage of all identities.
#[derive(Debug)]
pub(super) struct Usage {
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

/// An amount that counts for an identity until it is dropped.
#[derive(Debug)]
pub(super) struct UsageEntry {
    usage: Arc<Usage>,
    user: Arc<str>,
    item: Item,
    amount: usize,
}

impl Usage {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            accounts: Mutex::default(),
        }
    }

    /// Adds an amount if the limits allow it.
    pub(super) fn enter(
        self: &Arc<Self>,
        user: &str,
        item: Item,
        amount: usize,
    ) -> Result<UsageEntry, Rejection> {
        let mut accounts = self.accounts.lock();
        accounts.check(&self.limits, user, item, amount)?;
        Ok(self.entry(&mut accounts, user, item, amount))
    }

    /// Adds bytes regardless of the limits.
    pub(super) fn enter_unchecked(self: &Arc<Self>, user: &str, bytes: usize) -> UsageEntry {
        self.entry(&mut self.accounts.lock(), user, Item::Bytes, bytes)
    }

    fn entry(
        self: &Arc<Self>,
        accounts: &mut Accounts,
        user: &str,
        item: Item,
        amount: usize,
    ) -> UsageEntry {
        let known = accounts.by_user.get_key_value(user);
        let user = known.map_or_else(|| Arc::from(user), |(user, _)| user.clone());
        accounts.add(&user, item, amount);
        UsageEntry {
            usage: self.clone(),
            user,
            item,
            amount,
        }
    }
}

impl Accounts {
    fn check(
        &self,
        limits: &Limits,
        user: &str,
        item: Item,
        amount: usize,
    ) -> Result<(), Rejection> {
        let own = self.by_user.get(user).copied().unwrap_or_default();
        let share = &limits.identity;
        // Unread bytes also block new requests: the size of a response is not known in advance.
        let more = if item == Item::Bytes { amount } else { 0 };
        let mine = own.bytes + more;
        let even_share = limits.buffered / self.by_user.len().max(1);
        let has_memory =
            mine <= share.buffered && (self.bytes + more <= limits.buffered || mine <= even_share);
        match item {
            Item::Request if own.requests + amount > share.requests => Err(Rejection::Requests),
            Item::Watch if own.watches + amount > share.watches => Err(Rejection::Watches),
            Item::Watch if self.watches + amount > limits.watches => Err(Rejection::Watches),
            Item::Request | Item::Bytes if !has_memory => Err(Rejection::Buffered),
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

impl UsageEntry {
    pub(super) fn user(&self) -> &Arc<str> {
        &self.user
    }

    /// Adds to the amount if the limits allow it.
    pub(super) fn grow(&mut self, amount: usize) -> Result<(), Rejection> {
        let mut accounts = self.usage.accounts.lock();
        accounts.check(&self.usage.limits, &self.user, self.item, amount)?;
        accounts.add(&self.user, self.item, amount);
        self.amount += amount;
        Ok(())
    }
}

impl Drop for UsageEntry {
    fn drop(&mut self) {
        let mut accounts = self.usage.accounts.lock();
        accounts.remove(&self.user, self.item, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Share;
    use super::*;

    fn usage() -> Arc<Usage> {
        Arc::new(Usage::new(Limits {
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
    fn released_usage_can_be_reused() {
        let usage = usage();
        let enter = |user, item| usage.enter(user, item, 1);
        let two = [enter("a", Item::Request), enter("a", Item::Request)];
        assert_eq!(
            enter("a", Item::Request).err(),
            Some(Rejection::Requests),
            "a third"
        );
        assert!(enter("b", Item::Request).is_ok());
        drop(two);
        assert!(enter("a", Item::Request).is_ok());
        let _watches = [enter("a", Item::Watch), enter("a", Item::Watch)];
        assert_eq!(enter("a", Item::Watch).err(), Some(Rejection::Watches));
        let _third = enter("b", Item::Watch).unwrap();
        assert_eq!(enter("c", Item::Watch).err(), Some(Rejection::Watches));
    }

    #[test]
    fn full_memory_leaves_each_identity_an_even_share() {
        let usage = usage();
        let mut heavy = usage.enter("a", Item::Bytes, 70).unwrap();
        assert_eq!(heavy.grow(11), Err(Rejection::Buffered), "beyond its share");
        let _other = usage.enter("b", Item::Bytes, 30).unwrap();
        assert_eq!(heavy.grow(1), Err(Rejection::Buffered));
        let small = usage.enter("c", Item::Bytes, 33).unwrap();
        let unsent = usage.enter_unchecked("a", 20);
        assert_eq!(
            usage.enter("a", Item::Request, 1).err(),
            Some(Rejection::Buffered),
            "unread responses count"
        );
        assert!(usage.enter("d", Item::Request, 1).is_ok());
        drop((heavy, small, unsent));
        assert_eq!(usage.accounts.lock().bytes, 30);
        assert_eq!(usage.accounts.lock().by_user.len(), 1);
    }
}
