use proptest::prelude::*;

use super::*;

fn amounts(list: &[(&str, &str)]) -> Amounts {
    let list = list.iter();
    list.map(|(resource, text)| ((*resource).to_owned(), Quantity::parse(text).unwrap()))
        .collect()
}

fn node(labels: &[(&str, &str)], taint: Option<&str>) -> NodeResources {
    let labels = labels.iter();
    NodeResources {
        ready: true,
        allocatable: amounts(&[
            ("cpu", "8"),
            ("memory", "32Gi"),
            ("pods", "110"),
            ("storage", "1"),
        ]),
        labels: labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        taints: taint
            .into_iter()
            .map(|key| NodeTaint {
                key: key.to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            })
            .collect(),
    }
}

#[test]
fn nodes_with_the_same_labels_and_taints_form_a_pool() {
    let nodes: BTreeMap<String, NodeResources> = (0..40)
        .map(|number| {
            let name = format!("node-{number}");
            let disk = if number < 3 { "nvme" } else { "hdd" };
            let labels = [
                ("kubernetes.io/hostname", &*name),
                ("os", "linux"),
                ("disk", disk),
            ];
            let taint = (number == 0).then_some("gpu");
            (name.clone(), node(&labels, taint))
        })
        .collect();
    let requested = HashMap::from([
        (
            "node-1",
            amounts(&[("cpu", "1800m"), ("memory", "3Gi"), ("pods", "2")]),
        ),
        // A node that takes no further pod.
        ("node-2", amounts(&[("pods", "110")])),
    ]);
    let summary = serde_json::to_value(summarise(&nodes, &requested)).unwrap();
    let free = |cpu: &str, memory: &str, pods: &str| serde_json::json!({ "cpu": cpu, "memory": memory, "pods": pods });
    let expected = serde_json::json!({
        "labels": { "os": "linux" },
        "omittedLabels": ["kubernetes.io/hostname"],
        "pools": [
            { "labels": { "disk": "hdd" }, "nodes": [{ "count": 37, "free": free("8", "32Gi", "108") }] },
            // 6.2 CPUs, 29 GiB and 108 pods, rounded down to a sixteenth of the node.
            { "labels": { "disk": "nvme" },
                "nodes": [{ "count": 1 }, { "count": 1, "free": free("6", "28Gi", "108") }] },
            { "labels": { "disk": "nvme" }, "taints": [{ "key": "gpu", "effect": "NoSchedule" }],
                "nodes": [{ "count": 1, "free": free("8", "32Gi", "108") }] },
        ],
    });
    assert_eq!(summary, expected);
}

#[test]
fn without_nodes_the_summary_is_empty() {
    assert_eq!(
        summarise(&BTreeMap::new(), &HashMap::new()),
        NodePools::default()
    );
}

/// Random nodes with labels of few and of many values, and the cpu that their pods request.
fn random_nodes() -> impl Strategy<Value = (BTreeMap<String, NodeResources>, Vec<i64>)> {
    let label = ("[a-f]", 0..40_u32);
    let one = (
        prop::collection::btree_map("[k-z]{1,2}", label, 0..8),
        prop::option::of("[tu]"),
        0..9_000_i64,
    );
    prop::collection::vec(one, 1..120).prop_map(|list| {
        let mut used = Vec::new();
        let nodes = list
            .into_iter()
            .enumerate()
            .map(|(number, (labels, taint, cpu))| {
                let labels: Vec<(String, String)> = labels
                    .into_iter()
                    .map(|(key, (letter, value))| (key, format!("{letter}{value}")))
                    .collect();
                let labels: Vec<(&str, &str)> = labels
                    .iter()
                    .map(|(key, value)| (&**key, &**value))
                    .collect();
                used.push(cpu);
                (format!("node-{number:03}"), node(&labels, taint.as_deref()))
            });
        (nodes.collect(), used)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn each_node_is_counted_once_and_no_resource_is_invented((nodes, used) in random_nodes()) {
        let names: Vec<&str> = nodes.keys().map(String::as_str).collect();
        let requested: HashMap<&str, Amounts> = names
            .iter()
            .zip(&used)
            .map(|(name, cpu)| (*name, Amounts::from([("cpu".to_owned(), Quantity::from_milli(*cpu))])))
            .collect();
        let summary = summarise(&nodes, &requested);
        prop_assert!(summary.pools.len() <= MAX_POOLS);
        prop_assert!(serde_json::to_vec(&summary).unwrap().len() <= MAX_BYTES);

        let mut free_in_nodes: Vec<i64> = used.iter().map(|cpu| (8_000 - cpu).max(0)).collect();
        let mut free_in_pools: Vec<i64> = Vec::new();
        for equal in summary.pools.iter().flat_map(|pool| &pool.nodes) {
            let cpu = equal.free.get("cpu").map_or(0, |cpu| cpu.parse().unwrap().milli_value());
            free_in_pools.extend(std::iter::repeat_n(cpu, usize::try_from(equal.count).unwrap()));
        }
        free_in_nodes.sort_unstable();
        free_in_pools.sort_unstable();
        prop_assert_eq!(free_in_nodes.len(), free_in_pools.len());
        for (node, pool) in free_in_nodes.iter().zip(&free_in_pools) {
            prop_assert!(pool <= node && node - pool < 8_000 / STEPS[2]);
        }

        // Each label of a node is either in its pool or omitted.
        let omitted: BTreeSet<&String> = summary.omitted_labels.iter().collect();
        for node in nodes.values() {
            let kept: BTreeMap<&String, &String> =
                node.labels.iter().filter(|(key, _)| !omitted.contains(key)).collect();
            let of_pool = |pool: &NodePool| {
                let labels: BTreeMap<&String, &String> = summary.labels.iter().chain(&pool.labels).collect();
                labels == kept && pool.taints == node.taints
            };
            prop_assert_eq!(summary.pools.iter().filter(|pool| of_pool(pool)).count(), 1);
        }
    }
}
