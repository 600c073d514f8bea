//! Validation of FederatedResourceQuotas. The messages are the same as in Karmada.

use std::fmt::Display;

use serde::Deserialize as _;
use serde_json::Value;

use super::field_error::{FieldError, Path};
use crate::cluster::ResourceList;
use crate::federated_quota::Amounts;
use crate::federated_resource_quota::{FederatedResourceQuotaSpec, FederatedResourceQuotaStatus};
use crate::label_selector::validate_label_key;
use crate::names;
use crate::node_resources::is_extended;
use crate::quantity::Quantity;

/// Maximum length of the name, which is the value of a label of Works.
const MAX_NAME: usize = 63;

/// Resources that ResourceQuotas count as objects, in whole numbers.
const COUNTED_OBJECTS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// The other resources without a prefix that ResourceQuotas limit.
const STANDARD: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

pub(super) fn check(quota: &Value) -> Vec<FieldError> {
    let mut errors = check_name(quota);
    let spec = Path::new("spec");
    match FederatedResourceQuotaSpec::deserialize(&quota["spec"]) {
        Ok(limits) => check_spec(&limits, &spec, &mut errors),
        Err(error) => errors.push(spec.invalid(error.to_string())),
    }
    let status = Path::new("status");
    match Option::<FederatedResourceQuotaStatus>::deserialize(&quota["status"]) {
        Ok(Some(usage)) => check_status(&usage, &status, &mut errors),
        Ok(None) => {}
        Err(error) => errors.push(status.invalid(error.to_string())),
    }
    errors
}

fn check_name(quota: &Value) -> Vec<FieldError> {
    let name = quota.pointer("/metadata/name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    if name.len() <= MAX_NAME {
        return Vec::new();
    }
    let message = format!("must be no more than {MAX_NAME} characters");
    vec![invalid(&Path::new("metadata.name"), name, message)]
}

fn check_spec(spec: &FederatedResourceQuotaSpec, path: &Path, errors: &mut Vec<FieldError>) {
    let overall = path.child("overall");
    check_list(&spec.overall, &overall, errors);
    let assignments = path.child("staticAssignments");
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let path = assignments.index(index);
        check_cluster(&assignment.cluster_name, &path, errors);
        check_list(&assignment.hard, &path.child("hard"), errors);
    }
    let assigned = spec.static_assignments.iter();
    let assigned: Amounts = assigned
        .map(|assignment| Amounts::of(&assignment.hard))
        .sum();
    for (resource, text) in &spec.overall {
        let Ok(limit) = text.parse() else { continue };
        if limit < assigned.get(resource) {
            let message = "overall is less than assignments";
            errors.push(invalid(&overall.key(resource), limit, message));
        }
    }
    for (index, assignment) in spec.static_assignments.iter().enumerate() {
        let hard = assignments.index(index).child("hard");
        let names = assignment.hard.keys();
        for resource in names.filter(|resource| !spec.overall.contains_key(*resource)) {
            let message = "assignment resourceName is not exist in overall";
            errors.push(invalid(&hard.key(resource), resource, message));
        }
    }
}

fn check_status(status: &FederatedResourceQuotaStatus, path: &Path, errors: &mut Vec<FieldError>) {
    check_list(&status.overall, &path.child("overall"), errors);
    check_list(&status.overall_used, &path.child("overallUsed"), errors);
    let clusters = path.child("aggregatedStatus");
    for (index, cluster) in status.aggregated_status.iter().enumerate() {
        let path = clusters.index(index);
        check_cluster(&cluster.cluster_name, &path, errors);
        check_list(&cluster.hard, &path.child("hard"), errors);
        check_list(&cluster.used, &path.child("used"), errors);
    }
}

fn check_cluster(name: &str, path: &Path, errors: &mut Vec<FieldError>) {
    if let Err(rule) = names::cluster_name(name) {
        errors.push(invalid(&path.child("clusterName"), name, rule));
    }
}

fn check_list(list: &ResourceList, path: &Path, errors: &mut Vec<FieldError>) {
    for (resource, text) in list {
        let path = path.key(resource);
        if let Some(rule) = violated_by_name(resource) {
            errors.push(invalid(&path, resource, rule));
        }
        match text.parse() {
            Ok(quantity) => check_quantity(resource, quantity, &path, errors),
            Err(error) => errors.push(invalid(&path, &text.0, error)),
        }
    }
}

/// Returns the rule that the name of a resource violates: it is a standard resource of ResourceQuotas, or has a prefix.
fn violated_by_name(resource: &str) -> Option<String> {
    if let Err(error) = validate_label_key(resource) {
        return Some(error.to_string());
    }
    let is_quota_resource = STANDARD.contains(&resource)
        || COUNTED_OBJECTS.contains(&resource)
        || resource.starts_with("hugepages-")
        || resource.starts_with("requests.hugepages-");
    if resource.contains('/') || is_quota_resource {
        None
    } else if resource == "storage" {
        Some("must be a standard resource for quota".to_owned())
    } else {
        Some("must be a standard resource type or fully qualified".to_owned())
    }
}

