//! The queues of `berth top`: the ClusterQueues, and the namespaces with bindings that wait for their turn.

use berth_scheduler::debug_api::QueueSummary;

use crate::clusters::list::age;
use crate::columns::{align, cell, plain};

/// Maximum number of namespaces in the table.
const MAX_NAMESPACES: usize = 10;

const COLUMNS: [&str; 8] = [
    "QUEUE", "WEIGHT", "READY", "HELD", "PENDING", "ADMITTED", "LONGEST", "USAGE",
];

/// Formats the queues as a table. Returns an empty text if there are none.
pub(super) fn table(queues: &[QueueSummary]) -> String {
    let (cluster_queues, namespaces): (Vec<&QueueSummary>, Vec<&QueueSummary>) = queues
        .iter()
        .partition(|queue| queue.cluster_queue.is_some());
    let shown = namespaces.into_iter().take(MAX_NAMESPACES);
    let rows: Vec<Vec<String>> = cluster_queues.into_iter().chain(shown).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    align(&COLUMNS, &rows)
}

fn row(queue: &QueueSummary) -> Vec<String> {
    let waits = queue.ready > 0 || queue.held > 0 || queue.pending.unwrap_or(0) > 0;
    vec![
        plain(&name(queue)),
        queue.weight.to_string(),
        queue.ready.to_string(),
        queue.held.to_string(),
        cell(queue.pending),
        cell(queue.admitted),
        cell(waits.then(|| age(queue.oldest_seconds))),
        cell(Some(usage(queue)).filter(|usage| !usage.is_empty())),
    ]
}

/// Returns the name of a ClusterQueue, or `namespace/` and the name of a namespace.
fn name(queue: &QueueSummary) -> String {
    match (&queue.cluster_queue, queue.namespace.as_deref()) {
        (Some(name), _) => name.clone(),
        (None, None | Some("")) => "cluster-scoped".to_owned(),
        (None, Some(namespace)) => format!("namespace/{namespace}"),
    }
}

/// Returns the usage of each resource, such as `cpu=3/2(+1)`, where the queue borrows 1.
fn usage(queue: &QueueSummary) -> String {
    let mut words: Vec<String> = queue
        .usage
        .iter()
        .map(|usage| {
            let borrowed = match usage.borrowed.as_str() {
                "0" => String::new(),
                borrowed => format!("(+{borrowed})"),
            };
            format!("{}={}/{}{borrowed}", usage.name, usage.used, usage.nominal)
        })
        .collect();
    if queue.is_held {
        words.push("held".to_owned());
    }
    words.join(",")
}

#[cfg(test)]
mod tests {
    use berth_scheduler::debug_api::ResourceUse;

    use super::*;

    #[test]
    fn cluster_queues_show_their_usage_and_namespaces_their_waiting_bindings() {
        let red = QueueSummary {
            cluster_queue: Some("red".to_owned()),
            weight: 2,
            held: 1,
            pending: Some(1),
            admitted: Some(3),
            oldest_seconds: 90,
            usage: vec![ResourceUse {
                name: "cpu".to_owned(),
                used: "3".to_owned(),
                nominal: "2".to_owned(),
                borrowed: "1".to_owned(),
            }],
            ..QueueSummary::default()
        };
        let shop = QueueSummary {
            namespace: Some("shop".to_owned()),
            weight: 1,
            ready: 12,
            oldest_seconds: 5,
            ..QueueSummary::default()
        };
        let expected = "\
QUEUE            WEIGHT   READY   HELD   PENDING   ADMITTED   LONGEST   USAGE
red              2        0       1      1         3          90s       cpu=3/2(+1)
namespace/shop   1        12      0      -         -          5s        -
";
        assert_eq!(table(&[red, shop]), expected);
        assert_eq!(table(&[]), "");
    }
}
