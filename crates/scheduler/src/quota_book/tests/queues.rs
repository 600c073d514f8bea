//! Tests of ClusterQueues: their bindings, their limits, and the order in which waiting bindings get room.

use berth_api::binding::GracefulEvictionTask;
use serde_json::Value;

use super::*;

fn queue(name: &str, spec: Value) -> ClusterQueue {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

/// Returns a spec that selects a namespace, with a quota of CPUs.
fn spec(namespace: &str, nominal: &str, others: &Value) -> Value {
    let mut quota = json!({ "name": "cpu", "nominalQuota": nominal });
    for (field, value) in others.as_object().unwrap() {
        quota[field] = value.clone();
    }
    json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
        "cohortName": "all",
        "quotas": [quota],
    })
}

/// Returns a book with queues and stored bindings. The namespaces have the label `team: red`.
fn book(queues: &[(&str, Value)], bindings: &[Binding]) -> QuotaBook {
    let mut book = QuotaBook::default();
    for (name, spec) in queues {
        book.queue_applied(queue(name, spec.clone()));
    }
    for namespace in ["shop", "pay"] {
        let labels = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
        book.namespace_applied(namespace, labels);
    }
    for binding in bindings {
        book.binding_changed(None, binding);
    }
    book.refresh_queues(bindings.iter());
    book.take_ready();
    book
}

fn refusal(book: &QuotaBook, binding: &Binding, replicas: i32) -> Option<String> {
    let checked = book.check(binding, &clusters(replicas));
    checked.err().map(|error| error.to_string())
}

#[test]
fn a_queue_uses_its_nominal_quota_and_what_its_cohort_lends() {
    let none = json!({});
    for (about, of_shop, of_pay, pay_uses, wanted, expected) in [
        ("within the nominal quota", &none, &none, 0, 2, None),
        ("borrows all that is unused", &none, &none, 1, 5, None),
        (
            "the cohort is used up",
            &none,
            &none,
            2,
            5,
            Some("ClusterQueue shop: 5 of 2 cpu would be in use; cohort all has 4 unused"),
        ),
        (
            "the borrowing limit",
            &json!({ "borrowingLimit": "1" }),
            &none,
            0,
            4,
            Some("ClusterQueue shop: 4 of 2 cpu would be in use; it may borrow at most 1"),
        ),
        (
            "the lending limit",
            &none,
            &json!({ "lendingLimit": "1" }),
            0,
            4,
            Some("ClusterQueue shop: 4 of 2 cpu would be in use; cohort all has 3 unused"),
        ),
        (
            "lent to another queue",
            &none,
            &none,
            6,
            1,
            Some(
                "ClusterQueue shop: 1 of 2 cpu would be in use; cohort all has 0 unused, because other queues borrow",
            ),
        ),
        (
            "kept for itself",
            &json!({ "lendingLimit": "0" }),
            &none,
            6,
            2,
            None,
        ),
    ] {
        let web = binding("web", 1, 0, 0);
        let bill = binding_in("pay", "bill", 1, 0, pay_uses);
        let queues = [
            ("shop", spec("shop", "2", of_shop)),
            ("pay", spec("pay", "4", of_pay)),
        ];
        let book = book(&queues, &[web.clone(), bill]);
        assert_eq!(refusal(&book, &web, wanted).as_deref(), expected, "{about}");
    }
}

#[test]
fn a_queue_without_a_cohort_does_not_borrow() {
    let mut alone = spec("shop", "2", &json!({ "borrowingLimit": "9" }));
    alone.as_object_mut().unwrap().remove("cohortName");
    let web = binding("web", 1, 0, 1);
    let queues = [("shop", alone), ("pay", spec("pay", "4", &json!({})))];
    let book = book(&queues, std::slice::from_ref(&web));
    let message = "ClusterQueue shop: 3 of 2 cpu would be in use";
    assert_eq!(refusal(&book, &web, 3).as_deref(), Some(message));
    assert_eq!(refusal(&book, &web, 2), None);
}

#[test]
fn a_held_queue_admits_nothing_and_lets_bindings_shrink() {
    let mut held = spec("shop", "9", &json!({}));
    held["stopPolicy"] = json!("Hold");
    let (web, api) = (binding("web", 1, 0, 2), binding("api", 2, 0, 0));
    let book = book(&[("shop", held)], &[web.clone(), api.clone()]);
    let message = "ClusterQueue shop: admission is on hold (stopPolicy Hold)";
    assert_eq!(refusal(&book, &api, 1).as_deref(), Some(message));
    assert_eq!(refusal(&book, &web, 3).as_deref(), Some(message));
    assert_eq!(refusal(&book, &web, 1), None);
    let mut evicted = api;
    evicted.spec.graceful_eviction_tasks = vec![GracefulEvictionTask::default()];
    assert_eq!(refusal(&book, &evicted, 1), None);
}

