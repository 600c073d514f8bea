//! The quotas of one namespace and the usage of its bindings.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::FederatedResourceQuota;
use berth_api::federated_quota::{Amounts, Charge, QuotaExceeded, charge};
use berth_api::federated_resource_quota::FederatedResourceQuotaStatus;

/// A decision that a quota refused.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) priority: i32,
    pub(super) number: u64,
    /// Usage of the binding after the decision.
    pub(super) wanted: Amounts,
}

impl Refusal {
    /// Returns the sort key of the order in which refused bindings get room.
    pub(super) fn order(&self) -> (Reverse<i32>, u64) {
        (Reverse(self.priority), self.number)
    }
}

/// The usage of a binding.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Account {
    /// Usage of the stored binding.
    pub(super) stored: Amounts,
    /// Maximum of the stored usage and the usage in flight.
    pub(super) maximum: Amounts,
}

/// The quotas of a namespace and the usage of its bindings.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceUsage {
    quotas: BTreeMap<String, FederatedResourceQuota>,
    accounts: HashMap<Arc<str>, Account>,
    /// Sum of the maximum usage of all bindings.
    total: Amounts,
}

impl NamespaceUsage {
    /// Creates the usage of a namespace without quotas from the accounts of its bindings.
    pub(super) fn of(accounts: HashMap<Arc<str>, Account>) -> Self {
        let usages = accounts.values();
        let total = usages.map(|account| account.maximum.clone()).sum();
        Self {
            quotas: BTreeMap::new(),
            accounts,
            total,
        }
    }

    /// Adds or replaces a quota. Reports whether its limits changed.
    pub(super) fn set_quota(&mut self, quota: FederatedResourceQuota) -> bool {
        let name = quota.metadata.name.clone().unwrap_or_default();
        let limits = quota.spec.overall.clone();
        let old = self.quotas.insert(name, quota);
        old.is_none_or(|old| old.spec.overall != limits)
    }

    pub(super) fn remove_quota(&mut self, name: &str) {
        self.quotas.remove(name);
    }

    pub(super) fn has_quotas(&self) -> bool {
        !self.quotas.is_empty()
    }

    pub(super) fn quota_names(&self) -> impl Iterator<Item = &str> {
        self.quotas.keys().map(String::as_str)
    }

    /// Returns the usage of a binding, or `None` for an unknown binding.
    pub(super) fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.get(name)
    }

    /// Sets the usage of a binding. Reports whether the total usage of a resource fell.
    pub(super) fn set(&mut self, name: &Arc<str>, account: Account) -> bool {
        let new = account.maximum.clone();
        let old = self.accounts.insert(Arc::clone(name), account);
        let old = old.map(|account| account.maximum).unwrap_or_default();
        self.replace_in_total(old, new)
    }

    /// Removes a binding. Reports whether the total usage of a resource fell.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        match self.accounts.remove(name) {
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
    pub(super) fn growth(&self, name: &str, wanted: &Amounts) -> Amounts {
        let account = self.accounts.get(name).cloned().unwrap_or_default();
        account.maximum.clone().max(wanted) - account.maximum
    }

    /// Checks whether all quotas allow the usage for a binding, beside the reserved usage of other bindings.
    pub(super) fn check_beside(
        &self,
        reserved: &Amounts,
        name: &str,
        wanted: &Amounts,
    ) -> Result<(), Box<QuotaExceeded>> {
        let account = self.accounts.get(name).cloned().unwrap_or_default();
        let change = wanted.clone() - account.stored.clone();
        if change.clone().positive().is_empty() {
            return Ok(());
        }
        let used = self.total.clone() + reserved.clone() - account.maximum + account.stored;
        for quota in self.quotas.values() {
            let with_used = FederatedResourceQuota {
                metadata: quota.metadata.clone(),
                spec: quota.spec.clone(),
                status: Some(FederatedResourceQuotaStatus {
                    overall_used: used.to_list(),
                    ..FederatedResourceQuotaStatus::default()
                }),
            };
            if let Charge::Exceeded(exceeded) = charge(&change, &with_used) {
                return Err(Box::new(exceeded));
            }
        }
        Ok(())
    }
}
