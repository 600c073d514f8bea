//! Resource vectors of nodes and pods for the first-fit simulation, which estimates capacity from resource models.
//! Amounts are in the units of `berth_api::node_resources`.

use std::collections::BTreeMap;

use berth_api::node_resources::{in_units, is_counted};
use berth_api::quantity::Quantity;

/// The pod limit of a node in a resource model.
pub(crate) const POD_LIMIT_OF_MODEL_NODES: i64 = 110;

/// The free resources of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeShape {
    free: BTreeMap<String, i64>,
    pods: i64,
}

/// The positive resource requests of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodShape {
    requests: Vec<(String, i64)>,
}

impl PodShape {
    pub(crate) fn new<'a>(request: impl IntoIterator<Item = (&'a str, Quantity)>) -> Self {
        let requests = request
            .into_iter()
            .filter(|(resource, _)| *resource != "pods" && is_counted(resource))
            .map(|(resource, quantity)| (resource.to_owned(), in_units(resource, quantity)))
            .filter(|(_, amount)| *amount > 0)
            .collect();
        Self { requests }
    }
}

impl NodeShape {
    pub(crate) fn new<'a>(free: impl IntoIterator<Item = (&'a str, Quantity)>, pods: i64) -> Self {
        let free = free
            .into_iter()
            .filter(|(resource, _)| *resource != "pods" && is_counted(resource))
            .map(|(resource, quantity)| (resource.to_owned(), in_units(resource, quantity)))
            .collect();
        Self { free, pods }
    }

    /// Returns the free resources of a node that has just the size of a removed pod.
    pub(crate) fn freed_by(pod: &PodShape) -> Self {
        Self {
            free: pod.requests.iter().cloned().collect(),
            pods: 1,
        }
    }

    /// Returns the number of pods that fit on the node.
    pub(crate) fn fits(&self, pod: &PodShape) -> i64 {
        pod.requests
            .iter()
            .fold(self.pods, |fits, (resource, amount)| {
                fits.min(self.free.get(resource).copied().unwrap_or(0) / amount)
            })
    }

    /// Returns the free resources of the node after `pods` pods are removed.
    pub(crate) fn with(&self, pod: &PodShape, pods: i64) -> Self {
        let mut more = self.clone();
        more.pods = more.pods.saturating_add(pods);
        for (resource, amount) in &pod.requests {
            let free = more.free.entry(resource.clone()).or_default();
            *free = free.saturating_add(amount.saturating_mul(pods));
        }
        more
    }

    /// Returns the free resources of the node after `pods` pods are placed. Amounts are at least 0.
    pub(crate) fn without(&self, pod: &PodShape, pods: i64) -> Self {
        let mut left = self.clone();
        left.pods = (left.pods - pods).max(0);
        for (resource, amount) in &pod.requests {
            if let Some(free) = left.free.get_mut(resource) {
                *free = free.saturating_sub(amount.saturating_mul(pods)).max(0);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, Quantity)> {
        pairs
            .iter()
            .map(|&(resource, text)| (resource, Quantity::parse(text).unwrap()))
            .collect()
    }

    #[test]
    fn scarcest_resource_limits_the_pods_of_a_node() {
        let node = NodeShape::new(list(&[("cpu", "2"), ("memory", "4Gi")]), 110);
        for (request, fits) in [
            (list(&[]), 110),
            (list(&[("cpu", "500m")]), 4),
            (list(&[("cpu", "500m"), ("memory", "2Gi")]), 2),
            (list(&[("nvidia.com/gpu", "1")]), 0),
            (list(&[("storage", "1Gi")]), 110),
            (list(&[("cpu", "0")]), 110),
        ] {
            assert_eq!(
                node.fits(&PodShape::new(request.clone())),
                fits,
                "{request:?}"
            );
        }
        let pod = PodShape::new(list(&[("cpu", "500m")]));
        assert_eq!(node.without(&pod, 3).fits(&pod), 1);
        assert_eq!(node.without(&pod, 9).fits(&pod), 0);
    }
}
