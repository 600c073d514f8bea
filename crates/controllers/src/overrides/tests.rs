use serde_json::json;

use super::*;

fn cluster(name: &str) -> Cluster {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"syncMode": "Push"}}))
        .unwrap()
}

fn policy(name: &str, spec: Value) -> Arc<OverridePolicy> {
    let spec: OverrideSpec = serde_json::from_value(spec).unwrap();
    Arc::new(OverridePolicy::new(name, &spec))
}

/// Returns a policy that sets the annotation `last` to the name of the policy.
fn stamp(name: &str, selectors: Value) -> Arc<OverridePolicy> {
    policy(
        name,
        json!({"resourceSelectors": selectors, "overrideRules": [{"overriders": {
            "annotationsOverrider": [{"operator": "add", "value": {(name): "yes", "last": name}}]}}]}),
    )
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 1, "template": {"spec": {
            "initContainers": [{"name": "init", "image": "nginx:1"}],
            "containers": [{"name": "web", "image": "nginx:1", "command": ["a", "b"]},
                {"name": "log", "image": "b.io/log"}]}}}})
}

fn applied(overriders: Value) -> Value {
    let set = OverrideSet {
        cluster: Vec::new(),
        namespaced: vec![policy(
            "p",
            json!({"overrideRules": [{"overriders": overriders}]}),
        )],
    };
    let mut resource = deployment();
    set.apply(&mut resource, &cluster("m1")).unwrap();
    resource
}

#[test]
fn more_precise_and_namespaced_policies_win() {
    let by_kind = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let by_label = json!([{"apiVersion": "apps/v1", "kind": "Deployment",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let by_name = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]);
    let other = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}]);
    let last = |cluster_wide: Vec<Arc<OverridePolicy>>, namespaced: Vec<Arc<OverridePolicy>>| {
        let set = OverrideSet {
            cluster: cluster_wide,
            namespaced,
        };
        let mut resource = deployment();
        let applied = set.apply(&mut resource, &cluster("m1")).unwrap();
        (
            resource["metadata"]["annotations"]["last"]
                .as_str()
                .unwrap()
                .to_owned(),
            applied,
        )
    };
    assert_eq!(
        last(
            vec![stamp("a", by_name.clone()), stamp("z", by_label.clone())],
            vec![]
        )
        .0,
        "a"
    );
    assert_eq!(
        last(vec![stamp("a", by_label), stamp("z", json!([]))], vec![]).0,
        "a"
    );
    assert_eq!(
        last(
            vec![stamp("a", by_kind.clone()), stamp("b", by_kind.clone())],
            vec![]
        )
        .0,
        "b"
    );
    let (last, applied) = last(
        vec![stamp("c", by_name)],
        vec![stamp("n", by_kind), stamp("o", other)],
    );
    assert_eq!(last, "n");
    assert_eq!(
        (applied.cluster_names, applied.namespaced_names),
        (vec!["c".to_owned()], vec!["n".to_owned()])
    );
    let record: Value = serde_json::from_str(&applied.namespaced.unwrap()).unwrap();
    assert_eq!(record[0]["policyName"], "n");
    assert_eq!(
        record[0]["overriders"]["annotationsOverrider"][0]["operator"],
        "add"
    );
}

#[test]
fn rules_apply_to_their_target_clusters() {
    let replicas = |n: i64| json!({"plaintext": [{"path": "/spec/replicas", "operator": "replace", "value": n}]});
    let set = OverrideSet {
        cluster: vec![policy(
            "old",
            json!({"targetCluster": {"clusterNames": ["m1"]}, "overriders": replicas(5)}),
        )],
        namespaced: vec![policy(
            "new",
            json!({"overrideRules": [
            {"targetCluster": {"clusterNames": ["m2"]}, "overriders": replicas(7)}]}),
        )],
    };
    for (name, expected) in [("m1", 5), ("m2", 7), ("m3", 1)] {
        let mut resource = deployment();
        set.apply(&mut resource, &cluster(name)).unwrap();
        assert_eq!(resource["spec"]["replicas"], expected, "{name}");
    }
}

