//! In which grade of `spec.resourceModels` each node is, by what is free on it.

use std::collections::{BTreeMap, HashMap};

use berth_api::cluster::{AllocatableModeling, ResourceModel};
use berth_api::pod_requests::{Amounts, add};
use berth_api::quantity::Quantity;

use super::facts::{NodeFacts, PodFacts};

/// The number of nodes in each grade, in the order of the models. A node's grade is the last one whose least amount it
/// has of every resource. A node that takes no more pods is in none; neither is one that is below every grade.
pub fn count(
    models: &[ResourceModel],
    nodes: &BTreeMap<String, NodeFacts>,
    pods: &BTreeMap<String, PodFacts>,
) -> Vec<AllocatableModeling> {
    let mut taken: HashMap<&str, Amounts> = HashMap::new();
    let one = Amounts::from([("pods".to_owned(), Quantity::from_integer(1))]);
    for pod in pods.values().filter(|pod| !pod.finished) {
        if let Some(node) = &pod.node {
            let taken = taken.entry(node).or_default();
            add(taken, &pod.requests);
            add(taken, &one);
        }
    }
    let mut counts: Vec<AllocatableModeling> = models
        .iter()
        .map(|model| AllocatableModeling {
            grade: model.grade,
            count: 0,
        })
        .collect();
    for (name, node) in nodes {
        let free = free(node, taken.get(name.as_str()));
        let Some(grade) = free.and_then(|free| grade(models, &free)) else {
            continue;
        };
        if let Some(counted) = counts.get_mut(grade) {
            counted.count += 1;
        }
    }
    counts
}

/// What is free on a node; nothing when it takes no more pods.
fn free(node: &NodeFacts, taken: Option<&Amounts>) -> Option<Amounts> {
    let Some(taken) = taken else {
        return Some(node.allocatable.clone());
    };
    let of = |amounts: &Amounts, resource: &str| amounts.get(resource).copied().unwrap_or_default();
    if of(&node.allocatable, "pods") <= of(taken, "pods") {
        return None;
    }
    let left = node.allocatable.iter();
    Some(
        left.map(|(resource, offered)| (resource.clone(), *offered - of(taken, resource)))
            .collect(),
    )
}

fn grade(models: &[ResourceModel], free: &Amounts) -> Option<usize> {
    let resources = &models.first()?.ranges;
    let mut lowest = usize::MAX;
    for (place, range) in resources.iter().enumerate() {
        let has = free.get(&range.name).copied().unwrap_or_default();
        let reaches = |model: &ResourceModel| {
            let least = model.ranges.get(place)?.min.parse().ok()?;
            Some(least <= has)
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

    fn node(cpu: &str, memory: &str, pods: &str) -> NodeFacts {
        let entry = |name: &str, text: &str| (name.to_owned(), Quantity::parse(text).unwrap());
        NodeFacts {
            ready: true,
            allocatable: [
                entry("cpu", cpu),
                entry("memory", memory),
                entry("pods", pods),
            ]
            .into(),
        }
    }

    fn pod(node: &str, cpu: &str) -> PodFacts {
        PodFacts {
            node: Some(node.to_owned()),
            finished: false,
            requests: [("cpu".to_owned(), Quantity::parse(cpu).unwrap())].into(),
        }
    }

    #[test]
    fn the_scarcest_resource_decides_and_a_full_node_does_not_hide_the_others() {
        let models = [
            model(0, "0", "0"),
            model(1, "1", "4Gi"),
            model(2, "4", "16Gi"),
        ];
        let nodes = BTreeMap::from([
            // Full first: what comes after it counts all the same.
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
        let counts: Vec<(u64, i64)> = count(&models, &nodes, &pods)
            .iter()
            .map(|m| (m.grade, m.count))
            .collect();
        assert_eq!(counts, [(0, 1), (1, 2), (2, 1)]);
    }

    #[test]
    fn without_models_nothing_is_counted() {
        let nodes = BTreeMap::from([("a".to_owned(), node("8", "32Gi", "1"))]);
        assert_eq!(count(&[], &nodes, &BTreeMap::new()), []);
    }
}
