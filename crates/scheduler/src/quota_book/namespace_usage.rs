//! The FederatedResourceQuotas of one namespace and the usage of its bindings.

use std::collections::BTreeMap;

use berth_api::federated_quota::{Amounts, Charge, QuotaExceeded, charge};
use berth_api::federated_resource_quota::FederatedResourceQuotaStatus;
use berth_api::{BindingKey, FederatedResourceQuota};

use super::ledger::Ledger;

/// The quotas of a namespace and the usage of its bindings.
#[derive(Clone, Debug, Default)]
pub(super) struct NamespaceUsage {
    quotas: BTreeMap<String, FederatedResourceQuota>,
    pub(super) ledger: Ledger,
}

impl NamespaceUsage {
    /// Creates the usage of a namespace without quotas.
    pub(super) fn of(ledger: Ledger) -> Self {
        Self {
            quotas: BTreeMap::new(),
            ledger,
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

    /// Checks whether all quotas allow the usage for a binding, beside the reserved usage of other bindings.
    pub(super) fn check_beside(
        &self,
        reserved: &Amounts,
        key: &BindingKey,
        wanted: &Amounts,
    ) -> Result<(), Box<QuotaExceeded>> {
        let Some(growth) = self.ledger.growth_of_stored(key, wanted) else {
            return Ok(());
        };
        let used = growth.used + reserved.clone();
        for quota in self.quotas.values() {
            let with_used = FederatedResourceQuota {
                metadata: quota.metadata.clone(),
                spec: quota.spec.clone(),
                status: Some(FederatedResourceQuotaStatus {
                    overall_used: used.to_list(),
                    ..FederatedResourceQuotaStatus::default()
                }),
            };
            if let Charge::Exceeded(exceeded) = charge(&growth.change, &with_used) {
                return Err(Box::new(exceeded));
            }
        }
        Ok(())
    }
}
