//! Snapshots of the objects of a control plane and its members, and their comparison. A snapshot contains no values
//! that differ from run to run, such as versions, UIDs and times.

use std::collections::BTreeMap;

use berth_e2e::objects::api;
use kube::Client;
use kube::api::ListParams;
use serde_json::{Map, Value, json};

/// A snapshot: objects, keyed by cluster, kind, namespace and name.
pub(crate) type State = BTreeMap<String, Value>;

type Kinds = &'static [(&'static str, &'static str)];

const WORKLOADS: Kinds = &[
    ("apps/v1", "Deployment"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "Namespace"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
];

/// The kinds of objects in a snapshot of the control plane.
pub(crate) const CONTROL_PLANE_KINDS: &[Kinds] = &[
    WORKLOADS,
    &[
        ("policy.karmada.io/v1alpha1", "PropagationPolicy"),
        ("policy.karmada.io/v1alpha1", "ClusterPropagationPolicy"),
        ("policy.karmada.io/v1alpha1", "OverridePolicy"),
        ("work.karmada.io/v1alpha2", "ResourceBinding"),
        ("work.karmada.io/v1alpha2", "ClusterResourceBinding"),
        ("work.karmada.io/v1alpha1", "Work"),
    ],
];

/// The kinds of objects in a snapshot of a member.
pub(crate) const MEMBER_KINDS: &[Kinds] = &[WORKLOADS];

/// Fields whose values differ from run to run.
const VOLATILE_FIELDS: [&str; 11] = [
    "creationTimestamp",
    "deployment.kubernetes.io/revision",
    "lastProbeTime",
    "lastScheduledTime",
    "lastTransitionTime",
    "lastUpdateTime",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "token",
    "uid",
];

/// The name of the only template that cannot be applied to all members. In one member, [`crate::scenario`] creates an
/// object with this name first.
pub(crate) const TAKEN: &str = "taken";

/// Adds the objects of one cluster to a snapshot.
pub(crate) async fn collect(all: &mut State, cluster: &str, client: &Client, kinds: &[Kinds]) {
    for (api_version, kind) in kinds.iter().copied().flatten() {
        let api = api(client, api_version, kind, None);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let meta = &object.metadata;
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let name = meta.name.as_deref().unwrap_or_default();
            // Exclude the tokens of members, and most objects that API servers create.
            let others = ["kube-system", "kube-public", "karmada-cluster"].contains(&namespace)
                || name == "kube-root-ca.crt"
                || name.starts_with("system:");
            if !others {
                let key = format!("{cluster}/{kind}/{namespace}/{name}");
                all.insert(key, without_volatile_values(&json!(object)));
            }
        }
    }
}

/// Describes the bindings that are not fully applied, except the binding of [`TAKEN`].
pub(crate) fn not_applied(state: &State) -> Vec<String> {
    let bindings = state
        .iter()
        .filter(|(key, _)| key.contains("ResourceBinding/") && !key.contains(TAKEN));
    let waiting = bindings.filter(|(_, binding)| {
        let conditions = binding.pointer("/status/conditions");
        let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        !conditions.any(|c| c["type"] == "FullyApplied" && c["status"] == "True")
    });
    waiting
        .map(|(key, binding)| format!("{key} is not applied: {}", binding["status"]))
        .collect()
}

/// Describes the objects that are missing in `found`, unexpected, or different from `expected`.
pub(crate) fn differences(expected: &State, found: &State) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let mut all = Vec::new();
    for key in keys {
        match (expected.get(key), found.get(key)) {
            (Some(expected), Some(found)) => {
                let before = all.len();
                compare(key, expected, found, &mut all);
                // Report at most five differences for each object.
                all.truncate(before + 5);
            }
            (Some(_), None) => all.push(format!("{key} is missing")),
            (None, Some(_)) => all.push(format!("{key} is unexpected")),
            (None, None) => {}
        }
    }
    all
}

/// Adds the differences between two values to `all`.
fn compare(path: &str, expected: &Value, found: &Value, all: &mut Vec<String>) {
    if expected == found {
        return;
    }
    if let (Value::Object(expected), Value::Object(found)) = (expected, found) {
        let keys: std::collections::BTreeSet<&String> =
            expected.keys().chain(found.keys()).collect();
        for key in keys {
            let of = |object: &Map<String, Value>| object.get(key).cloned().unwrap_or_default();
            compare(&format!("{path} {key}"), &of(expected), &of(found), all);
        }
        return;
    }
    all.push(format!("{path}: {expected} expected, {found} found"));
}

/// Returns a value without the fields that differ from run to run, and with sorted lists.
fn without_volatile_values(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| {
                !VOLATILE_FIELDS.contains(&key.as_str())
                    && !key.to_lowercase().ends_with("generation")
            });
            Value::Object(
                kept.map(|(key, value)| (key.clone(), without_volatile_values(value)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(without_volatile_values).collect();
            items.sort_by_key(ToString::to_string);
            Value::Array(items)
        }
        Value::String(text) => Value::String(without_ids(text)),
        other => other.clone(),
    }
}

/// Replaces each UUID in a text by a fixed text.
fn without_ids(text: &str) -> String {
    const LENGTH: usize = 36;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let id = rest.get(..LENGTH);
        if id.is_some_and(|id| id.contains('-') && uuid::Uuid::try_parse(id).is_ok()) {
            out.push_str("<id>");
            rest = &rest[LENGTH..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}
