//! The usage of a set of bindings. Each owner of limits, a namespace or a ClusterQueue, has a ledger.

use std::collections::HashMap;

use berth_api::BindingKey;
use berth_api::federated_quota::Amounts;

/// The usage of a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// Usage of the stored binding.
    pub(super) stored: Amounts,
    /// Maximum of the stored usage and the usage in flight.
    pub(super) maximum: Amounts,
}

/// A decision that raises the usage of a resource.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    /// The change of the stored usage of the binding.
    pub(super) change: Amounts,
    /// The total usage of the ledger, with the stored usage of the binding.
    pub(super) used: Amounts,
}

/// The usage of each binding of an owner, and their sum.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    accounts: HashMap<BindingKey, Account>,
    /// Sum of the maximum usage of all bindings.
    total: Amounts,
}

impl Ledger {
    /// Creates a ledger from the accounts of bindings.
    pub(super) fn of(accounts: HashMap<BindingKey, Account>) -> Self {
        let usages = accounts.values();
        let total = usages.map(|account| account.maximum.clone()).sum();
        Self { accounts, total }
    }

    /// Returns the sum of the maximum usage of all bindings.
    pub(super) fn total(&self) -> &Amounts {
        &self.total
    }

    /// Returns the usage of a binding, or `None` for an unknown binding.
    pub(super) fn account(&self, key: &BindingKey) -> Option<&Account> {
        self.accounts.get(key)
    }

    /// Sets the usage of a binding. Reports whether the total usage of a resource fell.
    pub(super) fn set(&mut self, key: &BindingKey, account: Account) -> bool {
        let new = account.maximum.clone();
        let old = self.accounts.insert(key.clone(), account);
        let old = old.map(|account| account.maximum).unwrap_or_default();
        self.replace_in_total(old, new)
    }

    /// Removes a binding. Reports whether the total usage of a resource fell.
    pub(super) fn remove(&mut self, key: &BindingKey) -> bool {
        match self.accounts.remove(key) {
            None => false,
            Some(account) => self.replace_in_total(account.maximum, Amounts::default()),
        }
    }

    fn replace_in_total(&mut self, old: Amounts, new: Amounts) -> bool {
        if old == new {
            return false;
        }
        let change = new - old;
        let decrease = change.times(-1).positive();
        self.total = std::mem::take(&mut self.total) + change;
        !decrease.is_empty()
    }

    /// Returns the growth of the total usage if a binding gets this usage.
    pub(super) fn growth(&self, key: &BindingKey, wanted: &Amounts) -> Amounts {
        let account = self.accounts.get(key).cloned().unwrap_or_default();
        account.maximum.clone().max(wanted) - account.maximum
    }

    /// Returns the growth of the stored usage of a binding, or `None` if the usage of no resource grows.
    pub(super) fn growth_of_stored(&self, key: &BindingKey, wanted: &Amounts) -> Option<Growth> {
        let account = self.accounts.get(key).cloned().unwrap_or_default();
        let change = wanted.clone() - account.stored.clone();
        if change.clone().positive().is_empty() {
            return None;
        }
        let used = self.total.clone() - account.maximum + account.stored;
        Some(Growth { change, used })
    }
}
