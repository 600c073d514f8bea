//! CEL rules, minimum values and a default in the schemas of propagation policies. They protect API servers that have
//! no admission webhook for policies.
//!
//! A rule must not depend on a field that the webhook would default, because such a rule would reject valid policies.
//! The API server estimates the cost of a rule: the cost must be bounded although Karmada's schema has no limits on the
//! length of lists. The schemas of bindings contain the same types, but not these constraints.

use serde_json::{Value, json};

/// The CEL rules. Each row has the path of a schema, a rule, a message, and the path of the rejected field below that
/// schema.
const RULES: [(&str, &str, &str, Option<&str>); 5] = [
    (
        "/properties/schedulerName",
        "self == oldSelf",
        "the schedulerName should not be updated",
        None,
    ),
    (
        "/properties/placement",
        "!(has(self.clusterAffinity) && has(self.clusterAffinities) && size(self.clusterAffinities) > 0)",
        "clusterAffinities cannot co-exist with clusterAffinity",
        None,
    ),
    (
        "/properties/placement/properties/workloadAffinity",
        "!has(self.affinity) || !has(self.antiAffinity) || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey",
        "affinity and antiAffinity must not use the same groupByLabelKey",
        None,
    ),
    (
        "/properties/failover/properties/application",
        "!has(self.gracePeriodSeconds) || !has(self.purgeMode) || self.purgeMode == 'Gracefully'",
        "gracePeriodSeconds only takes effect when purgeMode is Gracefully",
        Some(".gracePeriodSeconds"),
    ),
    (
        "/properties/suspension",
        "!(has(self.dispatching) && self.dispatching && has(self.dispatchingOnClusters) && has(self.dispatchingOnClusters.clusterNames) && size(self.dispatchingOnClusters.clusterNames) > 0)",
        "dispatching cannot co-exist with dispatchingOnClusters.clusterNames",
        None,
    ),
];

/// The minimum values of fields.
const MINIMA: [(&str, i64); 4] = [
    (
        "/properties/placement/properties/spreadConstraints/items/properties/minGroups",
        0,
    ),
    (
        "/properties/placement/properties/spreadConstraints/items/properties/maxGroups",
        0,
    ),
    (
        "/properties/failover/properties/application/properties/decisionConditions/properties/tolerationSeconds",
        0,
    ),
    (
        "/properties/failover/properties/application/properties/gracePeriodSeconds",
        1,
    ),
];

/// The path of `minGroups`. The schema can set its default, because the default does not depend on other fields.
const MIN_GROUPS: &str =
    "/properties/placement/properties/spreadConstraints/items/properties/minGroups";

/// Adds the constraints to the schema of a policy spec.
pub(super) fn add(spec: &mut Value) {
    for (path, rule, message, field) in RULES {
        let mut rule = json!({ "rule": rule, "message": message });
        if let Some(field) = field {
            rule["fieldPath"] = json!(field);
        }
        set(spec, path, "x-kubernetes-validations", json!([rule]));
    }
    for (path, minimum) in MINIMA {
        set(spec, path, "minimum", json!(minimum));
    }
    set(spec, MIN_GROUPS, "default", json!(1));
}

fn set(schema: &mut Value, path: &str, keyword: &str, value: Value) {
    if let Some(Value::Object(field)) = schema.pointer_mut(path) {
        field.insert(keyword.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_constraint_paths_exist_in_the_schema() {
        let spec = crate::crds::schema::of::<crate::policy::PropagationSpec>();
        let paths = RULES.iter().map(|rule| rule.0);
        for path in paths.chain(MINIMA.iter().map(|minimum| minimum.0)) {
            assert!(spec.pointer(path).is_some(), "{path}");
        }
    }
}
