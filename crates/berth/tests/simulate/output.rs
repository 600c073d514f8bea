//! Tests of the output formats of `berth simulate`, and of manifests from files, folders and standard input.

use serde_json::{Value, json};

use crate::program::{Files, NOTE, app, deployment, policy, simulate, simulate_with_input};

const FLEET: [&str; 2] = ["-f", "examples/fleet.yaml"];
const NGINX: &str = "examples/nginx.yaml";

const TABLE: &str = "\
NAMESPACE   NAME               REPLICAS   CLUSTERS               REASON
default     nginx-deployment   2          member1:1, member2:1   2/3 clusters: 1 cluster(s) did not match the placement cluster affinity constraint
";

fn with_fleet<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&FLEET, more].concat()
}

#[test]
fn a_table_has_a_row_for_each_binding() {
    assert_eq!(simulate(&with_fleet(&["-f", NGINX])).without_note(), TABLE);
}

#[test]
fn one_flag_accepts_several_files() {
    let output = simulate(&["-f", "examples/fleet.yaml", NGINX]);
    assert_eq!(output.without_note(), TABLE);
}

#[test]
fn standard_input_folders_lists_and_json_are_accepted() {
    let text = std::fs::read_to_string(crate::program::root().join(NGINX)).unwrap();
    assert_eq!(
        simulate_with_input(&with_fleet(&["-f", "-"]), &text).without_note(),
        TABLE
    );

    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let json = documents.iter().map(Value::to_string).collect::<String>();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents }).to_string();
    for (name, text) in [
        ("nginx.yml", &text),
        ("documents.json", &json),
        ("list.json", &list),
    ] {
        let files = Files::new(&[(name, text), ("README.md", "not a manifest")]);
        let output = simulate(&with_fleet(&["-f", &files.folder()]));
        assert_eq!(output.without_note(), TABLE, "{name}");
    }
}

#[test]
fn the_format_wide_has_a_row_for_each_cluster() {
    assert_eq!(
        simulate(&with_fleet(&["-f", NGINX, "-o", "wide"])).without_note(),
        "\
default/nginx-deployment (2 replicas): member1:1, member2:1
  CLUSTER   STAGE      REPLICAS   SCORE   ESTIMATE   PLUGIN            REASON
  member1   placed     1          0       436        -                 -
  member2   placed     1          0       872        -                 -
  member3   filtered   -          -       -          ClusterAffinity   cluster(s) did not match the placement cluster affinity constraint
"
    );
}

#[test]
fn json_and_yaml_contain_the_same_fields() {
    let json = simulate(&with_fleet(&["-f", NGINX, "-o", "json"])).json();
    assert_eq!(
        json,
        json!([{
            "binding": { "namespace": "default", "name": "nginx-deployment" },
            "clusters": [{ "name": "member1", "replicas": 1 }, { "name": "member2", "replicas": 1 }],
            "explanation": {
                "member1": { "stage": "placed", "scores": { "ClusterLocality": 0 },
                    "estimates": { "general-estimator": 436 }, "tier": 0, "available": 436, "replicas": 1 },
                "member2": { "stage": "placed", "scores": { "ClusterLocality": 0 },
                    "estimates": { "general-estimator": 872 }, "tier": 0, "available": 872, "replicas": 1 },
                "member3": { "stage": "filtered", "refusal": { "plugin": "ClusterAffinity",
                    "reason": "cluster(s) did not match the placement cluster affinity constraint" } },
            },
        }])
    );
    let yaml = simulate(&with_fleet(&["-f", NGINX, "-o", "yaml"])).out();
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json);
}

