//! Tests of the admission rules, by kind: accepted objects, defaults, and rejected fields.

#![expect(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "json! literals are passed by value, and the tables have many rows"
)]

use serde_json::{Value, json};

use super::*;

/// An environment with consecutive ids and a constant time.
#[derive(Debug, Default)]
struct Counted(u32);

impl Environment for Counted {
    fn new_id(&mut self) -> String {
        self.0 += 1;
        format!("id-{}", self.0)
    }

    fn now(&mut self) -> String {
        "2026-01-02T03:04:05Z".to_owned()
    }
}

fn created(kind: GuardedKind, mut object: Value) -> Value {
    mutate(
        kind,
        Operation::Create,
        &mut object,
        &mut Counted::default(),
    );
    object
}

fn policy(spec: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    policy
}

fn placed(placement: Value) -> Value {
    policy(json!({ "placement": placement }))
}

fn refused_fields(kind: GuardedKind, object: &Value) -> Vec<String> {
    match validate(kind, Operation::Create, None, object) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.field).collect(),
    }
}

#[test]
fn new_policies_get_id_finalizer_and_defaults() {
    let stored = created(
        GuardedKind::PropagationPolicy,
        policy(json!({
            "propagateDeps": false,
            "placement": {
                "spreadConstraints": [{"maxGroups": 2}, {"spreadByLabel": "env", "minGroups": 3}],
                "replicaScheduling": {},
            },
            "failover": {"application": {"decisionConditions": {}}},
        })),
    );
    assert_eq!(
        stored["metadata"],
        json!({
            "name": "p", "namespace": "shop",
            "labels": {"propagationpolicy.karmada.io/permanent-id": "id-1"},
            "finalizers": ["karmada.io/propagation-policy-controller"],
        })
    );
    assert_eq!(
        stored["spec"],
        json!({
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "priority": 0, "preemption": "Never", "schedulerName": "default-scheduler",
            "conflictResolution": "Abort",
            "placement": {
                "spreadConstraints": [
                    {"spreadByField": "cluster", "maxGroups": 2, "minGroups": 1},
                    {"spreadByLabel": "env", "minGroups": 3}],
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"},
            },
            "failover": {"application": {
                "decisionConditions": {"tolerationSeconds": 300},
                "purgeMode": "Gracefully", "gracePeriodSeconds": 600}},
        })
    );
}

#[test]
fn policies_for_service_imports_propagate_dependencies() {
    let stored = created(
        GuardedKind::ClusterPropagationPolicy,
        json!({"metadata": {"name": "p"}, "spec": {"resourceSelectors": [
            {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}]}}),
    );
    assert_eq!(stored["spec"]["propagateDeps"], true);
    assert_eq!(stored["spec"]["placement"], json!({}));
}

#[test]
fn updates_keep_the_id_and_restore_defaults() {
    let mut changed = placed(json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}}));
    changed["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "old"});
    mutate(
        GuardedKind::PropagationPolicy,
        Operation::Update,
        &mut changed,
        &mut Counted::default(),
    );
    assert_eq!(
        changed["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"],
        "old"
    );
    assert_eq!(
        changed["spec"]["placement"]["replicaScheduling"]["replicaDivisionPreference"],
        "Weighted"
    );
}

#[test]
fn an_empty_string_is_replaced_by_the_default() {
    let mut policy = placed(json!({"replicaScheduling": {"replicaSchedulingType": ""}}));
    policy["spec"]["preemption"] = json!("");
    let once = created(GuardedKind::PropagationPolicy, policy);
    assert_eq!(
        once["spec"]["placement"]["replicaScheduling"],
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"})
    );
    assert_eq!(once["spec"]["preemption"], "Never");
    assert_eq!(created(GuardedKind::PropagationPolicy, once.clone()), once);
}

#[test]
fn completing_a_complete_policy_changes_nothing() {
    let stored = created(GuardedKind::PropagationPolicy, placed(json!({})));
    let mut again = stored.clone();
    complete_policy(GuardedKind::PropagationPolicy, &mut again, &mut Counted(7));
    assert_eq!(again, stored);
}

