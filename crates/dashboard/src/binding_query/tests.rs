use berth_api::ResourceBinding;
use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn store(bindings: usize) -> Store {
    let mut store = Store::default();
    for number in 0..bindings {
        let is_placed = number % 10 != 0;
        let targets = if is_placed {
            json!([{"name": format!("member{}", number % 7), "replicas": number % 50}])
        } else {
            json!([])
        };
        let spec = json!({
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{number}")},
            "replicas": number % 50, "clusters": targets, "placement": {},
        });
        let (status, reason) = if is_placed {
            ("True", "Success")
        } else {
            ("False", "NoClusterFit")
        };
        let status = json!({"conditions": [{
            "type": "Scheduled", "status": status, "reason": reason, "message": "0/7 clusters are available",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]});
        let metadata = json!({
            "namespace": "shop", "name": format!("web-{number:05}"),
            "annotations": {"propagationpolicy.karmada.io/name": format!("policy{}", number % 3)},
        });
        let binding = json!({"metadata": metadata, "spec": spec, "status": status});
        let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
        store.apply_binding(binding.into(), None, NOW);
    }
    store
}

fn query(pairs: &[(&str, &str)]) -> Query {
    let pairs = pairs.iter();
    Query::new(
        &pairs
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
    )
}

#[test]
fn filters_narrow_the_list() {
    let store = store(210);
    for (pairs, total) in [
        (&[][..], 210),
        // Without a row of a cluster, the copies there are missing.
        (&[("health", "waiting")], 189),
        (&[("health", "stuck")], 21),
        (&[("health", "problems")], 21),
        (&[("health", "well")], 0),
        (&[("health", "moving")], 0),
        (&[("health", "unknown")], 210),
        (&[("reason", "Unschedulable")], 21),
        (&[("reason", "ClusterMissing")], 189),
        (&[("reason", "unknown")], 210),
        (&[("cluster", "member1")], 27),
        (&[("policy", "policy2")], 70),
        (&[("policy", "shop/policy2")], 70),
        (&[("policy", "shop/policy")], 0),
        (&[("q", "WEB-00012")], 1),
        (&[("q", "UNSCHEDULABLE")], 21),
        (&[("q", "clusters are available")], 21),
        (&[("q", "é")], 0),
        (&[("health", "stuck"), ("policy", "policy0")], 7),
    ] {
        assert_eq!(query(pairs).select(&store, NOW).total, total, "{pairs:?}");
    }
}

#[test]
fn pages_are_ordered_and_bounded() {
    let store = store(210);
    let last = query(&[("page", "9")]);
    let last = last.select(&store, NOW);
    assert_eq!((last.page, last.rows.len(), last.total), (3, 10, 210));
    let by_replicas = query(&[("sort", "replicas")]);
    let first = by_replicas.select(&store, NOW);
    let replicas = first.rows.iter().map(|(_, row)| row.targets.iter());
    let replicas: Vec<i32> = replicas.flatten().map(|(_, replicas)| replicas).collect();
    assert!(replicas.is_sorted_by(|a, b| a >= b), "{replicas:?}");
    assert_eq!(replicas.first(), Some(&49));
    let worst_first = query(&[]).select(&store, NOW).rows.clone();
    assert!(
        worst_first[..21]
            .iter()
            .all(|(_, row)| row.workload.health == Health::Stuck)
    );
    assert_eq!(
        query(&[("page", "0")]).select(&Store::default(), NOW).page,
        1
    );
}

#[test]
fn the_path_of_a_query_has_its_encoded_parameters() {
    let of = query(&[
        ("q", "a&b=c d"),
        ("sort", "newest"),
        ("health", "broken"),
        ("reason", "NotReady"),
    ]);
    assert_eq!(
        of.path(2),
        "/bindings?health=broken&reason=NotReady&sort=newest&q=a%26b%3Dc%20d&page=2"
    );
    assert_eq!(query(&[]).path(1), "/bindings");
}
