//! Requests of replicas that run with an earlier and smaller request than their binding has now (feature gate
//! EstimateGrownRequests).
//!
//! After the request of a workload grew, its clusters report the replicas with the earlier request until the members
//! have replaced their pods. An entry of a cluster is released when
//! - the cluster reports again after the workload became healthy,
//! - the workload leaves the cluster,
//! - the request shrinks to the earlier request, or
//! - the entry expires.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use berth_api::binding::BindingSpec;
use berth_api::{Binding, BindingKey};
use berth_engine::{EarlierRequest, ResourceRequest};

use super::assumed_capacity::is_healthy;

/// Maximum lifetime of an entry.
const EXPIRY: Duration = Duration::from_mins(5);

/// The earlier requests of all bindings.
#[derive(Debug, Default)]
pub(crate) struct EarlierRequests {
    entries: HashMap<BindingKey, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    request: ResourceRequest,
    clusters: Vec<ReportingCluster>,
    until: Instant,
}

/// A cluster that reports the replicas with the earlier request.
#[derive(Clone, Debug)]
struct ReportingCluster {
    name: String,
    /// The number of replicas when the request grew.
    replicas: i32,
    /// True if the workload became healthy after its request grew. The next report contains the new request.
    is_healthy: bool,
}

impl EarlierRequests {
    /// Handles a change of a binding.
    pub(super) fn observe(&mut self, old: &Binding, new: &Binding, now: Instant) {
        if !same_request(&old.spec, &new.spec) {
            self.request_changed(old, new, now);
            return;
        }
        let Some(entry) = self.entries.get_mut(&new.key) else {
            return;
        };
        entry.clusters.retain(|cluster| {
            let mut targets = new.spec.clusters.iter();
            targets.any(|target| target.name == cluster.name)
        });
        for cluster in &mut entry.clusters {
            cluster.is_healthy |= is_healthy(new, &cluster.name) && !is_healthy(old, &cluster.name);
        }
        self.remove_empty(&new.key);
    }

    fn request_changed(&mut self, old: &Binding, new: &Binding, now: Instant) {
        let before = match self.entries.remove(&new.key) {
            Some(entry) if entry.until > now => Some(entry.request),
            _ => request(&old.spec),
        };
        let (Some(before), Some(after)) = (before, request(&new.spec)) else {
            return;
        };
        if !has_grown(&before, &after) {
            return;
        }
        let targets = new.spec.clusters.iter().filter(|it| it.replicas > 0);
        let entry = Entry {
            request: before,
            clusters: targets
                .map(|target| ReportingCluster {
                    name: target.name.clone(),
                    replicas: target.replicas,
                    is_healthy: false,
                })
                .collect(),
            until: now + EXPIRY,
        };
        self.entries.insert(new.key.clone(), entry);
        self.remove_empty(&new.key);
    }

    fn remove_empty(&mut self, key: &BindingKey) {
        if self
            .entries
            .get(key)
            .is_some_and(|entry| entry.clusters.is_empty())
        {
            self.entries.remove(key);
        }
    }

    /// Removes a deleted binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
        self.entries.remove(key);
    }

    /// Handles a new report of a cluster, which includes the new requests of healthy workloads.
    pub(super) fn cluster_reported(&mut self, cluster: &str) {
        self.entries.retain(|_, entry| {
            let is_included = |it: &ReportingCluster| it.name == cluster && it.is_healthy;
            entry.clusters.retain(|it| !is_included(it));
            !entry.clusters.is_empty()
        });
    }

    /// Returns the time at which the first entry expires.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.entries.values().map(|entry| entry.until).min()
    }

    /// Removes expired entries. Returns their clusters.
    pub(super) fn expire(&mut self, now: Instant) -> BTreeSet<String> {
        let expired = self.entries.extract_if(|_, entry| entry.until <= now);
        let clusters = expired.flat_map(|(_, entry)| entry.clusters);
        clusters.map(|cluster| cluster.name).collect()
    }

    /// Returns the earlier request of a binding.
    pub(super) fn of(&self, key: &BindingKey) -> Option<EarlierRequest> {
        let entry = self.entries.get(key)?;
        let clusters = entry.clusters.iter();
        Some(EarlierRequest {
            request: entry.request.clone(),
            clusters: clusters
                .map(|cluster| (cluster.name.clone(), cluster.replicas))
                .collect(),
        })
    }
}