#[test]
fn policies_in_deletion_get_no_finalizer() {
    let mut leaving = placed(json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    complete_policy(
        GuardedKind::PropagationPolicy,
        &mut leaving,
        &mut Counted::default(),
    );
    assert_eq!(leaving["metadata"].get("finalizers"), None);
}

#[test]
fn unknown_fields_survive_the_mutating_phase() {
    let stored = created(
        GuardedKind::PropagationPolicy,
        placed(json!({"future": {"deep": [1]}, "clusterAffinity": {"later": "x"}})),
    );
    assert_eq!(stored["spec"]["placement"]["future"], json!({"deep": [1]}));
    assert_eq!(stored["spec"]["placement"]["clusterAffinity"]["later"], "x");
}

#[test]
fn invalid_policies_are_rejected_by_field() {
    let overflow = json!([{"affinityName": "b", "clusterNames": ["m2"]}]);
    let aggregated =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let rules = json!([{"aliasLabelName": "not valid", "jsonPath": "{.a}"}]);
    let application = |fields: Value| {
        let mut application = json!({"decisionConditions": {}});
        for (key, value) in fields.as_object().unwrap() {
            application[key] = value.clone();
        }
        policy(json!({"propagateDeps": true, "failover": {"application": application}}))
    };
    for (object, fields) in [
        (placed(json!({})), vec![]),
        (
            placed(json!({"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]})),
            vec!["spec.placement"],
        ),
        (
            placed(json!({"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]})),
            vec!["spec.placement.clusterAffinities"],
        ),
        (
            placed(json!({"clusterAffinities": [{"affinityName": "not valid!"}]})),
            vec!["spec.placement.clusterAffinities[0].affinityName"],
        ),
        (
            placed(
                json!({"clusterAffinities": [{"affinityName": "a", "overflowAffinities": overflow}]}),
            ),
            vec![
                "spec.placement.clusterAffinities[0].overflowAffinities",
                "spec.placement.clusterAffinities[0].overflowAffinities",
            ],
        ),
        (
            placed(json!({
                "clusterAffinities": [
                    {"affinityName": "a", "clusterNames": ["m1"], "overflowAffinities": overflow}],
                "replicaScheduling": aggregated})),
            vec![],
        ),
        (
            placed(json!({
                "clusterAffinities": [
                    {"affinityName": "b", "clusterNames": ["m1"], "overflowAffinities": overflow}],
                "replicaScheduling": aggregated})),
            vec!["spec.placement.clusterAffinities[0].overflowAffinities[0].affinityName"],
        ),
        (
            placed(
                json!({"clusterAffinity": {"fieldSelector": {"matchExpressions": [
                {"key": "continent", "operator": "Exists"}]}}}),
            ),
            vec![
                "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].key",
                "spec.placement.clusterAffinity.fieldSelector.matchExpressions[0].operator",
            ],
        ),
        (
            placed(json!({"spreadConstraints": [{"spreadByField": "region"}]})),
            vec!["spec.placement.spreadConstraints"],
        ),
        (
            placed(
                json!({"spreadConstraints": [{"spreadByField": "cluster"}, {"spreadByField": "cluster"}]}),
            ),
            vec!["spec.placement.spreadConstraints"],
        ),
        (
            placed(json!({"spreadConstraints": [{"minGroups": -1, "maxGroups": -2}]})),
            vec![
                "spec.placement.spreadConstraints[0].minGroups",
                "spec.placement.spreadConstraints[0].maxGroups",
            ],
        ),
        (
            placed(json!({"spreadConstraints": [{"minGroups": 3, "maxGroups": 2}]})),
            vec!["spec.placement.spreadConstraints[0].maxGroups"],
        ),
        (
            placed(
                json!({"spreadConstraints": [{"spreadByField": "cluster", "spreadByLabel": "env"}]}),
            ),
            vec!["spec.placement.spreadConstraints[0]"],
        ),
        (
            placed(json!({"workloadAffinity": {
                "affinity": {"groupByLabelKey": "app"}, "antiAffinity": {"groupByLabelKey": "app"}}})),
            vec!["spec.placement.workloadAffinity"],
        ),
        (
            placed(json!({"workloadAffinity": {"affinity": {"groupByLabelKey": "a b"}}})),
            vec!["spec.placement.workloadAffinity.affinity.groupByLabelKey"],
        ),
        (
            placed(json!({"clusterTolerations": [{"operator": "Near"}, {"operator": "Lt"}]})),
            vec!["spec.placement.clusterTolerations[1].operator"],
        ),
        (
            policy(json!({"failover": {"application": {"decisionConditions": {}}}})),
            vec!["spec.propagateDeps"],
        ),
        (
            application(json!({"decisionConditions": {"tolerationSeconds": -1}})),
            vec!["spec.failover.application.decisionConditions.tolerationSeconds"],
        ),
        (
            application(json!({"purgeMode": "Directly", "gracePeriodSeconds": 1})),
            vec!["spec.failover.application.gracePeriodSeconds"],
        ),
        (
            application(json!({"gracePeriodSeconds": 0})),
            vec!["spec.failover.application.gracePeriodSeconds"],
        ),
        (
            policy(json!({"failover": {"cluster": {"statePreservation": {"rules": rules}}}})),
            vec!["spec.failover.cluster.statePreservation.rules[0].aliasLabelName"],
        ),
        (
            policy(json!({"resourceSelectors": [
                {"apiVersion": "v1", "kind": "Pod", "namespace": "elsewhere"}]})),
            vec!["spec.resourceSelectors[0].namespace"],
        ),
        (
            policy(json!({"preemption": "Always", "resourceSelectors": [
                {"apiVersion": "v1", "kind": "Pod"}]})),
            vec!["spec.resourceSelectors[0].name"],
        ),
        (
            policy(json!({"suspension": {
                "dispatching": true, "dispatchingOnClusters": {"clusterNames": ["m1"]}}})),
            vec!["spec.suspension"],
        ),
        // An unknown operator in a label selector is accepted. Such a selector matches no cluster.
        (
            placed(
                json!({"clusterAffinity": {"labelSelector": {"matchExpressions": [
                {"key": "env", "operator": "Near"}]}}}),
            ),
            vec![],
        ),
    ] {
        let stored = created(GuardedKind::PropagationPolicy, object);
        let refused = refused_fields(GuardedKind::PropagationPolicy, &stored);
        assert_eq!(refused, fields, "{:#}", stored["spec"]);
    }
}

#[test]
fn scheduler_and_id_of_a_policy_are_immutable() {
    let kind = GuardedKind::PropagationPolicy;
    let label = "propagationpolicy.karmada.io/permanent-id";
    let old = created(kind, policy(json!({})));
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        let errors = validate(kind, Operation::Update, Some(&old), &new).err();
        errors.map(|errors| {
            errors
                .into_iter()
                .map(|e| (e.field, e.reason))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(refused(&|_| {}), None);
    assert_eq!(
        refused(&|new| new["spec"]["schedulerName"] = json!("other")),
        Some(vec![("spec.schedulerName".to_owned(), Reason::Invalid)])
    );
    assert_eq!(
        refused(&|new| new["metadata"]["labels"][label] = json!("mine")),
        Some(vec![(format!("metadata.labels[{label}]"), Reason::Invalid)])
    );
    assert_eq!(
        refused(&|new| new["metadata"]["labels"] = json!({})),
        Some(vec![(
            format!("metadata.labels[{label}]"),
            Reason::Required
        )])
    );
}

#[test]
fn bindings_without_an_id_get_one_and_malformed_dependencies_are_rejected() {
    let kind = GuardedKind::ResourceBinding;
    let label = "resourcebinding.karmada.io/permanent-id";
    let new = created(kind, json!({"metadata": {"name": "b"}, "spec": {}}));
    assert_eq!(new["metadata"]["labels"][label], "id-1");
    let known = created(
        kind,
        json!({"metadata": {"labels": {label: "x"}}, "spec": {}}),
    );
    assert_eq!(known["metadata"]["labels"][label], "x");
    for (text, valid) in [
        ("[]", true),
        (r#"[{"kind":"Secret"}]"#, true),
        ("{}", false),
        ("no", false),
    ] {
        let binding =
            json!({"metadata": {"annotations": {"resourcebinding.karmada.io/dependencies": text}}});
        assert_eq!(refused_fields(kind, &binding).is_empty(), valid, "{text}");
        assert!(refused_fields(GuardedKind::ClusterResourceBinding, &binding).is_empty());
    }
}

fn cluster(spec: Value) -> Value {
    let mut cluster = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}});
    for (key, value) in spec.as_object().unwrap() {
        cluster["spec"][key] = value.clone();
    }
    cluster
}

#[test]
fn new_clusters_get_models_zones_and_taint_times() {
    let mut object = cluster(json!({
        "zone": "a",
        "taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}],
    }));
    object["status"] = json!({"kubernetesVersion": "v1"});
    let stored = created(GuardedKind::Cluster, object);
    assert_eq!(stored.get("status"), None);
    assert_eq!(stored["spec"]["zones"], json!(["a"]));
    assert_eq!(stored["spec"].get("zone"), None);
    assert_eq!(
        stored["spec"]["taints"][0]["timeAdded"],
        "2026-01-02T03:04:05Z"
    );
    assert_eq!(stored["spec"]["taints"][1].get("timeAdded"), None);
    let models = stored["spec"]["resourceModels"].as_array().unwrap();
    assert_eq!(models.len(), 9);
    assert_eq!(
        models[1]["ranges"],
        json!([{"name": "cpu", "min": "1", "max": "2"}, {"name": "memory", "min": "4Gi", "max": "16Gi"}])
    );
    assert_eq!(
        refused_fields(GuardedKind::Cluster, &stored),
        Vec::<String>::new()
    );
}

#[test]
fn declared_models_are_sorted_and_cover_all_amounts() {
    let range = |min: &str, max: &str| json!([{"name": "cpu", "min": min, "max": max}]);
    let stored = created(
        GuardedKind::Cluster,
        cluster(json!({"resourceModels": [
            {"grade": 2, "ranges": range("4", "8")}, {"grade": 1, "ranges": range("1", "4")}]})),
    );
    assert_eq!(
        stored["spec"]["resourceModels"][0]["ranges"],
        range("0", "4")
    );
    assert_eq!(
        stored["spec"]["resourceModels"][1]["ranges"],
        range("4", "9223372036854775807")
    );
    assert_eq!(
        refused_fields(GuardedKind::Cluster, &stored),
        Vec::<String>::new()
    );
}

#[test]
fn invalid_clusters_are_rejected_by_field() {
    let named = |name: &str| json!({"metadata": {"name": name}, "spec": {"syncMode": "Pull"}});
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let model = |grade: u32, min: &str, max: &str| json!({"grade": grade, "ranges": [{"name": "cpu", "min": min, "max": max}]});
    for (object, field) in [
        (named("m1"), None),
        (named(&"a".repeat(48)), None),
        (named(&"a".repeat(49)), Some("metadata.name")),
        (named("a.b"), Some("metadata.name")),
        (named(""), Some("metadata.name")),
        (cluster(json!({"syncMode": "Drag"})), Some("spec.syncMode")),
        (
            cluster(json!({"apiEndpoint": "https://10.0.0.1:6443"})),
            None,
        ),
        (
            cluster(json!({"apiEndpoint": "10.0.0.1"})),
            Some("spec.apiEndpoint"),
        ),
        (
            cluster(json!({"apiEndpoint": "https://u@h"})),
            Some("spec.apiEndpoint"),
        ),
        (
            cluster(json!({"apiEndpoint": "https://h?x=1"})),
            Some("spec.apiEndpoint"),
        ),
        (
            cluster(json!({"apiEndpoint": "https://h#x"})),
            Some("spec.apiEndpoint"),
        ),
        (
            cluster(json!({"secretRef": {"namespace": "a", "name": ""}})),
            Some("spec.secretRef.name"),
        ),
        (cluster(json!({"proxyURL": "socks5://h:1"})), None),
        (
            cluster(json!({"proxyURL": "ftp://h"})),
            Some("spec.proxyURL"),
        ),
        (
            cluster(json!({"provider": "no value"})),
            Some("spec.provider"),
        ),
        (
            cluster(json!({"zone": "a", "zones": ["b"]})),
            Some("spec.zone"),
        ),
        (
            cluster(json!({"zones": ["a", "b c"]})),
            Some("spec.zones[1]"),
        ),
        (
            cluster(json!({"taints": [taint("k", "NoSchedule"), taint("k", "NoExecute")]})),
            None,
        ),
        (
            cluster(json!({"taints": [taint("k", "PreferNoSchedule")]})),
            Some("spec.taints[0].effect"),
        ),
        (
            cluster(json!({"taints": [taint("k k", "NoSchedule")]})),
            Some("spec.taints[0].key"),
        ),
        (
            cluster(json!({"taints": [taint("k", "NoSchedule"), taint("k", "NoSchedule")]})),
            Some("spec.taints[1]"),
        ),
        (
            cluster(json!({"resourceModels": [model(0, "0", "2"), model(0, "2", "3")]})),
            Some("spec.resourceModels"),
        ),
        (
            cluster(json!({"resourceModels": [model(0, "0", "2"), model(1, "3", "4")]})),
            Some("spec.resourceModels"),
        ),
        (
            cluster(json!({"resourceModels": [model(0, "0", "0"), model(1, "0", "1")]})),
            Some("spec.resourceModels"),
        ),
    ] {
        let stored = created(GuardedKind::Cluster, object);
        let refused = refused_fields(GuardedKind::Cluster, &stored);
        assert_eq!(refused, Vec::from_iter(field), "{stored:#}");
    }
}

#[test]
fn protected_objects_cannot_be_deleted() {
    let labelled = |value: &str| json!({"metadata": {"labels": {"resourcetemplate.karmada.io/deletion-protected": value}}});
    assert_eq!(check_deletion(&labelled("Always")), Err(DeletionProtected));
    assert_eq!(check_deletion(&labelled("")), Ok(()));
    assert_eq!(check_deletion(&json!({"metadata": {}})), Ok(()));
}

#[test]
fn components_of_bindings_have_unique_names() {
    let binding = |names: &[&str]| {
        let components: Vec<Value> = names
            .iter()
            .map(|name| json!({"name": name, "replicas": 1}))
            .collect();
        json!({"metadata": {"name": "b"}, "spec": {"components": components}})
    };
    for (names, expected) in [
        (&[][..], &[][..]),
        (&["master", "worker"], &[]),
        (
            &["master", "worker", "master", ""],
            &["spec.components[2].name", "spec.components[3].name"],
        ),
    ] {
        let refused = refused_fields(GuardedKind::ResourceBinding, &binding(names));
        assert_eq!(refused, expected, "{names:?}");
        let of_cluster = refused_fields(GuardedKind::ClusterResourceBinding, &binding(names));
        assert_eq!(
            of_cluster, [""; 0],
            "Karmada checks namespaced bindings only"
        );
    }
}

#[test]
fn a_response_has_a_limited_number_of_errors() {
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "other"});
    let policy = created(
        GuardedKind::PropagationPolicy,
        policy(json!({ "resourceSelectors": vec![selector; MAX_ERRORS + 50] })),
    );
    let errors = validate(
        GuardedKind::PropagationPolicy,
        Operation::Create,
        None,
        &policy,
    );
    let errors = errors.unwrap_err();
    assert_eq!(errors.len(), MAX_ERRORS + 1);
    assert_eq!(errors[MAX_ERRORS].message, "50 more errors are omitted");
}

#[test]
fn stored_objects_are_checked_without_the_bounds_of_new_objects() {
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop",
        "name": "a".repeat(253)});
    let policy = created(
        GuardedKind::PropagationPolicy,
        policy(json!({ "resourceSelectors": [selector] })),
    );
    let kind = GuardedKind::PropagationPolicy;
    assert_eq!(
        refused_fields(kind, &policy),
        ["spec.resourceSelectors[0].name"]
    );
    assert_eq!(validate_stored(kind, &policy), Ok(()));
}
