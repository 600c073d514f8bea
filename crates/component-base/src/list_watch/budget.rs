//! The limits of one server: the number and size of the objects that all of its watches together may keep.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of pages of a server that are in memory at the same time.
const PAGES: usize = 2;

/// Limits of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of objects.
    pub objects: usize,
    /// Maximum size of all objects, in bytes of JSON.
    pub bytes: usize,
}

/// A server has more objects than its limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server has more than {} objects or {} MiB of objects to watch, which is its limit",
    .0.objects,
    .0.bytes >> 20
)]
pub struct LimitExceeded(Limits);

/// The budget of one server, which its watches share. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    limits: Limits,
    objects: AtomicUsize,
    bytes: AtomicUsize,
    pages: Arc<Semaphore>,
}

impl Budget {
    /// Creates the budget of a server. Log lines contain the name.
    pub fn new(name: String, limits: Limits) -> Self {
        Self(Arc::new(Shared {
            name,
            limits,
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            pages: Arc::new(Semaphore::new(PAGES)),
        }))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    /// Waits until another page of the server may be in memory.
    pub(super) async fn page_permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.0.pages).acquire_owned().await.ok()
    }

    /// Creates the account of one watch.
    pub(super) fn account(&self) -> Account {
        Account {
            budget: self.clone(),
            hasher: RandomState::new(),
            list: 0,
            charges: HashMap::new(),
        }
    }

    fn add(&self, bytes: usize) {
        self.0.objects.fetch_add(1, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.0.objects.fetch_sub(1, Ordering::Relaxed);
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn check(&self) -> Result<(), LimitExceeded> {
        let Limits { objects, bytes } = self.0.limits;
        let exceeded = self.0.objects.load(Ordering::Relaxed) > objects
            || self.0.bytes.load(Ordering::Relaxed) > bytes;
        if exceeded {
            return Err(LimitExceeded(self.0.limits));
        }
        Ok(())
    }
}

/// The objects of one watch.
#[derive(Debug)]
pub(super) struct Account {
    budget: Budget,
    hasher: RandomState,
    /// The number of lists. A charge that is older than the last list belongs to a deleted object.
    list: u32,
    charges: HashMap<u64, Charge>,
}

#[derive(Clone, Copy, Debug)]
struct Charge {
    bytes: usize,
    list: u32,
}

impl Account {
    pub(super) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Refunds the objects that the list does not contain.
    pub(super) fn end_list(&mut self) {
        let (budget, list) = (&self.budget, self.list);
        self.charges.retain(|_, charge| {
            let is_listed = charge.list == list;
            if !is_listed {
                budget.subtract(charge.bytes);
            }
            is_listed
        });
    }

    /// Charges a new or changed object. If the limits are exceeded, all objects of the watch are refunded.
    pub(super) fn charge(
        &mut self,
        metadata: &ObjectMeta,
        bytes: usize,
    ) -> Result<(), LimitExceeded> {
        let charge = Charge {
            bytes,
            list: self.list,
        };
        if let Some(previous) = self.charges.insert(self.key(metadata), charge) {
            self.budget.subtract(previous.bytes);
        }
        self.budget.add(bytes);
        self.budget.check().inspect_err(|_| self.clear())
    }

    pub(super) fn refund(&mut self, metadata: &ObjectMeta) {
        if let Some(charge) = self.charges.remove(&self.key(metadata)) {
            self.budget.subtract(charge.bytes);
        }
    }

    fn clear(&mut self) {
        for (_, charge) in self.charges.drain() {
            self.budget.subtract(charge.bytes);
        }
        self.charges.shrink_to_fit();
    }

    fn key(&self, metadata: &ObjectMeta) -> u64 {
        self.hasher.hash_one((&metadata.namespace, &metadata.name))
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn the_watches_of_a_server_share_its_budget() {
        let limits = Limits {
            objects: 3,
            bytes: 100,
        };
        let budget = Budget::new("m1".to_owned(), limits);
        let mut first = budget.account();
        first.begin_list();
        first.charge(&named("a"), 10).unwrap();
        first.charge(&named("a"), 20).unwrap();
        first.charge(&named("b"), 20).unwrap();
        let mut second = budget.account();
        second.charge(&named("a"), 60).unwrap();
        assert_eq!(second.charge(&named("a"), 61), Err(LimitExceeded(limits)));
        // The objects of the second watch are refunded.
        first.charge(&named("c"), 1).unwrap();
        assert!(first.charge(&named("d"), 1).is_err());
    }

    #[test]
    fn deleted_objects_are_refunded() {
        let limits = Limits {
            objects: 2,
            bytes: 100,
        };
        let budget = Budget::new("m1".to_owned(), limits);
        let mut account = budget.account();
        account.begin_list();
        account.charge(&named("a"), 10).unwrap();
        account.charge(&named("b"), 10).unwrap();
        account.end_list();
        account.refund(&named("a"));
        account.charge(&named("c"), 10).unwrap();
        account.begin_list();
        account.charge(&named("b"), 10).unwrap();
        account.end_list();
        account.charge(&named("d"), 10).unwrap();
        drop(account);
        assert_eq!(budget.0.objects.load(Ordering::Relaxed), 0);
        assert_eq!(budget.0.bytes.load(Ordering::Relaxed), 0);
    }
}
