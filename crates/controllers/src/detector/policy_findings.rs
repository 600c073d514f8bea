//! Findings about valid policies that probably do not do what their author wants: a policy that selects by name a
//! template which another policy holds, and a placement that names a cluster which does not exist.
//!
//! [`findings`] is a pure function. [`PolicyFindings`] reports each finding about a policy once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_api::placement::{ClusterAffinity, Placement};
use tokio::time::Instant;

use super::claim::PolicyKey;
use super::index::Index;
use super::policy::{Policy, PolicyRecord};
use super::policy_change::named_templates;
use crate::resource_type::{ResourceType, TemplateKey};

/// The delay before a check. In this time, the detector claims the templates of a new policy, and clusters that are
/// created together with the policy appear.
const GRACE: Duration = Duration::from_secs(2);

/// A finding about a policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Another policy holds a template that the policy selects by name.
    HeldByAnother {
        /// The template.
        template: String,
        /// The policy that holds the template.
        holder: String,
    },
    /// The placement names a cluster that does not exist.
    NoSuchCluster {
        /// The field with the name.
        field: String,
        /// The name.
        cluster: String,
    },
}

impl Finding {
    /// Returns the reason of the event about the finding.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::HeldByAnother { .. } => "TemplateHeldByAnotherPolicy",
            Self::NoSuchCluster { .. } => "ClusterNotFound",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeldByAnother { template, holder } => write!(
                f,
                "has no effect on {template}, which {holder} holds; delete or narrow that policy, or preempt it with a \
                 higher priority and preemption: Always"
            ),
            Self::NoSuchCluster { field, cluster } => {
                write!(f, "{field} names cluster {cluster}, which does not exist")
            }
        }
    }
}

/// Returns the findings about a policy. `types` are the types of templates, and `clusters` are the names of all clusters.
pub(super) fn findings(
    policy: &Policy,
    index: &Index,
    types: &HashSet<Arc<ResourceType>>,
    clusters: &BTreeSet<String>,
) -> BTreeSet<Finding> {
    let mut found: BTreeSet<Finding> = named_templates(policy, types)
        .iter()
        .filter_map(|key| held_by_another(policy, key, index))
        .collect();
    for (field, cluster) in named_clusters(&policy.spec.placement) {
        if !clusters.contains(cluster) {
            found.insert(Finding::NoSuchCluster {
                field,
                cluster: cluster.clone(),
            });
        }
    }
    found
}

fn held_by_another(policy: &Policy, key: &TemplateKey, index: &Index) -> Option<Finding> {
    let template = index.template(key)?;
    let holder = &template.claim.as_ref()?.policy;
    let holds = *holder != policy.key
        && policy.selects(template)
        && index.policy(holder)?.ready()?.selects(template);
    holds.then(|| Finding::HeldByAnother {
        template: if key.namespace.is_empty() {
            format!("{} {}", key.kind(), key.name)
        } else {
            format!("{} {}/{}", key.kind(), key.namespace, key.name)
        },
        holder: holder.to_string(),
    })
}

/// Returns the fields of a placement that name clusters, with the names.
fn named_clusters(placement: &Placement) -> Vec<(String, &String)> {
    let affinity = placement.cluster_affinity.as_ref();
    let single = affinity.map(|affinity| ("clusterAffinity.".to_owned(), affinity));
    let terms = placement.cluster_affinities.iter().enumerate();
    let terms = terms.flat_map(|(index, term)| {
        let path = format!("clusterAffinities[{index}].");
        let tiers = term.overflow_affinities.iter().enumerate();
        let tiers = tiers.map(move |(tier, overflow)| {
            let path = format!("clusterAffinities[{index}].overflowAffinities[{tier}].");
            (path, &overflow.affinity)
        });
        std::iter::once((path, &term.affinity)).chain(tiers)
    });
    let affinities: Vec<(String, &ClusterAffinity)> = single.into_iter().chain(terms).collect();
    let names = affinities.into_iter().flat_map(|(path, affinity)| {
        let names = affinity.cluster_names.iter().enumerate();
        names
            .map(move |(index, name)| (format!("spec.placement.{path}clusterNames[{index}]"), name))
    });
    names.collect()
}

/// The findings that were reported.
#[derive(Debug, Default)]
pub(super) struct PolicyFindings {
    /// The names of all clusters.
    pub(super) clusters: BTreeSet<String>,
    /// The policies to check.
    changed: HashSet<PolicyKey>,
    reported: HashMap<PolicyKey, BTreeSet<Finding>>,
    due: Option<Instant>,
}

impl PolicyFindings {
    /// Schedules a check of a new or changed policy.
    pub(super) fn policy_changed(&mut self, policy: &PolicyRecord) {
        self.changed.insert(policy.key.clone());
        self.due = Some(Instant::now() + GRACE);
    }

