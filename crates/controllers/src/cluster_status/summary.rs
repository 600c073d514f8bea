//! The node summary and the resource summary of a member. They are computed from the inputs in `summary_input`.

use std::collections::BTreeMap;

use berth_api::cluster::{NodeSummary, ResourceList, ResourceSummary};
use berth_api::pod_requests::{self, Amounts};
use berth_api::quantity::{Quantity, QuantityText};

use super::summary_input::{NodeResources, PodResources};

/// Counts all nodes and the ready nodes.
pub(crate) fn nodes(nodes: &BTreeMap<String, NodeResources>) -> NodeSummary {
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    NodeSummary {
        total_num: Some(number(nodes.len())),
        ready_num: Some(number(nodes.values().filter(|node| node.ready).count())),
    }
}

/// Sums the allocatable resources of all nodes, the requests of pods without a node, and the requests of unfinished
/// pods on nodes. The field `allocatable_modelings` stays empty.
pub(crate) fn resources(
    nodes: &BTreeMap<String, NodeResources>,
    pods: &BTreeMap<String, PodResources>,
) -> ResourceSummary {
    let mut allocatable = Amounts::new();
    for node in nodes.values() {
        pod_requests::add(&mut allocatable, &node.allocatable);
    }
    let pending = pods.values().filter(|pod| pod.node.is_none());
    let bound = pods
        .values()
        .filter(|pod| pod.node.is_some() && !pod.finished);
    ResourceSummary {
        allocatable: list(&allocatable),
        allocating: list(&sum(pending)),
        allocated: list(&sum(bound)),
        allocatable_modelings: Vec::new(),
    }
}

/// Sums the requests of pods. The number of pods is added as resource `pods`. Zero amounts are omitted.
fn sum<'a>(pods: impl Iterator<Item = &'a PodResources>) -> Amounts {
    let mut total = Amounts::new();
    let mut count = 0;
    for pod in pods {
        pod_requests::add(&mut total, &pod.requests);
        count += 1;
    }
    total.insert("pods".to_owned(), Quantity::from_integer(count));
    total.retain(|_, amount| !amount.is_zero());
    total
}

fn list(amounts: &Amounts) -> ResourceList {
    amounts
        .iter()
        .map(|(resource, amount)| (resource.clone(), QuantityText(amount.to_string())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, &str)]) -> Amounts {
        list.iter()
            .map(|(resource, text)| ((*resource).to_owned(), Quantity::parse(text).unwrap()))
            .collect()
    }

    fn text(list: &ResourceList) -> String {
        let entries: Vec<String> = list.iter().map(|(r, q)| format!("{r}={}", q.0)).collect();
        entries.join(" ")
    }

    #[test]
    fn all_nodes_and_only_unfinished_pods_are_counted() {
        let node = |ready| NodeResources {
            ready,
            allocatable: amounts(&[("cpu", "3500m"), ("memory", "4Gi"), ("pods", "10")]),
            ..NodeResources::default()
        };
        let all = BTreeMap::from([("a".to_owned(), node(true)), ("b".to_owned(), node(false))]);
        let pod = |node: Option<&str>, finished| PodResources {
            node: node.map(str::to_owned),
            finished,
            requests: amounts(&[("cpu", "500m")]),
        };
        let pods = [
            pod(Some("a"), false),
            pod(Some("a"), false),
            pod(Some("b"), true),
            pod(None, false),
        ];
        let pods = (0..).map(|i: u8| i.to_string()).zip(pods).collect();
        assert_eq!(
            nodes(&all),
            NodeSummary {
                total_num: Some(2),
                ready_num: Some(1)
            }
        );
        let summary = resources(&all, &pods);
        assert_eq!(text(&summary.allocatable), "cpu=7 memory=8Gi pods=20");
        assert_eq!(text(&summary.allocated), "cpu=1 pods=2");
        assert_eq!(text(&summary.allocating), "cpu=500m pods=1");
    }

    #[test]
    fn an_empty_member_has_an_empty_summary() {
        let summary = resources(&BTreeMap::new(), &BTreeMap::new());
        assert_eq!(summary, ResourceSummary::default());
    }
}
