use super::*;

fn name(name: &str) -> BindingKey {
    BindingKey::new("shop", name)
}

fn row(targets: &[(&str, i32)]) -> BindingRow {
    let clusters: Vec<_> = targets
        .iter()
        .map(|(name, replicas)| serde_json::json!({"name": name, "replicas": replicas}))
        .collect();
    let spec = serde_json::json!({
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "clusters": clusters,
    });
    let status = serde_json::json!({"conditions": [{
        "type": "Scheduled", "status": "True", "reason": "Success", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let binding = serde_json::json!({"metadata": {}, "spec": spec, "status": status});
    let binding: berth_api::ResourceBinding = serde_json::from_value(binding).unwrap();
    BindingRow::of(&binding.into())
}

#[test]
fn loads_and_totals_follow_the_bindings() {
    let mut store = Store::default();
    let at = Timestamp::UNIX_EPOCH;
    store.apply_binding(name("a"), row(&[("m1", 2), ("m2", 1)]), None);
    store.apply_binding(name("b"), row(&[("m1", 3)]), None);
    let load = |bindings, replicas| Load { bindings, replicas };
    assert_eq!(store.load("m1"), load(2, 5));
    store.apply_binding(name("a"), row(&[("m2", 4)]), Some(at));
    assert_eq!(store.load("m1"), load(1, 3));
    assert_eq!(store.load("m2"), load(1, 4));
    assert_eq!(store.totals.scheduled, 2);
    store.retain_bindings(BindingKind::Namespaced, &BTreeSet::from([name("a")]), at);
    assert_eq!(store.load("m1"), Load::default());
    assert_eq!(store.totals.scheduled, 1);
}

#[test]
fn changes_after_the_first_list_are_recorded_as_moves() {
    let mut store = Store::default();
    let at = Timestamp::UNIX_EPOCH;
    store.apply_binding(name("a"), row(&[("m1", 2)]), None);
    store.apply_binding(name("a"), row(&[("m1", 2)]), Some(at));
    assert!(store.moves.is_empty());
    store.apply_binding(name("a"), row(&[("m2", 2)]), Some(at));
    store.remove_binding(&name("a"), at);
    let seen: Vec<(usize, usize)> = store
        .moves
        .iter()
        .map(|of| (of.before.len(), of.after.len()))
        .collect();
    assert_eq!(seen, [(1, 1), (1, 0)]);
    for number in 0..=MAX_MOVES {
        let replicas = i32::try_from(number).unwrap() + 1;
        store.apply_binding(name("b"), row(&[("m1", replicas)]), Some(at));
    }
    assert_eq!(store.moves.len(), MAX_MOVES);
}
