//! Comparison of the CustomResourceDefinitions with the recorded structure of Karmada's definitions.

use std::collections::{BTreeMap, BTreeSet};

use berth_e2e::record::definitions::{Structure, recorded, structures};
use serde_json::{Map, Value};

/// The kind that Karmada serves with an API server of its own, without a definition.
const WITHOUT_DEFINITION: &str = "clusters.cluster.karmada.io/v1alpha1";
/// Berth's own kind.
const OWN: &str = "clusterscores.scheduling.berth/v1alpha1";
/// Karmada's definitions of kinds and versions that Berth does not install.
const NOT_INSTALLED: [&str; 9] = [
    "clusterresourcebindings.work.karmada.io/v1alpha1",
    "cronfederatedhpas.autoscaling.karmada.io/v1alpha1",
    "federatedhpas.autoscaling.karmada.io/v1alpha1",
    "multiclusteringresses.networking.karmada.io/v1alpha1",
    "multiclusterservices.networking.karmada.io/v1alpha1",
    "remedies.remedy.karmada.io/v1alpha1",
    "resourcebindings.work.karmada.io/v1alpha1",
    "serviceexports.multicluster.x-k8s.io/v1alpha1",
    "serviceimports.multicluster.x-k8s.io/v1alpha1",
];
/// Defaults and rules of Karmada's webhook that Berth's definitions of policies contain, too: path and keyword.
const RULES_OF_THE_WEBHOOK: [(&str, &str); 10] = [
    (".spec.failover.application", "x-kubernetes-validations"),
    (
        ".spec.failover.application.decisionConditions.tolerationSeconds",
        "minimum",
    ),
    (".spec.failover.application.gracePeriodSeconds", "minimum"),
    (".spec.placement", "x-kubernetes-validations"),
    (".spec.placement.spreadConstraints[].maxGroups", "minimum"),
    (".spec.placement.spreadConstraints[].minGroups", "default"),
    (".spec.placement.spreadConstraints[].minGroups", "minimum"),
    (
        ".spec.placement.workloadAffinity",
        "x-kubernetes-validations",
    ),
    (".spec.schedulerName", "x-kubernetes-validations"),
    (".spec.suspension", "x-kubernetes-validations"),
];

/// The column that Berth adds to the kinds of bindings.
const ADDED_COLUMN: &str = "HEALTHY";

/// Removes the column that Karmada does not have from the facts about a version.
fn without_added_column(facts: &mut Map<String, Value>) {
    let columns = facts.get_mut("columns").and_then(Value::as_array_mut);
    if let Some(columns) = columns {
        columns.retain(|column| column["name"] != ADDED_COLUMN);
    }
}

/// Returns the structures of Berth's definitions.
fn ours() -> BTreeMap<String, Structure> {
    let definitions = berth_api::crds::all();
    let definitions: Vec<Value> = definitions
        .iter()
        .map(|definition| serde_json::to_value(definition).unwrap())
        .collect();
    structures(&definitions)
}

/// Returns the facts about a path, or none if the structure does not contain the path.
fn facts(structure: &Structure, path: &str) -> Map<String, Value> {
    let text = structure.get(path).map_or("{}", String::as_str);
    serde_json::from_str(text).unwrap()
}

/// Checks that all fields, names, defaults, enums, bounds and columns are those of Karmada. Berth's definitions of
/// policies contain more rules.
#[test]
fn definitions_equal_those_of_karmada() {
    let karmada = recorded().unwrap();
    let mut compared = 0;
    let mut differences = Vec::new();
    for (name, ours) in ours() {
        if [WITHOUT_DEFINITION, OWN].contains(&&*name) {
            continue;
        }
        let karmadas = &karmada[&name];
        let mut added = BTreeSet::new();
        let paths: BTreeSet<&String> = ours.keys().chain(karmadas.keys()).collect();
        for path in paths {
            compared += 1;
            let (mut our, their) = (facts(&ours, path), facts(karmadas, path));
            if name.contains("resourcebindings.work") {
                without_added_column(&mut our);
            }
            for (keyword, value) in &their {
                if our.get(keyword) != Some(value) {
                    differences.push(format!("{name} {path}: Karmada has {keyword}: {value}"));
                }
            }
            let more = our.keys().filter(|keyword| !their.contains_key(*keyword));
            added.extend(more.map(|keyword| (path.clone(), keyword.clone())));
            if ours.contains_key(path) != karmadas.contains_key(path) {
                differences.push(format!("{name} {path}: only one side has it"));
            }
        }
        let expected = RULES_OF_THE_WEBHOOK
            .iter()
            .filter(|_| name.contains("propagationpolicies"));
        let expected = expected.map(|(path, keyword)| ((*path).to_owned(), (*keyword).to_owned()));
        let expected: BTreeSet<_> = expected.collect();
        if added != expected {
            let changed = added.symmetric_difference(&expected).collect::<Vec<_>>();
            differences.push(format!("{name}: other rules than expected: {changed:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared > 1000, "{compared} fields");
}

#[test]
fn definitions_that_berth_does_not_install_are_known() {
    let ours = ours();
    let recorded = recorded().unwrap();
    let missing = recorded.keys().filter(|name| !ours.contains_key(*name));
    assert_eq!(missing.collect::<Vec<_>>(), NOT_INSTALLED);
}