fn same_request(old: &BindingSpec, new: &BindingSpec) -> bool {
    let list = |spec: &BindingSpec| {
        let requirements = spec.replica_requirements.as_ref();
        requirements.map(|requirements| requirements.resource_request.clone())
    };
    list(old) == list(new)
}

/// Returns the resource request of a replica. Returns `None` if a quantity is malformed, or if the workload has several
/// components.
fn request(spec: &BindingSpec) -> Option<ResourceRequest> {
    if spec.components.len() > 1 {
        return None;
    }
    match &spec.replica_requirements {
        Some(requirements) => ResourceRequest::new(&requirements.resource_request).ok(),
        None => Some(ResourceRequest::default()),
    }
}

/// Reports whether a request is greater than before in at least one resource.
fn has_grown(before: &ResourceRequest, after: &ResourceRequest) -> bool {
    after.amounts().iter().any(|amount| {
        let mut before = before.amounts().iter();
        let before = before.find(|it| it.resource == amount.resource);
        before.is_none_or(|before| amount.quantity > before.quantity)
    })
}

#[cfg(test)]
mod tests {
    use berth_api::ResourceBinding;
    use serde_json::json;

    use super::*;

    fn binding(cpu: &str, clusters: &[&str], healthy: &[&str]) -> Binding {
        let targets: Vec<_> = clusters
            .iter()
            .map(|name| json!({ "name": name, "replicas": 2 }))
            .collect();
        let status: Vec<_> = healthy
            .iter()
            .map(|name| json!({ "clusterName": name, "health": "Healthy" }))
            .collect();
        serde_json::from_value::<ResourceBinding>(json!({
            "metadata": { "name": "b", "namespace": "n" },
            "spec": { "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" }, "replicas": 4,
                "replicaRequirements": { "resourceRequest": { "cpu": cpu } }, "clusters": targets },
            "status": { "aggregatedStatus": status },
        }))
        .unwrap()
        .into()
    }

    /// Returns the clusters and the CPUs of the earlier request.
    fn earlier(book: &EarlierRequests) -> Option<(Vec<String>, i64)> {
        let earlier = book.of(&binding("1", &[], &[]).key)?;
        let clusters = earlier.clusters.into_keys().collect();
        Some((clusters, earlier.request.amounts()[0].units))
    }

    #[test]
    fn a_grown_request_is_kept_until_the_clusters_report_it() {
        let now = Instant::now();
        let both = ["m1", "m2"];
        let grown = |cpus: &[&str]| {
            let mut book = EarlierRequests::default();
            for pair in cpus.windows(2) {
                let (old, new) = (
                    binding(pair[0], &both, &both),
                    binding(pair[1], &both, &both),
                );
                book.observe(&old, &new, now);
            }
            book
        };
        let on_both = |units| Some((both.map(str::to_owned).to_vec(), units));
        for (cpus, expected) in [
            (&["500m", "500m"][..], None),
            (&["500m", "250m"], None),
            (&["500m", "3"], on_both(500)),
            // The pods may still run with the first request.
            (&["500m", "1", "3"], on_both(500)),
            (&["500m", "3", "500m"], None),
            (&["500m", "3", "1"], on_both(500)),
        ] {
            assert_eq!(earlier(&grown(cpus)), expected, "{cpus:?}");
        }
        let mut book = grown(&["500m", "3"]);
        book.cluster_reported("m1");
        assert_eq!(
            earlier(&book),
            on_both(500),
            "the pods of m1 are not replaced yet"
        );
        book.observe(
            &binding("3", &both, &[]),
            &binding("3", &both, &["m1"]),
            now,
        );
        book.cluster_reported("m1");
        assert_eq!(earlier(&book), Some((vec!["m2".to_owned()], 500)));
        book.observe(&binding("3", &both, &[]), &binding("3", &["m1"], &[]), now);
        assert_eq!(earlier(&book), None, "the workload left m2");
        let mut book = grown(&["500m", "3"]);
        assert_eq!(book.next_expiry(), Some(now + EXPIRY));
        assert!(book.expire(now).is_empty());
        assert_eq!(book.expire(now + EXPIRY), both.map(str::to_owned).into());
        assert_eq!(earlier(&book), None);
    }
}
