//! The used and the allocatable amount of a resource, from the summary in the status of a Cluster.

use super::{ResourceList, ResourceSummary};
use crate::quantity::Quantity;

/// The amounts of one resource in a cluster, in the unit of the caller: milli-CPUs, bytes or pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The allocatable amount of all nodes.
    pub allocatable: i64,
    /// The requests of all pods, both scheduled and pending.
    pub used: i64,
}

impl ResourceUsage {
    /// Returns the free amount.
    pub fn free(self) -> i64 {
        self.allocatable.saturating_sub(self.used).max(0)
    }

    /// Returns the used share in thousandths, at most 1000. The share is 1000 if nothing is allocatable.
    pub fn permille(self) -> i64 {
        if self.allocatable <= 0 {
            return 1000;
        }
        let exact = i128::from(self.used.max(0)) * 1000 / i128::from(self.allocatable);
        i64::try_from(exact).unwrap_or(1000).min(1000)
    }

    /// Adds the amounts of another cluster.
    pub fn add(&mut self, other: Self) {
        self.allocatable = self.allocatable.saturating_add(other.allocatable);
        self.used = self.used.saturating_add(other.used);
    }
}

impl ResourceSummary {
    /// Returns the usage of a resource, or `None` if the cluster does not report its allocatable amount. `number`
    /// converts a quantity to the unit of the result.
    pub fn usage(&self, resource: &str, number: fn(Quantity) -> i64) -> Option<ResourceUsage> {
        let amount = |list: &ResourceList| list.get(resource)?.parse().ok().map(number);
        let used = amount(&self.allocated).unwrap_or(0);
        let pending = amount(&self.allocating).unwrap_or(0);
        amount(&self.allocatable).map(|allocatable| ResourceUsage {
            allocatable,
            used: used.saturating_add(pending),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pending_pods_use_resources_and_an_unreported_resource_has_no_usage() {
        let summary: ResourceSummary = serde_json::from_value(json!({
            "allocatable": {"cpu": "4", "memory": "1Gi"},
            "allocated": {"cpu": "1500m"}, "allocating": {"cpu": "500m", "pods": "1"},
        }))
        .unwrap();
        let usage = |allocatable, used| Some(ResourceUsage { allocatable, used });
        assert_eq!(
            summary.usage("cpu", Quantity::milli_value),
            usage(4000, 2000)
        );
        assert_eq!(summary.usage("memory", Quantity::value), usage(1 << 30, 0));
        assert_eq!(summary.usage("pods", Quantity::value), None);
    }

    #[test]
    fn a_full_or_empty_resource_has_no_free_amount() {
        let usage = |allocatable, used| ResourceUsage { allocatable, used };
        for (of, free, permille) in [
            (usage(4, 1), 3, 250),
            (usage(4, 5), 0, 1000),
            (usage(0, 0), 0, 1000),
        ] {
            assert_eq!((of.free(), of.permille()), (free, permille), "{of:?}");
        }
    }
}
