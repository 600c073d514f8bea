//! The enforcement controller: recalculates the usage of a quota from the bindings of its namespace. The rules are in
//! [`recalculation`](super::recalculation).

use std::collections::{BTreeMap, HashMap};

use berth_api::federated_quota::{Amounts, total_usage, usage, used};
use berth_api::{FederatedResourceQuota, ResourceBinding};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;

use super::recalculation::{Charges, IN_FLIGHT, recalculated};
use super::status::status_patch;
use super::status_writer::write_status;
use crate::reconciler::observe::ObjectName;

/// Shortest time to the next recalculation of a usage that may not be exact.
const SHORTEST_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// The usage of a deleted binding.
#[derive(Clone, Debug)]
pub(super) struct Freed {
    uid: String,
    /// The resourceVersion of the deletion.
    version: u64,
    usage: Amounts,
}

impl Freed {
    /// Returns the usage of a deleted binding in its last state, or `None` if the binding cannot be read.
    pub(super) fn of(binding: &DynamicObject) -> Option<Self> {
        Some(Self {
            uid: binding.uid()?,
            version: binding.resource_version()?.parse().ok()?,
            usage: usage(&binding.clone().try_parse::<ResourceBinding>().ok()?.spec),
        })
    }
}

/// The observations of the quotas that a recalculation needs.
#[derive(Debug, Default)]
pub(super) struct Enforcement {
    ledgers: HashMap<ObjectName, Ledger>,
}

/// The observations of one quota.
#[derive(Debug)]
struct Ledger {
    /// The last observed resourceVersion.
    version: Option<String>,
    /// The last observed usage.
    used: Amounts,
    /// The time since which the usage has been observed without a change.
    since: Instant,
    /// The deleted bindings that are not subtracted yet, by their uid.
    freed: BTreeMap<String, Freed>,
    /// The version of the list of the last exact recalculation. It does not contain bindings that were deleted before.
    exact_at: u64,
    /// The time of the last recalculation that was scheduled to make the usage exact.
    scheduled: Option<Instant>,
}

impl Ledger {
    /// Schedules a recalculation at the time `due`, unless an earlier one is scheduled, which then schedules another
    /// one. Returns the time if it was scheduled.
    fn schedule(&mut self, due: Instant) -> Option<Instant> {
        let now = Instant::now();
        if self.scheduled.is_some_and(|scheduled| scheduled > now) {
            return None;
        }
        self.scheduled = Some(due);
        self.scheduled
    }
}

/// The part of the observations that one recalculation uses.
#[derive(Clone, Debug)]
pub(super) struct Known {
    version: Option<String>,
    since: Instant,
    freed: Vec<Freed>,
}

/// A finished recalculation.
#[derive(Debug)]
pub(super) struct Recalculated {
    charges: Charges,
    /// The version of the list of bindings.
    listed_at: u64,
    /// The uids of the deleted bindings that are subtracted.
    subtracted: Vec<String>,
    /// The time of the next recalculation, if the usage may not be exact.
    due: Option<Instant>,
}

impl Enforcement {
    /// Records the state of a quota. Returns the time at which the usage must be recalculated, if it has changed: the
    /// binding of a charge may not have been stored.
    pub(super) fn observe(
        &mut self,
        name: &ObjectName,
        quota: &FederatedResourceQuota,
    ) -> Option<Instant> {
        let (used, version, now) = (used(quota), quota.resource_version(), Instant::now());
        let Some(ledger) = self.ledgers.get_mut(name) else {
            let ledger = Ledger {
                version,
                used,
                since: now,
                freed: BTreeMap::new(),
                exact_at: 0,
                scheduled: None,
            };
            self.ledgers.insert(name.clone(), ledger);
            return None;
        };
        ledger.version = version;
        if ledger.used == used {
            return None;
        }
        ledger.used = used;
        ledger.since = now;
        ledger.schedule(now + IN_FLIGHT)
    }

    /// Handles a gap in the watch of quotas, in which the usage may have changed and changed back.
    pub(super) fn handle_gap(&mut self) {
        for ledger in self.ledgers.values_mut() {
            ledger.since = Instant::now();
        }
    }

