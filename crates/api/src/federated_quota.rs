//! Enforcement of FederatedResourceQuotas: the usage of bindings, and the decision whether a quota allows a change.
//!
//! A binding uses the requests of the replicas that the scheduler has assigned to clusters. An unscheduled binding uses
//! nothing. Admission charges each change of the usage to the quotas of the namespace before the change is stored, so
//! that the usage never exceeds a limit. Controllers recompute the usage from the stored bindings.
//!
//! All functions are pure, and all amounts are exact.
//!
//! ```
//! use berth_api::federated_quota::{Charge, charge, delta};
//! use berth_api::{FederatedResourceQuota, ResourceBinding};
//! use serde_json::json;
//!
//! let quota: FederatedResourceQuota = serde_json::from_value(json!({
//!     "metadata": { "namespace": "shop", "name": "team" },
//!     "spec": { "overall": { "cpu": "1" } },
//!     "status": { "overallUsed": { "cpu": "700m" } },
//! }))?;
//! let binding: ResourceBinding = serde_json::from_value(json!({
//!     "metadata": { "namespace": "shop", "name": "web-deployment" },
//!     "spec": {
//!         "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
//!         "replicaRequirements": { "resourceRequest": { "cpu": "200m" } },
//!         "clusters": [{ "name": "member1", "replicas": 2 }],
//!     },
//! }))?;
//! let Charge::Exceeded(refusal) = charge(&delta(None, &binding.spec), &quota) else {
//!     panic!("the usage would be 1.1 cores")
//! };
//! assert_eq!(
//!     refusal.to_string(),
//!     "FederatedResourceQuota(shop/team) exceeded for resource cpu: requested sum 1100m, limit 1."
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

mod amounts;
#[cfg(test)]
mod tests;

pub use amounts::Amounts;

use std::collections::BTreeMap;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::binding::BindingSpec;
use crate::cluster::ResourceList;
use crate::federated_resource_quota::FederatedResourceQuota;

/// The reason in the status of a write that a quota refuses. Clients compare it.
pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";

/// Returns the resources that a binding uses: the requests of all replicas in its clusters. Of a binding with
/// components, each cluster runs all replicas of all components.
pub fn usage(binding: &BindingSpec) -> Amounts {
    if !binding.components.is_empty() {
        let clusters = i64::try_from(binding.clusters.len()).unwrap_or(i64::MAX);
        let components = binding.components.iter();
        let per_cluster: Amounts = components
            .filter_map(|component| {
                let requirements = component.replica_requirements.as_ref()?;
                let request = Amounts::of(&requirements.resource_request);
                Some(request.times(i64::from(component.replicas)))
            })
            .sum();
        return per_cluster.times(clusters);
    }
    let Some(requirements) = &binding.replica_requirements else {
        return Amounts::default();
    };
    let replicas = binding.clusters.iter();
    let replicas = replicas.map(|target| i64::from(target.replicas)).sum();
    Amounts::of(&requirements.resource_request).times(replicas)
}

/// Returns the change of the usage by a write. `old` is the stored binding of an update.
pub fn delta(old: Option<&BindingSpec>, new: &BindingSpec) -> Amounts {
    let before = old.map(usage).unwrap_or_default();
    usage(new) - before
}

/// The effect of a change of the usage on a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The change concerns no resource of the quota.
    Unaffected,
    /// The quota allows the change, and this is its new usage.
    Used(Amounts),
    /// The quota refuses the change.
    Exceeded(QuotaExceeded),
}

/// The refusal of a change. Its text is the same as in Karmada.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "FederatedResourceQuota({namespace}/{quota}) exceeded for resource {resource}: requested sum {requested}, limit {limit}."
)]
pub struct QuotaExceeded {
    /// The namespace of the quota.
    pub namespace: String,
    /// The name of the quota.
    pub quota: String,
    /// The name of the resource whose limit is exceeded.
    pub resource: String,
    /// The usage that the change would lead to.
    pub requested: Quantity,
    /// The limit.
    pub limit: Quantity,
}

/// Decides whether a quota allows a change of the usage, given the usage in its status.
///
/// Only resources whose usage grows can exceed their limits. Therefore, workloads can always shrink, also after a limit
/// was lowered below the usage.
pub fn charge(delta: &Amounts, quota: &FederatedResourceQuota) -> Charge {
    let change = delta.only(&quota.spec.overall);
    if change.is_empty() {
        return Charge::Unaffected;
    }
    let sum = used(quota) + change.clone();
    for (resource, text) in &quota.spec.overall {
        let Ok(limit) = text.parse() else { continue };
        let requested = sum.get(resource);
        if change.get(resource) > Quantity::ZERO && requested > limit {
            return Charge::Exceeded(QuotaExceeded {
                namespace: quota.metadata.namespace.clone().unwrap_or_default(),
                quota: quota.metadata.name.clone().unwrap_or_default(),
                resource: resource.clone(),
                requested,
                limit,
            });
        }
    }
    Charge::Used(sum.positive())
}

/// Returns the usage of the limited resources by a set of bindings.
pub fn total_usage<'a>(
    bindings: impl IntoIterator<Item = &'a BindingSpec>,
    quota: &FederatedResourceQuota,
) -> Amounts {
    let total: Amounts = bindings.into_iter().map(usage).sum();
    total.only(&quota.spec.overall)
}

/// Returns a quota as JSON with another usage. Unknown fields are kept.
pub fn with_used(quota: &Value, used: &Amounts) -> Value {
    let mut changed = quota.clone();
    if !changed["status"].is_object() {
        changed["status"] = json!({});
    }
    changed["status"]["overallUsed"] = json!(used.to_list());
    changed
}

/// Returns a merge patch of the status that sets the usage of a quota, if the quota has not changed since it was read.
pub fn patch_used(quota: &FederatedResourceQuota, new: &Amounts) -> Value {
    let status = quota.status.as_ref();
    let former = status.map(|status| &status.overall_used);
    let former = former.into_iter().flat_map(ResourceList::keys);
    let mut fields: BTreeMap<String, Value> = former
        .map(|resource| (resource.clone(), Value::Null))
        .collect();
    let kept = new.to_list();
    fields.extend(
        kept.into_iter()
            .map(|(resource, text)| (resource, json!(text))),
    );
    json!({
        "metadata": { "resourceVersion": quota.metadata.resource_version },
        "status": { "overallUsed": fields },
    })
}

/// Returns the usage in the status of a quota.
pub fn used(quota: &FederatedResourceQuota) -> Amounts {
    let status = quota.status.as_ref();
    status
        .map(|status| Amounts::of(&status.overall_used))
        .unwrap_or_default()
}