#[test]
fn images_commands_and_labels_of_a_workload_change() {
    let result = applied(json!({
        "imageOverrider": [{"component": "Registry", "operator": "replace", "value": "a.io"},
            {"component": "Tag", "operator": "replace", "value": "2",
                "predicate": {"path": "/spec/template/spec/containers/0/image"}}],
        "commandOverrider": [{"containerName": "web", "operator": "remove", "value": ["a"]}],
        "argsOverrider": [{"containerName": "log", "operator": "add", "value": ["-v"]}],
        "labelsOverrider": [{"operator": "replace", "value": {"app": "shop", "none": "x"}},
            {"operator": "add", "value": {"a/b": "c"}}],
    }));
    let spec = &result["spec"]["template"]["spec"];
    assert_eq!(spec["initContainers"][0]["image"], "nginx:1");
    assert_eq!(spec["containers"][0]["image"], "a.io/nginx:2");
    assert_eq!(spec["containers"][1]["image"], "a.io/log");
    assert_eq!(spec["containers"][0]["command"], json!(["b"]));
    assert_eq!(spec["containers"][1]["args"], json!(["-v"]));
    assert_eq!(
        result["metadata"]["labels"],
        json!({"app": "shop", "a/b": "c"})
    );
}

#[test]
fn applied_policies_are_recorded_as_by_karmada() {
    let set = OverrideSet {
        cluster: vec![policy(
            "p",
            json!({"overrideRules": [{"overriders": {
                "plaintext": [{"path": "/metadata/labels", "operator": "remove"}],
                "annotationsOverrider": [{"operator": "add", "value": {"a": "<b>"}}]}}]}),
        )],
        namespaced: Vec::new(),
    };
    let applied = set.apply(&mut deployment(), &cluster("m1")).unwrap();
    assert_eq!(
        applied.cluster.unwrap(),
        concat!(
            r#"[{"policyName":"p","overriders":{"#,
            r#""plaintext":[{"path":"/metadata/labels","operator":"remove","value":null}],"#,
            r#""annotationsOverrider":[{"operator":"add","value":{"a":"\u003cb\u003e"}}]}}]"#
        )
    );
}

#[test]
fn negative_indexes_count_from_the_end() {
    let result = applied(json!({"plaintext": [
        {"path": "/spec/template/spec/containers/-1/image", "operator": "replace", "value": "log:9"},
        {"path": "/spec/template/spec/containers/-1", "operator": "add", "value": {"name": "last"}},
        {"path": "/spec/template/spec/containers/-3", "operator": "remove"}]}));
    let names = result["spec"]["template"]["spec"]["containers"].clone();
    let names: Vec<&Value> = names
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["name"])
        .collect();
    assert_eq!(names, ["log", "last"]);
    let containers = &result["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "log:9");
}

#[test]
fn documents_in_text_fields_keep_their_format() {
    let set = |overriders: Value| OverrideSet {
        cluster: vec![policy(
            "p",
            json!({"overrideRules": [{"overriders": overriders}]}),
        )],
        namespaced: Vec::new(),
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"a.json": "{\"list\":[1],\"gone\":true}", "b.yaml": "db:\n  host: old\n"}});
    let mut resource = map.clone();
    set(json!({"fieldOverrider": [
        {"fieldPath": "/data/a.json", "json": [
            {"subPath": "/list/-", "operator": "add", "value": 2}, {"subPath": "/gone", "operator": "remove"}]},
        {"fieldPath": "/data/b.yaml", "yaml": [
            {"subPath": "/db/host", "operator": "replace", "value": "new"}]}]}))
    .apply(&mut resource, &cluster("m1"))
    .unwrap();
    assert_eq!(resource["data"]["a.json"], "{\"list\":[1,2]}");
    assert_eq!(resource["data"]["b.yaml"], "db:\n  host: new\n");
    for bad in [
        json!({"fieldOverrider": [{"fieldPath": "/data/none", "json": [{"subPath": "/a", "operator": "remove"}]}]}),
        json!({"plaintext": [{"path": "/spec/none/deep", "operator": "replace", "value": 1}]}),
    ] {
        let error = set(bad)
            .apply(&mut map.clone(), &cluster("m1"))
            .unwrap_err();
        assert_eq!(error.policy, "p");
    }
}