    /// Forgets a deleted quota.
    pub(super) fn forget(&mut self, name: &ObjectName) {
        self.ledgers.remove(name);
    }

    /// Records the deletion of a binding that a quota may still count.
    pub(super) fn free(&mut self, name: &ObjectName, freed: &Freed) {
        if let Some(ledger) = self.ledgers.get_mut(name)
            && freed.version > ledger.exact_at
        {
            ledger.freed.insert(freed.uid.clone(), freed.clone());
        }
    }

    /// Returns the observations for a recalculation. A quota that was not observed yet counts as just changed.
    pub(super) fn known(&self, name: &ObjectName, now: Instant) -> Known {
        let ledger = self.ledgers.get(name);
        Known {
            version: ledger.and_then(|ledger| ledger.version.clone()),
            since: ledger.map_or(now, |ledger| ledger.since),
            freed: ledger
                .map(|ledger| ledger.freed.values().cloned().collect())
                .unwrap_or_default(),
        }
    }

    /// Records a finished recalculation. Returns the time of the next one, if the usage may not be exact.
    pub(super) fn finish(&mut self, name: &ObjectName, done: Recalculated) -> Option<Instant> {
        let ledger = self.ledgers.get_mut(name)?;
        match done.charges {
            Charges::Stored => {
                ledger.exact_at = done.listed_at;
                ledger
                    .freed
                    .retain(|_, freed| freed.version > done.listed_at);
            }
            Charges::InFlight => {
                for uid in &done.subtracted {
                    ledger.freed.remove(uid);
                }
            }
        }
        ledger.schedule(done.due?)
    }
}

/// Recalculates the limits and the usage in the status of a quota. Returns `None` if the quota is deleted.
pub(super) async fn recalculate(
    client: &Client,
    name: &ObjectName,
    known: Known,
) -> Result<Option<Recalculated>, kube::Error> {
    let quotas: Api<FederatedResourceQuota> = Api::namespaced(client.clone(), &name.0);
    let Some(quota) = quotas.get_opt(&name.1).await? else {
        return Ok(None);
    };
    if quota.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let exact_from = known.since + IN_FLIGHT;
    // An unobserved version may contain a new charge.
    let is_observed = quota.resource_version() == known.version;
    let charges = if is_observed && Instant::now() >= exact_from {
        Charges::Stored
    } else {
        Charges::InFlight
    };
    let (bindings, listed_at) = bindings(client, &name.0).await?;
    let specs = bindings.iter().map(|binding| &binding.spec);
    let bound = total_usage(specs, &quota);
    let freed: Amounts = known.freed.iter().map(|freed| freed.usage.clone()).sum();
    let usage = recalculated(&quota, &bound, &freed, charges);
    let due =
        (charges == Charges::InFlight).then(|| exact_from.max(Instant::now() + SHORTEST_WAIT));
    let old = quota.status.clone().unwrap_or_default();
    let mut new = old.clone();
    new.overall = quota.spec.overall.clone();
    if used(&quota) != usage || new.overall != old.overall {
        new.overall_used = usage.to_list();
    }
    if let Some(patch) = status_patch(&quota, &old, &new) {
        write_status(client, name, patch).await?;
    }
    let subtracted = known.freed.into_iter().map(|freed| freed.uid).collect();
    Ok(Some(Recalculated {
        charges,
        listed_at,
        subtracted,
        due,
    }))
}

/// Lists the bindings of a namespace with a consistent read, and returns the version of the list, too. A binding that
/// cannot be read uses nothing.
async fn bindings(
    client: &Client,
    namespace: &str,
) -> Result<(Vec<ResourceBinding>, u64), kube::Error> {
    let resource = ApiResource::erase::<ResourceBinding>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let list = api.list(&ListParams::default()).await?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let objects = list.items.into_iter();
    let bindings = objects.filter_map(|object| object.try_parse().ok());
    Ok((bindings.collect(), version.parse().unwrap_or_default()))
}

#[cfg(test)]
mod tests;
