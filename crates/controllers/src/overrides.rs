//! Selection of the override policies that apply to a resource in a cluster, and their application to the resource.
//!
//! ClusterOverridePolicies are applied first, and then the OverridePolicies of the resource's namespace. A value of an
//! OverridePolicy therefore replaces a value of a ClusterOverridePolicy. Policies of one kind are applied in the order
//! of their precision, the least precise policy first, and then in the order of their names. All functions outside
//! [`recorded_events`] are pure. This module must not depend on the sources of policies and clusters.

mod containers;
mod error;
mod image;
mod json_text;
mod overriders;
pub(crate) mod recorded_events;
mod yaml_text;

use std::sync::Arc;

use berth_api::Cluster;
use berth_api::override_policy::{OverrideSpec, Overriders, RuleWithCluster};
use berth_api::protected_fields::{changed_identity, changed_rights};
use serde::Serialize;
use serde_json::Value;

use self::error::ApplyError;
#[cfg(fuzzing)]
pub(crate) use self::overriders::apply as apply_overriders;

use crate::resource_selector::{Precision, ResourceIdentity, Selector};

/// An override policy of either kind, with compiled selectors.
#[derive(Clone, Debug)]
pub(crate) struct OverridePolicy {
    pub(crate) name: String,
    /// The valid selectors. An invalid selector selects nothing.
    selectors: Vec<Selector>,
    /// True if the policy has no selectors, and therefore selects all resources.
    selects_all: bool,
    rules: Vec<RuleWithCluster>,
}

/// The two kinds of override policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OverrideKind {
    /// An OverridePolicy, which can select resources of its own namespace.
    Namespaced,
    /// A ClusterOverridePolicy, which can select resources of all namespaces and cluster-scoped resources.
    Cluster,
}

/// The policies that may apply to a resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverrideSet {
    /// ClusterOverridePolicies.
    pub(crate) cluster: Vec<Arc<OverridePolicy>>,
    /// OverridePolicies of the resource's namespace.
    pub(crate) namespaced: Vec<Arc<OverridePolicy>>,
}

/// The policies that were applied to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppliedOverrides {
    /// The annotation about ClusterOverridePolicies, as JSON. `None` if no such policy was applied.
    pub(crate) cluster: Option<String>,
    /// The annotation about OverridePolicies, as JSON. `None` if no such policy was applied.
    pub(crate) namespaced: Option<String>,
    /// Names of the applied ClusterOverridePolicies.
    pub(crate) cluster_names: Vec<String>,
    /// Names of the applied OverridePolicies.
    pub(crate) namespaced_names: Vec<String>,
}

/// An error: a policy cannot be applied.
#[derive(Debug, thiserror::Error)]
#[error("{} {policy:?} cannot be applied: {reason}", match kind {
    OverrideKind::Namespaced => "override policy",
    OverrideKind::Cluster => "cluster override policy",
})]
pub(crate) struct OverrideError {
    pub(crate) kind: OverrideKind,
    /// The name of the policy.
    pub(crate) policy: String,
    pub(crate) reason: ApplyError,
}

/// An entry of the annotation about applied policies.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    policy_name: &'a str,
    overriders: Overriders,
}

/// Returns overriders as Karmada records them. Karmada records a `value` even for the operator `remove`.
fn recorded(overriders: &Overriders) -> Overriders {
    let mut recorded = overriders.clone();
    let plain = recorded.plaintext.iter_mut().map(|one| &mut one.value);
    let fields = recorded.field_overrider.iter_mut();
    let texts = fields.flat_map(|field| field.json.iter_mut().chain(&mut field.yaml));
    for value in plain.chain(texts.map(|one| &mut one.value)) {
        value.get_or_insert_default();
    }
    recorded
}