#[test]
fn a_queue_that_is_created_again_has_no_reservations() {
    let queues = [("shop", spec("shop", "2", &json!({})))];
    let (web, api) = (binding("web", 1, 0, 2), binding("api", 2, 0, 0));
    let bindings = [web.clone(), api.clone()];
    let mut book = book(&queues, &bindings);
    assert!(!decide(&mut book, &api, 2));
    book.binding_deleted(&web.key);
    assert_eq!(names(&book.take_ready()), ["api"]);
    book.queue_deleted("shop");
    book.queue_applied(queue("shop", spec("shop", "2", &json!({}))));
    assert!(book.refresh_queues(std::iter::once(&api)));
    book.cycle_ended(&api.key);
    assert_eq!(refusal(&book, &api, 2), None);
    assert!(refusal(&book, &api, 3).is_some(), "a negative reservation");
}

#[test]
fn a_binding_belongs_to_a_queue_that_selects_its_namespace() {
    let red = json!({ "namespaceSelector": { "matchLabels": { "team": "red" } } });
    let queues = [
        ("b", red.clone()),
        ("c", red),
        (
            "a",
            json!({ "namespaceSelector": { "matchLabels": { "team": "blue" } } }),
        ),
        ("none", json!({})),
    ];
    for (label, namespace, expected) in [
        (None, "shop", Some("b")),
        (Some("c"), "shop", Some("c")),
        (Some("a"), "shop", Some("b")),
        (Some("missing"), "shop", Some("b")),
        (None, "unlisted", None),
    ] {
        let mut web = binding_in(namespace, "web", 1, 0, 0);
        web.metadata.labels = label.map(|queue| {
            let name = "scheduling.berth/queue-name".to_owned();
            BTreeMap::from([(name, queue.to_owned())])
        });
        let book = book(&queues, std::slice::from_ref(&web));
        let queue = book.queue_members().next().map(|(_, queue)| &**queue);
        assert_eq!(queue, expected, "{label:?} {namespace}");
        let unknown = "ClusterQueue unknown: the namespace unlisted is not listed yet";
        let refused = refusal(&book, &web, 1);
        assert_eq!(
            refused.as_deref(),
            (namespace == "unlisted").then_some(unknown)
        );
    }
}

#[test]
fn a_queue_gets_its_own_quota_back_before_another_queue_borrows_it() {
    let queues = [
        ("shop", spec("shop", "2", &json!({}))),
        ("pay", spec("pay", "2", &json!({}))),
    ];
    let lender = binding_in("pay", "bill", 1, 0, 4);
    let (borrower, owner) = (binding_in("pay", "tax", 2, 9, 0), binding("web", 3, 0, 0));
    let mut book = book(&queues, &[lender.clone(), borrower.clone(), owner.clone()]);
    assert!(!decide(&mut book, &borrower, 1));
    assert!(!decide(&mut book, &owner, 2));
    book.binding_changed(Some(&lender), &binding_in("pay", "bill", 4, 0, 2));
    assert_eq!(
        names(&book.take_ready()),
        ["web"],
        "the priority of tax is higher"
    );
    assert!(!decide(&mut book, &borrower, 1), "the room is reserved");
    assert!(decide(&mut book, &owner, 2));
}

#[test]
fn a_binding_that_changes_its_queue_takes_its_usage_along() {
    let queues = [
        ("shop", spec("shop", "2", &json!({}))),
        ("pay", spec("pay", "2", &json!({}))),
    ];
    let (web, api) = (binding("web", 1, 0, 2), binding("api", 2, 0, 0));
    let bindings = [web, api.clone()];
    let mut book = book(&queues, &bindings);
    assert_eq!(book.take_moved().len(), 2);
    assert!(!decide(&mut book, &api, 3));
    book.queue_deleted("shop");
    assert!(book.refresh_queues(bindings.iter()));
    assert_eq!(names(&book.take_ready()), ["api"]);
    assert_eq!(
        refusal(&book, &api, 9),
        None,
        "no queue limits the namespace"
    );
    book.queue_applied(queue("new", spec("shop", "2", &json!({}))));
    assert!(book.refresh_queues(bindings.iter()));
    assert!(!book.refresh_queues(bindings.iter()), "nothing has changed");
    assert_eq!(refusal(&book, &api, 2), None);
    let message = "ClusterQueue new: 5 of 2 cpu would be in use; cohort all has 2 unused";
    assert_eq!(refusal(&book, &api, 3).as_deref(), Some(message));
}

#[test]
fn a_quota_of_the_namespace_limits_the_bindings_of_a_queue_too() {
    let web = binding("web", 1, 0, 0);
    let queues = [("shop", spec("shop", "9", &json!({})))];
    let mut book = book(&queues, std::slice::from_ref(&web));
    book.quota_applied(quota(2), [&web].into_iter());
    let message =
        "FederatedResourceQuota(shop/team) exceeded for resource cpu: requested sum 3, limit 2.";
    assert_eq!(refusal(&book, &web, 3).as_deref(), Some(message));
    assert!(decide(&mut book, &web, 2));
}
