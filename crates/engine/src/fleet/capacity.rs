//! The free capacity of one cluster, read from the resource summary, the node pools and the resource models of its
//! Cluster object.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::{ClusterSpec, ClusterStatus, ResourceList};
use berth_api::quantity::{Quantity, QuantityError};

use super::node_pools::NodePools;
use crate::resource_vector::{NodeShape, POD_LIMIT_OF_MODEL_NODES};

/// The free capacity that a cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    /// The number of free pods, which can be negative. `None` means that the cluster reports no resource summary. The
    /// quantities are converted to whole numbers before the subtraction.
    pub(crate) pods: Option<i64>,
    /// The free amount of each resource in `allocatable`: `allocatable - allocated - allocating`.
    pub(crate) free: BTreeMap<String, Quantity>,
    /// The nodes by pool, or `None` if they are unknown.
    pub(crate) pools: Option<NodePools>,
    /// The number of nodes of each grade of the resource models.
    pub(crate) models: Models,
}

/// The nodes of a cluster, counted by the grades of its resource models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Models {
    /// The cluster reports no node counts.
    #[default]
    Absent,
    /// The report is inconsistent: the spec defines no grades, or a node count is negative.
    Unusable,
    /// The number of nodes and the minimum node size of each grade, the smallest grade first.
    Nodes(Vec<(i64, NodeShape)>),
}

/// An error of reading the reported capacity of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resource {resource:?}: {source}")]
pub struct CapacityError {
    /// The resource with the malformed quantity.
    pub resource: String,
    /// The parse error.
    pub source: QuantityError,
}

impl Capacity {
    /// Reads the reported capacity. A malformed quantity counts as zero. Also returns the error of the first malformed
    /// quantity.
    pub(crate) fn read(cluster: &Cluster, status: &ClusterStatus) -> (Self, Option<CapacityError>) {
        let Some(summary) = &status.resource_summary else {
            return (Self::default(), None);
        };
        let mut failure = None;
        let mut read = |list: &ResourceList, resource: &str| -> Option<Quantity> {
            match list.get(resource)?.parse() {
                Ok(quantity) => Some(quantity),
                Err(source) => {
                    failure.get_or_insert_with(|| CapacityError {
                        resource: resource.to_owned(),
                        source,
                    });
                    None
                }
            }
        };
        let mut free = BTreeMap::new();
        for resource in summary.allocatable.keys() {
            if let Some(allocatable) = read(&summary.allocatable, resource) {
                let used = |list, read: &mut dyn FnMut(&ResourceList, &str) -> Option<Quantity>| {
                    read(list, resource).unwrap_or(Quantity::ZERO)
                };
                let quantity = allocatable
                    - used(&summary.allocated, &mut read)
                    - used(&summary.allocating, &mut read);
                free.insert(resource.clone(), quantity);
            }
        }
        let mut pods_of = |list| read(list, "pods").map_or(0, Quantity::value);
        let pods = pods_of(&summary.allocatable)
            .saturating_sub(pods_of(&summary.allocated))
            .saturating_sub(pods_of(&summary.allocating));
        let capacity = Self {
            pods: Some(pods),
            free,
            pools: NodePools::read(cluster),
            models: Models::read(&cluster.spec, status),
        };
        (capacity, failure)
    }
}

impl Models {
    fn read(spec: &ClusterSpec, status: &ClusterStatus) -> Self {
        let counts = status
            .resource_summary
            .as_ref()
            .map_or(&[][..], |summary| &summary.allocatable_modelings);
        if counts.is_empty() {
            return Self::Absent;
        }
        if spec.resource_models.is_empty() || counts.iter().any(|modeling| modeling.count < 0) {
            return Self::Unusable;
        }
        let mut by_grade: BTreeMap<u64, i64> = BTreeMap::new();
        for modeling in counts {
            let sum = by_grade.entry(modeling.grade).or_default();
            *sum = sum.saturating_add(modeling.count);
        }
        let mut models: Vec<_> = spec.resource_models.iter().collect();
        models.sort_by_key(|model| model.grade);
        models.dedup_by_key(|model| model.grade);
        let nodes = models.iter().filter_map(|model| {
            let count = *by_grade.get(&model.grade)?;
            let least = model
                .ranges
                .iter()
                .filter_map(|range| Some((range.name.as_str(), range.min.parse().ok()?)));
            (count > 0).then(|| (count, NodeShape::new(least, POD_LIMIT_OF_MODEL_NODES)))
        });
        Self::Nodes(nodes.collect())
    }
}