impl OverridePolicy {
    /// Compiles the selectors of a policy.
    pub(crate) fn new(name: &str, spec: &OverrideSpec) -> Self {
        let selectors = spec.resource_selectors.iter();
        Self {
            name: name.to_owned(),
            selectors: selectors.flat_map(Selector::compile).collect(),
            selects_all: spec.resource_selectors.is_empty(),
            rules: spec.rules(),
        }
    }

    /// Returns the precision with which the policy selects a resource, or `None` if the policy does not select it.
    pub(crate) fn precision(&self, resource: &ResourceIdentity<'_>) -> Option<Precision> {
        if self.selects_all {
            return Some(Precision::All);
        }
        let selectors = self.selectors.iter();
        selectors.filter_map(|s| s.precision_of(resource)).max()
    }

    /// Reports whether the policy may select a resource of this kind and name. The labels of the resource are not
    /// compared.
    pub(crate) fn may_select(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let mut selectors = self.selectors.iter();
        self.selects_all || selectors.any(|s| s.may_match(api_version, kind, namespace, name))
    }
}

impl OverrideSet {
    /// Applies the policies to a resource for a cluster.
    ///
    /// # Errors
    /// When an overrider cannot be applied.
    pub(crate) fn apply(
        &self,
        resource: &mut Value,
        cluster: &Cluster,
    ) -> Result<AppliedOverrides, OverrideError> {
        let (cluster_names, of_cluster) =
            apply_kind(OverrideKind::Cluster, &self.cluster, resource, cluster)?;
        let (namespaced_names, of_namespace) = apply_kind(
            OverrideKind::Namespaced,
            &self.namespaced,
            resource,
            cluster,
        )?;
        Ok(AppliedOverrides {
            cluster: of_cluster,
            namespaced: of_namespace,
            cluster_names,
            namespaced_names,
        })
    }
}

fn apply_kind(
    kind: OverrideKind,
    policies: &[Arc<OverridePolicy>],
    resource: &mut Value,
    cluster: &Cluster,
) -> Result<(Vec<String>, Option<String>), OverrideError> {
    let original = resource.clone();
    let identity = ResourceIdentity::of(&original);
    let mut selected: Vec<(Precision, &Arc<OverridePolicy>)> = policies
        .iter()
        .filter_map(|policy| Some((policy.precision(&identity)?, policy)))
        .collect();
    selected.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let mut records = Vec::new();
    for (_, policy) in selected {
        for rule in &policy.rules {
            let target = rule.target_cluster.as_ref();
            if !target.is_none_or(|affinity| affinity.matches(cluster)) {
                continue;
            }
            overriders::apply(resource, &rule.overriders)
                .and_then(|()| check_protected(kind, &original, resource))
                .map_err(|reason| OverrideError {
                    kind,
                    policy: policy.name.clone(),
                    reason,
                })?;
            records.push(Record {
                policy_name: &policy.name,
                overriders: recorded(&rule.overriders),
            });
        }
    }
    // Karmada sorts the annotation by name.
    records.sort_by_key(|record| record.policy_name);
    let mut names: Vec<String> = records.iter().map(|r| r.policy_name.to_owned()).collect();
    names.dedup();
    if records.is_empty() {
        return Ok((names, None));
    }
    let text = serde_json::to_string(&records).map_err(|error| OverrideError {
        kind,
        policy: names.join(","),
        reason: error.into(),
    })?;
    Ok((names, Some(json_text::compact(&text))))
}

/// Checks that overrides kept the fields that policies of this kind must not change. Admission refuses such overrides
/// too, but a policy may be older than the admission rules.
fn check_protected(kind: OverrideKind, before: &Value, after: &Value) -> Result<(), ApplyError> {
    if let Some(field) = changed_identity(before, after) {
        return Err(ApplyError::Identity(field));
    }
    match kind {
        OverrideKind::Namespaced => match changed_rights(before, after) {
            Some(field) => Err(ApplyError::Rights(field)),
            None => Ok(()),
        },
        OverrideKind::Cluster => Ok(()),
    }
}

#[cfg(test)]
mod tests;
