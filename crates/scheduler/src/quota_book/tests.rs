//! Tests of single steps of the book. The module `histories` tests random histories.

mod histories;
mod queues;

use std::sync::Arc;

use berth_api::ResourceBinding;
use serde_json::json;

use super::*;

/// Returns a binding whose replicas request one CPU and run in the cluster m1.
fn binding(name: &str, version: u32, priority: i32, replicas: i32) -> Binding {
    binding_in("shop", name, version, priority, replicas)
}

/// Returns a binding in a namespace.
fn binding_in(namespace: &str, name: &str, version: u32, priority: i32, replicas: i32) -> Binding {
    let clusters = match replicas {
        0 => json!([]),
        replicas => json!([{ "name": "m1", "replicas": replicas }]),
    };
    let object = json!({
        "metadata": { "namespace": namespace, "name": name, "uid": name, "resourceVersion": version.to_string() },
        "spec": {
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "replicaRequirements": { "resourceRequest": { "cpu": "1" } },
            "schedulePriority": { "priority": priority },
            "clusters": clusters,
        },
    });
    serde_json::from_value::<ResourceBinding>(object)
        .unwrap()
        .into()
}

fn quota(cpus: i32) -> FederatedResourceQuota {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "team" },
        "spec": { "overall": { "cpu": cpus.to_string() } },
    }))
    .unwrap()
}

fn clusters(replicas: i32) -> Vec<TargetCluster> {
    let target = TargetCluster {
        name: "m1".to_owned(),
        replicas,
        components: Vec::new(),
    };
    vec![target]
}

/// Returns a book with a quota and stored bindings.
fn book(cpus: i32, bindings: &[Binding]) -> QuotaBook {
    let mut book = QuotaBook::default();
    for binding in bindings {
        book.binding_changed(None, binding);
    }
    book.quota_applied(quota(cpus), bindings.iter());
    book.take_ready();
    book
}

/// Decides about a binding as the scheduler does. Reports whether the quotas allow the decision.
fn decide(book: &mut QuotaBook, binding: &Binding, replicas: i32) -> bool {
    book.concluded(&binding.key);
    let clusters = clusters(replicas);
    if book.check(binding, &clusters).is_err() {
        book.refused(&Arc::new(binding.clone()), &clusters);
        return false;
    }
    book.decided(binding, &clusters);
    true
}

fn names(keys: &[BindingKey]) -> Vec<&str> {
    keys.iter().map(|key| &*key.name).collect()
}

#[test]
fn only_growth_beyond_a_limit_is_refused() {
    for (about, limit, others, stored, wanted, refusal) in [
        ("fits", 4, 2, 0, 2, None),
        ("exceeds", 4, 2, 0, 3, Some("requested sum 5, limit 4.")),
        ("grows within the limit", 4, 2, 1, 2, None),
        (
            "grows beyond it",
            4,
            2,
            1,
            3,
            Some("requested sum 5, limit 4."),
        ),
        ("exceeded, equal", 1, 2, 2, 2, None),
        ("exceeded, smaller", 1, 2, 2, 1, None),
        (
            "exceeded, grows",
            1,
            2,
            2,
            3,
            Some("requested sum 5, limit 1."),
        ),
    ] {
        let (web, api) = (binding("web", 1, 0, stored), binding("api", 2, 0, others));
        let book = book(limit, &[web.clone(), api]);
        let answer = book.check(&web, &clusters(wanted));
        let expected = refusal.map(|rest| {
            format!("FederatedResourceQuota(shop/team) exceeded for resource cpu: {rest}")
        });
        assert_eq!(
            answer.err().map(|error| error.to_string()),
            expected,
            "{about}"
        );
    }
}

#[test]
fn a_decision_counts_until_the_stored_binding_counts() {
    let (web, api) = (binding("web", 1, 0, 0), binding("api", 2, 0, 0));
    let mut book = book(3, &[web.clone(), api.clone()]);
    assert!(decide(&mut book, &web, 2));
    assert!(!decide(&mut book, &api, 2), "the decision about web counts");
    assert!(book.take_ready().is_empty(), "no room");

    let written = binding("web", 3, 0, 2);
    book.complete(&web.key);
    book.binding_changed(Some(&web), &written);
    assert!(!decide(&mut book, &api, 2), "the stored binding counts");
    assert!(decide(&mut book, &written, 1));
    assert!(
        !decide(&mut book, &api, 2),
        "it shrinks only when it is written"
    );
    book.complete(&web.key);
    book.binding_changed(Some(&written), &binding("web", 4, 0, 1));
    assert_eq!(names(&book.take_ready()), ["api"]);
    assert!(decide(&mut book, &api, 2));
}

