//! What an application takes along when it moves: values of its last reported status, as labels of the new copy.

use std::collections::BTreeMap;

use berth_api::policy::StatePreservation;
use berth_api::selector::{LabelSyntaxError, validate_label_value};

use super::binding::Bound;
use berth_apimachinery::jsonpath::{JsonPathError, render};

/// State that cannot be taken along.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Nothing was reported.
    #[error("the application status has not yet been collected from Cluster({0})")]
    NotReported(String),
    /// A path leads nowhere.
    #[error("the state for label {label}: {source}")]
    Path {
        /// The label.
        label: String,
        /// What is wrong.
        source: JsonPathError,
    },
    /// What was found is no value of a label.
    #[error("the state for label {label}: {source}")]
    Value {
        /// The label.
        label: String,
        /// What is wrong.
        source: LabelSyntaxError,
    },
}

/// The labels that say how the application was in a cluster; nothing where no rule asks for any.
///
/// # Errors
/// When a rule gives no label.
pub fn preserved(
    binding: &Bound,
    cluster: &str,
    rules: Option<&StatePreservation>,
) -> Result<Option<BTreeMap<String, String>>, StateError> {
    let Some(rules) = rules.filter(|preservation| !preservation.rules.is_empty()) else {
        return Ok(None);
    };
    let mut items = binding.status.aggregated_status.iter();
    let item = items.find(|item| item.cluster_name == cluster);
    let status = item
        .and_then(|item| item.status.as_ref())
        .ok_or_else(|| StateError::NotReported(cluster.to_owned()))?;
    let mut labels = BTreeMap::new();
    for rule in &rules.rules {
        let label = &rule.alias_label_name;
        let value = render(&rule.json_path, status).map_err(|source| StateError::Path {
            label: label.clone(),
            source,
        })?;
        validate_label_value(&value).map_err(|source| StateError::Value {
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

    use super::super::draining::tests::bound_with;
    use super::*;

    fn preserved_by(rules: Value) -> Result<Option<Value>, String> {
        let binding = bound_with(
            &json!({ "clusters": [{ "name": "m1" }] }),
            &json!({ "aggregatedStatus": [
                { "clusterName": "m1", "status": { "replicas": 2, "note": "two words" } },
                { "clusterName": "m2" }] }),
        );
        let rules: StatePreservation = serde_json::from_value(json!({ "rules": rules })).unwrap();
        let found = preserved(&binding, "m1", Some(&rules));
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map(|labels| json!(labels)))
    }

    #[test]
    fn rules_make_labels_of_what_was_reported() {
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
        let unfit = preserved_by(json!([rule("a", "{.note}")])).unwrap_err();
        assert!(unfit.starts_with("the state for label a: "), "{unfit}");
    }

    #[test]
    fn what_was_not_reported_cannot_be_taken_along() {
        let binding = bound_with(
            &json!({}),
            &json!({ "aggregatedStatus": [{ "clusterName": "m2" }] }),
        );
        let rules = json!({ "rules": [{ "aliasLabelName": "a", "jsonPath": "{.a}" }] });
        let rules: StatePreservation = serde_json::from_value(rules).unwrap();
        for cluster in ["m1", "m2"] {
            let error = preserved(&binding, cluster, Some(&rules)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "the application status has not yet been collected from Cluster({cluster})"
                )
            );
        }
    }
}
