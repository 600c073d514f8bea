//! The free resources of a cluster, as its Cluster reports them. Only a return needs them: everything else is decided by the
//! scheduler, whose rules these modules do not know.

use berth_api::binding::BindingSpec;
use berth_api::cluster::{ClusterStatus, ResourceList};
use berth_api::pod_requests::Amounts;
use berth_api::quantity::Quantity;

/// The part of a request, in percent, that must stay free after a return. Without it, a workload would return to a cluster
/// that is full a moment later, and its replicas would move away again.
const MARGIN_PERCENT: i64 = 10;

/// The free resources of a cluster, or nothing if the cluster does not report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Room(Option<Amounts>);

impl Room {
    /// Reads the free resources: what is allocatable, without the requests of all pods.
    pub(super) fn read(status: Option<&ClusterStatus>) -> Self {
        let summary = status.and_then(|status| status.resource_summary.as_ref());
        let summary = summary.filter(|summary| !summary.allocatable.is_empty());
        Self(summary.map(|summary| {
            let resources = summary.allocatable.keys();
            let free = resources.map(|resource| {
                let free = amount(&summary.allocatable, resource)
                    - amount(&summary.allocated, resource)
                    - amount(&summary.allocating, resource);
                (resource.clone(), free)
            });
            free.collect()
        }))
    }

    /// Reports whether the replicas of a binding fit, with a margin. The cluster must take as many as the present clusters
    /// have on average, because only the scheduler knows how it divides them. Unknown resources and requests fit.
    pub(super) fn fits(&self, spec: &BindingSpec) -> bool {
        let request = spec.replica_requirements.as_ref();
        let request = request.map(|requirements| &requirements.resource_request);
        let (Some(free), Some(request)) = (&self.0, request) else {
            return true;
        };
        let replicas = average_replicas(spec);
        request.keys().all(|resource| {
            let needed = amount(request, resource).times(replicas);
            let free = free.get(resource).copied().unwrap_or_default();
            needed.is_zero() || free.times(100) >= needed.times(100 + MARGIN_PERCENT)
        })
    }
}

/// Returns the replicas in each cluster of a binding on average, rounded up. A binding without clusters counts as a binding
/// with one.
fn average_replicas(spec: &BindingSpec) -> i64 {
    let placed = spec.clusters.iter();
    let placed: i64 = placed.map(|target| i64::from(target.replicas)).sum();
    let clusters = i64::try_from(spec.clusters.len().max(1)).unwrap_or(i64::MAX);
    let average = (placed + clusters - 1) / clusters;
    if spec.clusters.is_empty() {
        spec.replicas.into()
    } else {
        average
    }
}

/// Returns an amount of a list. A malformed or missing one is zero.
fn amount(list: &ResourceList, resource: &str) -> Quantity {
    let text = list.get(resource);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the amounts in a text such as `cpu=1 memory=4Gi`.
    fn amounts(text: &str) -> Value {
        let pairs = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(resource, amount)| (resource.to_owned(), json!(amount)))
            .collect()
    }

    #[test]
    fn replicas_fit_if_a_tenth_of_their_request_stays_free() {
        let one = &[4][..];
        for (about, [allocatable, allocated, allocating], request, clusters, expected) in [
            ("unknown", ["", "", ""], "cpu=1", one, true),
            ("no request", ["cpu=0", "", ""], "", one, true),
            (
                "exactly the margin",
                ["cpu=4400m", "", ""],
                "cpu=1",
                one,
                true,
            ),
            (
                "less than the margin",
                ["cpu=4399m", "", ""],
                "cpu=1",
                one,
                false,
            ),
            (
                "pods take room",
                ["cpu=10", "cpu=5", "cpu=601m"],
                "cpu=1",
                one,
                false,
            ),
            (
                "one of two",
                ["cpu=10 memory=4Gi", "", ""],
                "cpu=1 memory=1Gi",
                one,
                false,
            ),
            ("no such resource", ["cpu=10", "", ""], "gpu=1", one, false),
            ("nothing of it", ["cpu=10", "", ""], "gpu=0", one, true),
            (
                "overcommitted",
                ["cpu=1", "cpu=2", ""],
                "cpu=1m",
                one,
                false,
            ),
            ("divided", ["cpu=2200m", "", ""], "cpu=1", &[3, 1], true),
            (
                "divided, rounded up",
                ["cpu=2200m", "", ""],
                "cpu=1",
                &[3, 2],
                false,
            ),
            ("in no cluster", ["cpu=4400m", "", ""], "cpu=1", &[], true),
            (
                "in no cluster, and full",
                ["cpu=4", "", ""],
                "cpu=1",
                &[],
                false,
            ),
        ] {
            let clusters = clusters
                .iter()
                .map(|replicas| json!({ "name": "m", "replicas": replicas }));
            let spec = json!({ "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                "replicas": 4, "clusters": clusters.collect::<Vec<_>>(),
                "replicaRequirements": { "resourceRequest": amounts(request) } });
            let summary = json!({ "allocatable": amounts(allocatable), "allocated": amounts(allocated),
                "allocating": amounts(allocating) });
            let status = json!({ "resourceSummary": summary });
            let spec: BindingSpec = serde_json::from_value(spec).unwrap();
            let status: ClusterStatus = serde_json::from_value(status).unwrap();
            assert_eq!(Room::read(Some(&status)).fits(&spec), expected, "{about}");
        }
        assert_eq!(Room::read(None), Room::default());
    }
}
