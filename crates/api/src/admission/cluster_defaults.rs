//! Defaults of Clusters: the resource models of the module `resource_models`, and `timeAdded` of `NoExecute` taints.
//! The value of the deprecated field `zone` is moved to `zones`.

use serde_json::{Value, json};

use super::metadata::child_map;
use super::resource_models::{default_models, standardize};
use super::{Environment, Operation};

pub(super) fn mutate(operation: Operation, cluster: &mut Value, environment: &mut dyn Environment) {
    if operation == Operation::Create
        && let Some(fields) = cluster.as_object_mut()
    {
        fields.remove("status");
    }
    if cluster.get("spec").is_none_or(|spec| !spec.is_object()) {
        return;
    }
    let Some(spec) = child_map(cluster, "spec") else {
        return;
    };
    match spec.get_mut("resourceModels").and_then(Value::as_array_mut) {
        Some(models) if !models.is_empty() => standardize(models),
        _ if operation == Operation::Create => {
            spec.insert("resourceModels".to_owned(), default_models());
        }
        _ => {}
    }
    let taints = spec.get_mut("taints").and_then(Value::as_array_mut);
    for taint in taints.into_iter().flatten() {
        if let Some(taint) = taint.as_object_mut()
            && taint.get("effect") == Some(&json!("NoExecute"))
            && taint.get("timeAdded").is_none_or(Value::is_null)
        {
            taint.insert("timeAdded".to_owned(), json!(environment.now()));
        }
    }
    let has_zones = spec
        .get("zones")
        .and_then(Value::as_array)
        .is_some_and(|zones| !zones.is_empty());
    if !has_zones
        && let Some(zone) = spec
            .get("zone")
            .and_then(Value::as_str)
            .filter(|zone| !zone.is_empty())
            .map(str::to_owned)
    {
        spec.remove("zone");
        spec.insert("zones".to_owned(), json!([zone]));
    }
}