#[test]
fn results_are_sorted_and_deterministic() {
    let text = format!(
        "{}---\n{}",
        app("web", 3, "{}"),
        app("api", 2, "{clusterAffinity: {clusterNames: [member3]}}")
    );
    let first = simulate_with_input(&with_fleet(&["-f", "-", "-o", "json"]), &text).json();
    let names: Vec<&str> = first
        .as_array()
        .unwrap()
        .iter()
        .map(|decision| decision["binding"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["api-deployment", "web-deployment"]);
    let again = simulate_with_input(&with_fleet(&["-f", "-", "-o", "json"]), &text).json();
    assert_eq!(first, again);
}

#[test]
fn an_unschedulable_binding_fails_only_with_the_flag_fail_on_unscheduled() {
    let text = app("web", 3, "{clusterAffinity: {clusterNames: [elsewhere]}}");
    let arguments = with_fleet(&["-f", "-", "-o", "json"]);
    let output = simulate_with_input(&arguments, &text).json();
    assert_eq!(output[0]["clusters"], json!([]));
    assert_eq!(
        output[0]["failure"],
        json!({ "kind": "NoClusterFit", "message": "0/3 clusters are available: 3 cluster(s) did not match \
            the placement cluster affinity constraint." })
    );
    let table = simulate_with_input(&with_fleet(&["-f", "-"]), &text).out();
    assert!(
        table.contains("shop        web-deployment   3          -          0/3 clusters are"),
        "{table}"
    );
    let strict = simulate_with_input(&with_fleet(&["-f", "-", "--fail-on-unscheduled"]), &text);
    assert_eq!(strict.code, 1, "{strict:?}");
    assert!(strict.out.contains("web-deployment"), "{strict:?}");
}

#[test]
fn a_binding_without_enough_capacity_has_the_reason_unschedulable() {
    let text = app(
        "web",
        5000,
        "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}",
    );
    let output = simulate_with_input(&with_fleet(&["-f", "-", "-o", "json"]), &text).json();
    assert_eq!(output[0]["failure"]["kind"], "Unschedulable", "{output}");
}

#[test]
fn a_note_lists_templates_that_no_policy_selects() {
    let text = format!("{}---\n{}", deployment("web", 1), policy("other", "{}"));
    let table = simulate_with_input(&with_fleet(&["-f", "-"]), &text).without_note();
    assert_eq!(
        table,
        "no bindings to decide about\nnote: no policy selects Deployment shop/web\n\
         note: policy(shop/other) selects nothing\n"
    );
    let json = simulate_with_input(&with_fleet(&["-f", "-", "-o", "json"]), &text);
    assert_eq!((json.out.trim(), json.code), ("[]", 0));
    assert_eq!(
        json.err,
        format!(
            "note: no policy selects Deployment shop/web\nnote: policy(shop/other) selects nothing\n{NOTE}"
        )
    );
}

#[test]
fn bindings_in_manifests_are_scheduled() {
    let text = "apiVersion: work.karmada.io/v1alpha2
kind: ClusterResourceBinding
metadata: {name: viewer-clusterrole}
spec:
  resource: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, name: viewer, uid: u}
  placement: {clusterAffinity: {labelSelector: {matchLabels: {size: large}}}}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: web-deployment, namespace: shop}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: web, uid: u}
  replicas: 4
  clusters: [{name: member1, replicas: 3}]
  placement: {clusterAffinity: {clusterNames: [member1, member2]}, replicaScheduling: {replicaSchedulingType: Divided,
    replicaDivisionPreference: Aggregated}}
";
    assert_eq!(
        simulate_with_input(&with_fleet(&["-f", "-"]), text).without_note(),
        "\
NAMESPACE   NAME                 REPLICAS   CLUSTERS    REASON
-           viewer-clusterrole   -          member3     1/3 clusters: 2 cluster(s) did not match the placement cluster affinity constraint
shop        web-deployment       4          member1:4   1/3 clusters: 1 cluster(s) did not match the placement cluster affinity constraint, 1 cluster(s) got no replicas
"
    );
}

#[test]
fn the_used_affinity_term_is_shown() {
    let placement = "{clusterAffinities: [{affinityName: first, clusterNames: [elsewhere]}, \
        {affinityName: second, clusterNames: [member2]}]}";
    let text = app("web", 1, placement);
    let json = simulate_with_input(&with_fleet(&["-f", "-", "-o", "json"]), &text).json();
    assert_eq!(json[0]["affinity"], "second");
    let wide = simulate_with_input(&with_fleet(&["-f", "-", "-o", "wide"]), &text).out();
    assert!(
        wide.contains("affinity first: 0/3 clusters are available"),
        "{wide}"
    );
    assert!(wide.contains("affinity second: chosen"), "{wide}");
}

#[test]
fn a_tie_that_the_uid_breaks_is_noted() {
    let placement = "{clusterAffinity: {clusterNames: [member1, member2]}, replicaScheduling: \
        {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}";
    let table = simulate_with_input(&with_fleet(&["-f", "-"]), &app("web", 3, placement)).out();
    assert!(
        table.contains("member1:2, member2:1")
            && table.contains(
                "note: shop/web-deployment: member1:1, member2:2 is an equally good placement; the UID"
            ),
        "{table}"
    );
}