#[test]
fn a_write_without_an_answer_counts_until_the_binding_changes() {
    let (web, api) = (binding("web", 1, 0, 0), binding("api", 2, 0, 0));
    let mut book = book(2, &[web.clone(), api.clone()]);
    assert!(decide(&mut book, &web, 2));
    book.result_unknown(&web.key, Some(&web));
    book.complete(&web.key);
    assert!(!decide(&mut book, &api, 1), "the write may still succeed");
    // The next decision is smaller, but the earlier write may still succeed.
    assert!(decide(&mut book, &web, 1));
    book.complete(&web.key);
    assert!(!decide(&mut book, &api, 1));
    book.binding_changed(Some(&web), &web);
    assert!(!decide(&mut book, &api, 1), "the version is the same");
    book.binding_changed(Some(&web), &binding("web", 3, 0, 0));
    assert_eq!(names(&book.take_ready()), ["api"]);
}

#[test]
fn decisions_before_the_first_quota_count() {
    let web = binding("web", 1, 0, 0);
    let mut book = QuotaBook::default();
    book.binding_changed(None, &web);
    assert!(decide(&mut book, &web, 2));
    book.quota_applied(quota(2), [&web].into_iter());
    assert!(!decide(&mut book, &binding("api", 2, 0, 0), 1));
}

#[test]
fn room_goes_to_the_highest_priority_and_then_to_the_first_refusal() {
    let placed = binding("placed", 1, 0, 3);
    let waiting = [
        binding("first", 2, 0, 0),
        binding("second", 3, 0, 0),
        binding("urgent", 4, 10, 0),
        binding("large", 5, 5, 0),
    ];
    let mut all = vec![placed.clone()];
    all.extend(waiting.clone());
    let mut book = book(3, &all);
    for binding in &waiting {
        let replicas = if &*binding.key.name == "large" { 3 } else { 1 };
        assert!(!decide(&mut book, binding, replicas));
    }
    book.binding_changed(Some(&placed), &binding("placed", 6, 0, 1));
    assert_eq!(names(&book.take_ready()), ["urgent", "first"]);
    assert!(book.take_ready().is_empty(), "the room is reserved");
    // A binding that does not use its room leaves it to the next one.
    book.cycle_ended(&waiting[0].key);
    assert_eq!(names(&book.take_ready()), ["second"]);
    assert!(decide(&mut book, &waiting[1], 1));
    book.binding_deleted(&waiting[2].key);
    assert!(book.take_ready().is_empty(), "large does not fit");
    book.quota_applied(quota(5), [].into_iter());
    assert_eq!(names(&book.take_ready()), ["large"]);
}

#[test]
fn a_binding_that_is_refused_again_keeps_its_place() {
    let placed = binding("placed", 1, 0, 3);
    let (first, second) = (binding("first", 2, 0, 0), binding("second", 3, 0, 0));
    let mut book = book(3, &[placed.clone(), first.clone(), second.clone()]);
    for refused in [&first, &second, &first] {
        assert!(!decide(&mut book, refused, 1));
    }
    book.binding_changed(Some(&placed), &binding("placed", 4, 0, 2));
    assert_eq!(names(&book.take_ready()), ["first"]);
}

#[test]
fn a_deleted_quota_admits_all_waiting_bindings() {
    let waiting = [binding("web", 1, 0, 0), binding("api", 2, 0, 0)];
    let mut book = book(0, &waiting);
    for binding in &waiting {
        assert!(!decide(&mut book, binding, 1));
    }
    book.retain_quotas(|namespace, name| (namespace, name) == ("shop", "team"));
    assert!(book.take_ready().is_empty());
    book.retain_quotas(|_, _| false);
    assert_eq!(names(&book.take_ready()), ["web", "api"]);
    assert!(
        waiting
            .iter()
            .all(|binding| decide(&mut book, binding, 100))
    );
}

#[test]
fn other_namespaces_and_cluster_scoped_bindings_are_not_limited() {
    let mut book = book(0, &[]);
    let mut elsewhere = binding("web", 1, 0, 0);
    elsewhere.key.namespace = Some(Arc::from("other"));
    assert!(decide(&mut book, &elsewhere, 1));
    elsewhere.key.namespace = None;
    assert!(decide(&mut book, &elsewhere, 1));
}
