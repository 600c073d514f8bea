//! The number of nodes in each grade of `spec.resourceModels`. The grade of a node follows from its free resources.

use std::collections::{BTreeMap, HashMap};

use berth_api::cluster::{AllocatableModeling, ResourceModel};
use berth_api::pod_requests::Amounts;

use super::summary_input::NodeResources;

/// Counts the nodes in each grade, in the order of the models. `requested` contains the requests of the pods on each node. The grade of a node is the last grade whose minimums are
/// reached by the free resources of the node. A node that is below all grades or cannot take another pod has no grade.
pub(super) fn count_nodes(
    models: &[ResourceModel],
    nodes: &BTreeMap<String, NodeResources>,
    requested: &HashMap<&str, Amounts>,
) -> Vec<AllocatableModeling> {
    let mut counts: Vec<AllocatableModeling> = models
        .iter()
        .map(|model| AllocatableModeling {
            grade: model.grade,
            count: 0,
        })
        .collect();
    for (name, node) in nodes {
        let free = free(node, requested.get(name.as_str()));
        let Some(grade) = free.and_then(|free| grade(models, &free)) else {
            continue;
        };
        if let Some(modeling) = counts.get_mut(grade) {
            modeling.count += 1;
        }
    }
    counts
}

/// Returns the free resources of a node, or `None` if the node cannot take another pod.
fn free(node: &NodeResources, requested: Option<&Amounts>) -> Option<Amounts> {
    let Some(requested) = requested else {
        return Some(node.allocatable.clone());
    };
    let amount =
        |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or_default();
    if amount(&node.allocatable, "pods") <= amount(requested, "pods") {
        return None;
    }
    let allocatable = node.allocatable.iter();
    Some(
        allocatable
            .map(|(resource, total)| (resource.clone(), *total - amount(requested, resource)))
            .collect(),
    )
}

/// Returns the index of the grade for these free resources, or `None` if they are below all grades.
fn grade(models: &[ResourceModel], free: &Amounts) -> Option<usize> {
    let resources = &models.first()?.ranges;
    let mut lowest = usize::MAX;
    for (index, range) in resources.iter().enumerate() {
        let free = free.get(&range.name).copied().unwrap_or_default();
        let reaches = |model: &ResourceModel| {
            let min = model.ranges.get(index)?.min.parse().ok()?;
            Some(min <= free)
        };
        let last = models
            .iter()
            .rposition(|model| reaches(model) == Some(true))?;
        lowest = lowest.min(last);
    }
    (lowest < models.len()).then_some(lowest)
}

#[cfg(test)]
mod tests {
    use berth_api::cluster::ResourceModelRange;
    use berth_api::quantity::Quantity;

    use super::super::summary_input::{PodResources, requested_by_node};
    use super::*;

    fn model(grade: u64, cpu: &str, memory: &str) -> ResourceModel {
        let range = |name: &str, min: &str| ResourceModelRange {
            name: name.to_owned(),
            min: min.into(),
            max: "0".into(),
        };
        ResourceModel {
            grade,
            ranges: vec![range("cpu", cpu), range("memory", memory)],
        }
    }

    fn node(cpu: &str, memory: &str, pods: &str) -> NodeResources {
        let entry = |name: &str, text: &str| (name.to_owned(), Quantity::parse(text).unwrap());
        NodeResources {
            ready: true,
            allocatable: [
                entry("cpu", cpu),
                entry("memory", memory),
                entry("pods", pods),
            ]
            .into(),
            ..NodeResources::default()
        }
    }

    fn pod(node: &str, cpu: &str) -> PodResources {
        PodResources {
            node: Some(node.to_owned()),
            finished: false,
            requests: [("cpu".to_owned(), Quantity::parse(cpu).unwrap())].into(),
        }
    }

    #[test]
    fn the_scarcest_resource_decides_the_grade_and_full_nodes_have_none() {
        let models = [
            model(0, "0", "0"),
            model(1, "1", "4Gi"),
            model(2, "4", "16Gi"),
        ];
        let nodes = BTreeMap::from([
            // The full node is the first node, and must not end the count.
            ("a".to_owned(), node("8", "32Gi", "1")),
            ("b".to_owned(), node("8", "32Gi", "10")),
            ("c".to_owned(), node("8", "5Gi", "10")),
            ("d".to_owned(), node("8", "32Gi", "10")),
            ("e".to_owned(), node("2", "2Gi", "10")),
        ]);
        let pods = BTreeMap::from([
            ("1".to_owned(), pod("a", "1")),
            ("2".to_owned(), pod("d", "5")),
        ]);
        let counts: Vec<(u64, i64)> = count_nodes(&models, &nodes, &requested_by_node(&pods))
            .iter()
            .map(|m| (m.grade, m.count))
            .collect();
        assert_eq!(counts, [(0, 1), (1, 2), (2, 1)]);
    }

    #[test]
    fn without_models_there_are_no_counts() {
        let nodes = BTreeMap::from([("a".to_owned(), node("8", "32Gi", "1"))]);
        assert_eq!(count_nodes(&[], &nodes, &HashMap::new()), []);
    }
}