    /// Removes the reports about a deleted policy.
    pub(super) fn forget(&mut self, policy: &PolicyKey) {
        self.changed.remove(policy);
        self.reported.remove(policy);
    }

    /// Returns the time of the next check.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns the findings about changed policies that were not reported yet.
    pub(super) fn check(
        &mut self,
        index: &Index,
        types: &HashSet<Arc<ResourceType>>,
    ) -> Vec<(Arc<PolicyRecord>, Finding)> {
        self.due = None;
        let mut unreported = Vec::new();
        for key in std::mem::take(&mut self.changed) {
            let Some(record) = index.policy(&key) else {
                continue;
            };
            let Some(policy) = record.ready() else {
                continue;
            };
            let found = findings(policy, index, types, &self.clusters);
            let known = self.reported.get(&key);
            let new = found
                .iter()
                .filter(|finding| known.is_none_or(|known| !known.contains(finding)));
            unreported.extend(new.map(|finding| (Arc::clone(record), finding.clone())));
            if found.is_empty() {
                self.reported.remove(&key);
            } else {
                self.reported.insert(key, found);
            }
        }
        unreported
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::claim::PolicyKind;
    use super::super::template::Template;
    use super::*;

    fn record(name: &str, selector: Value, placement: Value) -> Arc<PolicyRecord> {
        let object = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "default",
                "labels": { "propagationpolicy.karmada.io/permanent-id": name },
                "finalizers": ["karmada.io/propagation-policy-controller"] },
            "spec": { "resourceSelectors": [selector], "placement": placement,
                "conflictResolution": "Abort", "preemption": "Never", "priority": 0, "schedulerName": "default-scheduler" },
        }));
        let record = PolicyRecord::from_object(PolicyKind::Namespaced, &object.unwrap());
        assert!(record.ready().is_some(), "{:?}", record.state);
        Arc::new(record)
    }

    fn template(holder: &PolicyRecord) -> Arc<Template> {
        let object = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "default", "uid": "u" } }));
        let template = Template::from_object(&ResourceType::deployments(), object.unwrap());
        Arc::new(template.claimed(&holder.ready().unwrap().claim()))
    }

    #[test]
    fn held_templates_and_missing_clusters_are_reported_once() {
        let named = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default" });
        let all = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default" });
        let affinity = |names: &[&str]| json!({ "clusterAffinity": { "clusterNames": names } });
        let holder = record("holder", named.clone(), affinity(&["m1"]));
        let mut index = Index::default();
        index.put_policy(Arc::clone(&holder));
        index.put_template(&template(&holder));
        let types = HashSet::from([ResourceType::deployments()]);
        let mut reports = PolicyFindings {
            clusters: BTreeSet::from(["m1".to_owned()]),
            ..PolicyFindings::default()
        };
        let mut messages = |policy: &Arc<PolicyRecord>, index: &mut Index| {
            index.put_policy(Arc::clone(policy));
            reports.policy_changed(policy);
            let found = reports.check(index, &types);
            found
                .iter()
                .map(|(_, finding)| finding.to_string())
                .collect::<Vec<_>>()
        };
        let held = "has no effect on Deployment default/web, which policy(default/holder) holds";
        let found = messages(
            &record("other", named.clone(), affinity(&["m1", "m2"])),
            &mut index,
        );
        assert!(found[0].starts_with(held), "{found:?}");
        let missing =
            "spec.placement.clusterAffinity.clusterNames[1] names cluster m2, which does not exist";
        assert_eq!(found[1..], [missing]);
        // A finding is reported again only after a version of the policy without this finding.
        let again = record("other", named, affinity(&["m1", "m2"]));
        assert!(messages(&again, &mut index).is_empty());
        assert!(messages(&record("other", all.clone(), affinity(&["m1"])), &mut index).is_empty());
        assert_eq!(messages(&again, &mut index).len(), 2);
        assert!(messages(&holder, &mut index).is_empty());
        // A policy for all templates of a kind is usually a default, and other policies may hold some of these
        // templates.
        assert!(messages(&record("all", all, affinity(&[])), &mut index).is_empty());
        let terms = json!({
            "replicaScheduling": { "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated" },
            "clusterAffinities": [{ "affinityName": "a", "clusterNames": ["m3"],
            "overflowAffinities": [{ "affinityName": "b", "clusterNames": ["m4"] }] }] });
        let found = messages(
            &record(
                "terms",
                json!({ "apiVersion": "v1", "kind": "Secret", "namespace": "default" }),
                terms,
            ),
            &mut index,
        );
        assert_eq!(
            found,
            [
                "spec.placement.clusterAffinities[0].clusterNames[0] names cluster m3, which does not exist",
                "spec.placement.clusterAffinities[0].overflowAffinities[0].clusterNames[0] names cluster m4, which does \
                 not exist",
            ]
        );
    }
}
