//! The reading of the state that an evicted application keeps. Rules of the policy select values of the application's
//! last reported status. The binding controller adds these values as labels to the new copy.

use berth_apimachinery::jsonpath::{JsonPathError, render};
use std::collections::BTreeMap;

use berth_api::label_selector::{LabelSyntaxError, validate_label_value};
use berth_api::policy::StatePreservation;

use super::binding::BindingRecord;

/// An error of reading the state to preserve.
#[derive(Debug, thiserror::Error)]
pub(super) enum PreservedStateError {
    /// The cluster has reported no status.
    #[error("the application status has not yet been collected from Cluster({0})")]
    NotReported(String),
    /// The JSONPath of a rule cannot be evaluated.
    #[error("the state for label {label}: {source}")]
    Path {
        /// The label.
        label: String,
        /// The cause.
        source: JsonPathError,
    },
    /// The value that a rule selects is not a valid label value.
    #[error("the state for label {label}: {source}")]
    Value {
        /// The label.
        label: String,
        /// The cause.
        source: LabelSyntaxError,
    },
}

/// Returns the state of an application in a cluster as labels, or `None` if the policy has no rules.
///
/// # Errors
/// When the cluster has reported no status, or when a rule yields no valid label value.
pub(super) fn read_preserved_state(
    binding: &BindingRecord,
    cluster: &str,
    rules: Option<&StatePreservation>,
) -> Result<Option<BTreeMap<String, String>>, PreservedStateError> {
    let Some(rules) = rules.filter(|preservation| !preservation.rules.is_empty()) else {
        return Ok(None);
    };
    let status = binding
        .status_in(cluster)
        .and_then(|item| item.status.as_ref())
        .ok_or_else(|| PreservedStateError::NotReported(cluster.to_owned()))?;
    let mut labels = BTreeMap::new();
    for rule in &rules.rules {
        let label = &rule.alias_label_name;
        let value =
            render(&rule.json_path, status).map_err(|source| PreservedStateError::Path {
                label: label.clone(),
                source,
            })?;
        validate_label_value(&value).map_err(|source| PreservedStateError::Value {
            label: label.clone(),
            source,
        })?;
        labels.insert(label.clone(), value);
    }
    Ok(Some(labels))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::graceful_eviction::tests::binding_with;
    use super::*;

    fn preserved_by(rules: Value) -> Result<Option<Value>, String> {
        let binding = binding_with(
            &json!({ "clusters": [{ "name": "m1" }] }),
            &json!({ "aggregatedStatus": [
                { "clusterName": "m1", "status": { "replicas": 2, "note": "two words" } },
                { "clusterName": "m2" }] }),
        );
        let rules: StatePreservation = serde_json::from_value(json!({ "rules": rules })).unwrap();
        let found = read_preserved_state(&binding, "m1", Some(&rules));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map(|labels| json!(labels)))
    }

    #[test]
    fn rules_turn_the_status_into_labels() {
        let rule = |label: &str, path: &str| json!({ "aliasLabelName": label, "jsonPath": path });
        assert_eq!(preserved_by(json!([])), Ok(None));
        assert_eq!(
            preserved_by(json!([rule("a", "{.replicas}"), rule("b", "x{.replicas}")])),
            Ok(Some(json!({ "a": "2", "b": "x2" })))
        );
        let missing = preserved_by(json!([rule("a", "{.ready}")]));
        assert_eq!(
            missing.unwrap_err(),
            "the state for label a: .ready is not found"
        );
        let invalid = preserved_by(json!([rule("a", "{.note}")])).unwrap_err();
        assert!(invalid.starts_with("the state for label a: "), "{invalid}");
    }

    #[test]
    fn a_missing_status_is_an_error() {
        let binding = binding_with(
            &json!({}),
            &json!({ "aggregatedStatus": [{ "clusterName": "m2" }] }),
        );
        let rules = json!({ "rules": [{ "aliasLabelName": "a", "jsonPath": "{.a}" }] });
        let rules: StatePreservation = serde_json::from_value(rules).unwrap();
        for cluster in ["m1", "m2"] {
            let error = read_preserved_state(&binding, cluster, Some(&rules)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the application status has not yet been collected from Cluster({cluster})"
                )
            );
        }
    }
}