fn check_quantity(resource: &str, quantity: Quantity, path: &Path, errors: &mut Vec<FieldError>) {
    if quantity < Quantity::ZERO {
        let message = "must be greater than or equal to 0";
        errors.push(invalid(path, quantity, message));
    }
    let is_whole = COUNTED_OBJECTS.contains(&resource) || is_extended(resource);
    if is_whole && !quantity.is_integer() {
        errors.push(invalid(path, quantity, "must be an integer"));
    }
}

fn invalid(path: &Path, value: impl Display, message: impl Display) -> FieldError {
    path.invalid(format!("Invalid value: \"{value}\": {message}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(spec: &Value) -> Vec<String> {
        let quota = json!({ "metadata": { "name": "team" }, "spec": spec });
        let errors = check(&quota).into_iter();
        errors.map(|error| error.to_string()).collect()
    }

    #[test]
    fn assignments_must_fit_into_the_overall_limits() {
        let hard = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
        let cases = [
            ("fits", hard("10", "10Gi"), hard("1", "1Gi"), vec![]),
            ("equal", hard("2.5", "3Gi"), hard("1", "1Gi"), vec![]),
            (
                "cpu exceeds",
                hard("2", "10Gi"),
                hard("1", "1Gi"),
                vec![r#"spec.overall[cpu]: Invalid value: "2": overall is less than assignments"#],
            ),
            (
                "both exceed",
                hard("2", "2Gi"),
                hard("1", "1Gi"),
                vec![
                    r#"spec.overall[cpu]: Invalid value: "2": overall is less than assignments"#,
                    r#"spec.overall[memory]: Invalid value: "2Gi": overall is less than assignments"#,
                ],
            ),
            (
                "not limited overall",
                json!({ "memory": "10Gi" }),
                hard("1", "1Gi"),
                vec![
                    r#"spec.staticAssignments[0].hard[cpu]: Invalid value: "cpu": assignment resourceName is not exist in overall"#,
                    r#"spec.staticAssignments[1].hard[cpu]: Invalid value: "cpu": assignment resourceName is not exist in overall"#,
                ],
            ),
        ];
        for (about, overall, first, expected) in cases {
            let found = errors(&json!({ "overall": overall, "staticAssignments": [
                { "clusterName": "m1", "hard": first },
                { "clusterName": "m2", "hard": hard("1.5", "2Gi") },
            ] }));
            assert_eq!(found, expected, "{about}");
        }
    }

    #[test]
    fn resources_and_quantities_are_those_of_resource_quotas() {
        for (resource, quantity, expected) in [
            ("cpu", "500m", None),
            ("requests.storage", "1.5Gi", None),
            ("hugepages-2Mi", "2Mi", None),
            ("nvidia.com/gpu", "4", None),
            ("pods", "10", None),
            (
                "cpux",
                "1",
                Some(r#""cpux": must be a standard resource type or fully qualified"#),
            ),
            (
                "storage",
                "1",
                Some(r#""storage": must be a standard resource for quota"#),
            ),
            (
                "cpu",
                "-1",
                Some(r#""-1": must be greater than or equal to 0"#),
            ),
            ("pods", "1500m", Some(r#""1500m": must be an integer"#)),
            (
                "nvidia.com/gpu",
                "500m",
                Some(r#""500m": must be an integer"#),
            ),
        ] {
            let expected = expected
                .map(|message| format!("spec.overall[{resource}]: Invalid value: {message}"));
            let found = errors(&json!({ "overall": { resource: quantity } }));
            assert_eq!(found.first(), expected.as_ref(), "{resource} {quantity}");
        }
    }

    #[test]
    fn names_of_quotas_and_clusters_are_checked_and_the_status_as_well() {
        let quota = json!({
            "metadata": { "name": "a".repeat(64) },
            "spec": { "overall": {}, "staticAssignments": [{ "clusterName": "a b", "hard": {} }] },
            "status": {
                "overall": { "cpu": "-1" },
                "overallUsed": { "cpux": "1" },
                "aggregatedStatus": [{ "clusterName": "m1", "used": { "pods": "0.5" } }],
            },
        });
        let fields: Vec<String> = check(&quota).into_iter().map(|error| error.field).collect();
        assert_eq!(
            fields,
            [
                "metadata.name",
                "spec.staticAssignments[0].clusterName",
                "status.overall[cpu]",
                "status.overallUsed[cpux]",
                "status.aggregatedStatus[0].used[pods]",
            ]
        );
    }
}
