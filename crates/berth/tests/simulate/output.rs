//! Tests of the output formats of `berth simulate`, and of manifests from files, folders and standard input.

use berth_test_transcripts::assert_snapshot;
use serde_json::{Value, json};

use crate::program::{
    Files, app, deployment, policy, root, simulate, simulate_with_input, simulated,
};

const FLEET: &str = "-f examples/fleet.yaml -f -";
const FLEET_JSON: &str = "-f examples/fleet.yaml -f - -o json";
const NGINX: [&str; 4] = ["-f", "examples/fleet.yaml", "-f", "examples/nginx.yaml"];

#[test]
fn each_format_shows_a_decision() {
    let read = NGINX.join(" ");
    assert_snapshot!(simulated(&[
        ("a row for each binding", &read, ""),
        ("a row for each cluster", &format!("{read} -o wide"), ""),
        ("the same as JSON", &format!("{read} -o json"), ""),
        ("the same as YAML", &format!("{read} -o yaml"), ""),
    ]));
    let printed = |format| simulate(&[&NGINX[..], &["-o", format]].concat());
    let yaml: Value = serde_saphyr::from_str(&printed("yaml").out()).unwrap();
    assert_eq!(yaml, printed("json").json());
}

#[test]
fn standard_input_folders_lists_and_json_are_accepted() {
    let expected = simulate(&NGINX).out();
    let several = simulate(&["-f", "examples/fleet.yaml", "examples/nginx.yaml"]);
    assert_eq!(several.out(), expected, "one flag with several files");
    let text = std::fs::read_to_string(root().join("examples/nginx.yaml")).unwrap();
    let input = simulate_with_input(&["-f", "examples/fleet.yaml", "-f", "-"], &text);
    assert_eq!(input.out(), expected, "standard input");

    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let json = documents.iter().map(Value::to_string).collect::<String>();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": documents }).to_string();
    for (name, text) in [
        ("nginx.yml", &text),
        ("documents.json", &json),
        ("list.json", &list),
    ] {
        let files = Files::new(&[(name, text), ("README.md", "not a manifest")]);
        let output = simulate(&["-f", "examples/fleet.yaml", "-f", &files.folder()]);
        assert_eq!(output.out(), expected, "{name}");
    }
}

#[test]
fn results_are_sorted_and_deterministic() {
    let api = app("api", 2, "{clusterAffinity: {clusterNames: [member3]}}");
    let text = format!("{}---\n{api}", app("web", 3, "{}"));
    assert_snapshot!(simulated(&[
        ("web is before api in the manifests", FLEET, &text),
        ("a second time", FLEET, &text),
    ]));
}

#[test]
fn a_binding_without_a_place_has_the_reason() {
    let nowhere = app("web", 3, "{clusterAffinity: {clusterNames: [elsewhere]}}");
    let large = app(
        "web",
        5000,
        "{replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}",
    );
    let strict = format!("{FLEET} --fail-on-unscheduled");
    assert_snapshot!(simulated(&[
        ("no cluster fits", FLEET, &nowhere),
        ("no cluster fits, as JSON", FLEET_JSON, &nowhere),
        ("no cluster fits, as a failure", &strict, &nowhere),
        ("not enough capacity, as JSON", FLEET_JSON, &large),
    ]));
}

#[test]
fn a_note_lists_templates_that_no_policy_selects() {
    let text = format!("{}---\n{}", deployment("web", 1), policy("other", "{}"));
    assert_snapshot!(simulated(&[
        ("a template and a policy that select nothing", FLEET, &text),
        ("notes do not mix with JSON", FLEET_JSON, &text),
    ]));
}

#[test]
fn bindings_in_manifests_are_scheduled() {
    let text = include_str!("manifests/bindings_of_both_scopes.yaml");
    assert_snapshot!(simulated(&[("bindings of both scopes", FLEET, text)]));
}

#[test]
fn the_used_affinity_term_is_shown() {
    let placement = "{clusterAffinities: [{affinityName: first, clusterNames: [elsewhere]}, \
        {affinityName: second, clusterNames: [member2]}]}";
    let text = app("web", 1, placement);
    assert_snapshot!(simulated(&[
        ("the field affinity", FLEET_JSON, &text),
        (
            "a line for each term",
            "-f examples/fleet.yaml -f - -o wide",
            &text,
        ),
    ]));
}

#[test]
fn a_tie_that_the_uid_breaks_is_noted() {
    let placement = "{clusterAffinity: {clusterNames: [member1, member2]}, replicaScheduling: \
        {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}";
    let text = app("web", 3, placement);
    assert_snapshot!(simulated(&[("equal weights", FLEET, &text)]));
}
