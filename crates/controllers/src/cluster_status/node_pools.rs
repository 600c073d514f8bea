//! The summary of a member's nodes by pool. It is bounded, so that it fits into an annotation, and free resources are
//! rounded down, so that it changes rarely.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::cluster::ResourceList;
use berth_api::node_pools::{EqualNodes, MAX_BYTES, MAX_POOLS, NodePool, NodePools};
use berth_api::node_requirements::NodeTaint;
use berth_api::node_resources::is_counted;
use berth_api::pod_requests::Amounts;
use berth_api::quantity::{Quantity, QuantityText};

use super::summary_input::NodeResources;

/// The label that differs in each node.
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Labels with more values among the nodes of a member are omitted.
const MAX_VALUES: usize = 32;
/// The steps into which the resources of a node are divided. Free resources are rounded down to a step. The finest
/// division comes first. The next one is used if the summary is too long.
const STEPS: [i64; 3] = [16, 8, 4];

/// The nodes of a pool: their labels and taints.
type PoolKey<'a> = (BTreeMap<&'a str, &'a str>, &'a [NodeTaint]);

/// Summarises the nodes of a member. `requested` contains the requests of the pods on each node.
pub(super) fn summarise(
    nodes: &BTreeMap<String, NodeResources>,
    requested: &HashMap<&str, Amounts>,
) -> NodePools {
    let mut kept = values_of_labels(nodes);
    kept.retain(|key, values| *key != HOSTNAME && values.len() <= MAX_VALUES);
    let mut keys: Vec<(usize, &str)> = kept.iter().map(|(key, it)| (it.len(), *key)).collect();
    keys.sort_unstable();
    loop {
        let labels: BTreeSet<&str> = keys.iter().map(|(_, key)| *key).collect();
        let pools = by_pool(nodes, &labels);
        if pools.len() <= MAX_POOLS {
            for steps in STEPS {
                let summary = summary(nodes, &pools, requested, steps);
                let length = serde_json::to_vec(&summary).map_or(usize::MAX, |text| text.len());
                if length <= MAX_BYTES {
                    return summary;
                }
            }
        }
        // The label with the most values divides the nodes into the most pools.
        if keys.pop().is_none() {
            return NodePools::default();
        }
    }
}

/// Returns the values of each label among the nodes. `None` stands for nodes without the label.
fn values_of_labels(
    nodes: &BTreeMap<String, NodeResources>,
) -> BTreeMap<&str, BTreeSet<Option<&str>>> {
    let mut values: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
    for (key, value) in nodes.values().flat_map(|node| &node.labels) {
        values.entry(key).or_default().insert(Some(value));
    }
    for (key, values) in &mut values {
        if nodes.values().any(|node| !node.labels.contains_key(*key)) {
            values.insert(None);
        }
    }
    values
}

/// Groups the nodes by their taints and by these labels.
fn by_pool<'a>(
    nodes: &'a BTreeMap<String, NodeResources>,
    labels: &BTreeSet<&str>,
) -> BTreeMap<PoolKey<'a>, Vec<&'a str>> {
    let mut pools: BTreeMap<PoolKey<'a>, Vec<&str>> = BTreeMap::new();
    for (name, node) in nodes {
        let kept = node.labels.iter().map(|(key, value)| (&**key, &**value));
        let kept = kept.filter(|(key, _)| labels.contains(key)).collect();
        pools.entry((kept, &node.taints)).or_default().push(name);
    }
    pools
}

fn summary(
    nodes: &BTreeMap<String, NodeResources>,
    pools: &BTreeMap<PoolKey<'_>, Vec<&str>>,
    requested: &HashMap<&str, Amounts>,
    steps: i64,
) -> NodePools {
    let kept: BTreeSet<&str> = pools
        .keys()
        .flat_map(|(it, _)| it.keys().copied())
        .collect();
    let all = values_of_labels(nodes);
    let omitted = all.keys().filter(|key| !kept.contains(**key));
    let is_common = |key: &str| all.get(key).is_some_and(|values| values.len() == 1);
    let owned = |(key, value): (&&str, &&str)| ((*key).to_owned(), (*value).to_owned());
    let first = pools.keys().next();
    let common = first.into_iter().flat_map(|(labels, _)| labels);
    NodePools {
        labels: common
            .filter(|(key, _)| is_common(key))
            .map(owned)
            .collect(),
        omitted_labels: omitted.map(|key| (*key).to_owned()).collect(),
        pools: pools
            .iter()
            .map(|((labels, taints), members)| NodePool {
                labels: labels
                    .iter()
                    .filter(|(key, _)| !is_common(key))
                    .map(owned)
                    .collect(),
                taints: taints.to_vec(),
                nodes: equal_nodes(nodes, members, requested, steps),
            })
            .collect(),
    }
}

/// Counts the nodes of a pool by their free resources.
fn equal_nodes(
    nodes: &BTreeMap<String, NodeResources>,
    members: &[&str],
    requested: &HashMap<&str, Amounts>,
    steps: i64,
) -> Vec<EqualNodes> {
    let mut counts: BTreeMap<ResourceList, i64> = BTreeMap::new();
    let none = Amounts::new();
    for name in members {
        if let Some(node) = nodes.get(*name) {
            let requested = requested.get(name).unwrap_or(&none);
            let free = free(&node.allocatable, requested, steps);
            *counts.entry(free).or_default() += 1;
        }
    }
    let counts = counts.into_iter();
    counts
        .map(|(free, count)| EqualNodes { count, free })
        .collect()
}

/// Returns the free resources of a node, rounded down to steps of its allocatable resources. A node that cannot take
/// another pod has none.
fn free(allocatable: &Amounts, requested: &Amounts, steps: i64) -> ResourceList {
    let mut free = ResourceList::new();
    for (resource, total) in allocatable.iter().filter(|(it, _)| is_counted(it)) {
        let used = requested.get(resource).copied().unwrap_or_default();
        let left = if resource == "cpu" {
            let left = rounded_down(total.milli_value(), (*total - used).milli_value(), steps);
            Quantity::from_milli(left)
        } else {
            let left = rounded_down(total.value(), (*total - used).value(), steps);
            Quantity::from_integer(left).in_format(total.format())
        };
        if left > Quantity::ZERO {
            free.insert(resource.clone(), QuantityText(left.to_string()));
        }
    }
    if free.contains_key("pods") {
        free
    } else {
        ResourceList::new()
    }
}

/// Rounds a free amount down to a multiple of a step: a part of the total, and at least 1.
fn rounded_down(total: i64, free: i64, steps: i64) -> i64 {
    let step = (total / steps).max(1);
    free.max(0) / step * step
}

#[cfg(test)]
mod tests;
