//! The lines of `berth explain` about the queue of a waiting workload: its position, or the quota that refuses it.

use std::fmt::Write as _;

use berth_scheduler::debug_api::{QueueList, QueuePosition, QueueSummary};

/// Returns the position of a workload that is ready to be scheduled, and the usage of its ClusterQueue. `refusal` is
/// the message of a refused decision. Returns an empty text if the queue is not the reason for waiting.
pub(super) fn render(list: &QueueList, refusal: Option<&str>) -> String {
    let mut text = String::new();
    if let Some(position) = &list.position {
        let _ = writeln!(text, "Queue: {}", place(position));
    }
    if let Some(queue) = refusal.and_then(|refusal| refusing_queue(list, refusal)) {
        let _ = writeln!(text, "Queue: {}", usage(queue));
    }
    text
}

fn place(position: &QueuePosition) -> String {
    let QueuePosition {
        place,
        of,
        tenants,
        before,
        ..
    } = position;
    let owner = match (&position.cluster_queue, position.namespace.as_deref()) {
        (Some(name), _) => format!(" in ClusterQueue {name}"),
        (None, Some("")) => " of the cluster-scoped resources".to_owned(),
        (None, Some(namespace)) => format!(" in namespace {namespace}"),
        (None, None) => String::new(),
    };
    let turns = match tenants {
        0 | 1 => String::new(),
        tenants => format!(", {tenants} queues or namespaces take turns"),
    };
    format!("number {place} of {of}{owner}{turns}; scheduled after about {before} others")
}

/// Returns the ClusterQueue that refused a decision.
fn refusing_queue<'a>(list: &'a QueueList, refusal: &str) -> Option<&'a QueueSummary> {
    let (name, _) = refusal.strip_prefix("ClusterQueue ")?.split_once(':')?;
    let mut queues = list.queues.iter();
    queues.find(|queue| queue.cluster_queue.as_deref() == Some(name))
}

fn usage(queue: &QueueSummary) -> String {
    let name = queue.cluster_queue.as_deref().unwrap_or_default();
    let mut text = format!("ClusterQueue {name} has {} waiting for quota", queue.held);
    for usage in &queue.usage {
        let _ = write!(
            text,
            "; {} of {} {} in use",
            usage.used, usage.nominal, usage.name
        );
        if usage.borrowed != "0" {
            let _ = write!(text, ", {} borrowed", usage.borrowed);
        }
    }
    if let Some(cohort) = &queue.cohort {
        let _ = write!(text, "; its cohort is {cohort}");
    }
    text
}

#[cfg(test)]
mod tests {
    use berth_scheduler::debug_api::ResourceUse;

    use super::*;

    #[test]
    fn a_waiting_workload_has_a_position_or_a_quota_that_holds_it() {
        let position = QueuePosition {
            namespace: Some("shop".to_owned()),
            place: 12,
            of: 40,
            tenants: 3,
            before: 30,
            ..QueuePosition::default()
        };
        let list = QueueList {
            position: Some(position),
            queues: vec![QueueSummary {
                cluster_queue: Some("red".to_owned()),
                held: 2,
                usage: vec![ResourceUse {
                    name: "cpu".to_owned(),
                    used: "12".to_owned(),
                    nominal: "10".to_owned(),
                    borrowed: "2".to_owned(),
                }],
                ..QueueSummary::default()
            }],
            ..QueueList::default()
        };
        let place = "Queue: number 12 of 40 in namespace shop, 3 queues or namespaces take turns; scheduled after about 30 others\n";
        assert_eq!(render(&list, Some("0/3 clusters are available")), place);
        let refused = QueueList {
            position: None,
            ..list
        };
        let refusal = "ClusterQueue red: 13 of 10 cpu would be in use";
        let usage =
            "Queue: ClusterQueue red has 2 waiting for quota; 12 of 10 cpu in use, 2 borrowed\n";
        assert_eq!(render(&refused, Some(refusal)), usage);
        assert_eq!(render(&refused, None), "");
    }
}
