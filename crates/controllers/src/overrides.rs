//! Override policies: which of them count for a resource and a cluster, and what they make of the resource.
//!
//! Pure functions over JSON: they must not know where policies and clusters come from, nor where the result
//! goes. ClusterOverridePolicies are applied first, then the OverridePolicies of the resource's namespace, so
//! that the latter win; within a kind the less precise selector goes first, then the smaller name.

mod containers;
mod image;
mod json_text;
mod metadata;
mod text_field;
mod yaml_text;

use std::sync::Arc;

use berth_api::Cluster;
use berth_api::override_policy::{
    OverrideSpec, OverriderOperator, Overriders, PlaintextOverrider, RuleWithCluster,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::resource_selector::{Precision, ResourceIdentity, Selector};

/// An override policy, ready to match. Which of the two kinds it is depends on who holds it.
#[derive(Clone, Debug)]
pub struct OverridePolicy {
    /// Its name.
    pub name: String,
    /// What it selects; none means everything. A selector that is not valid selects nothing.
    selectors: Vec<Selector>,
    selects_all: bool,
    rules: Vec<RuleWithCluster>,
}

/// The two kinds of override policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverrideKind {
    /// OverridePolicy: counts for resources of its own namespace.
    Namespaced,
    /// ClusterOverridePolicy: counts for any resource.
    Cluster,
}

/// The policies that may count for a resource.
#[derive(Clone, Debug, Default)]
pub struct OverrideSet {
    /// ClusterOverridePolicies.
    pub cluster: Vec<Arc<OverridePolicy>>,
    /// OverridePolicies of the resource's namespace.
    pub namespaced: Vec<Arc<OverridePolicy>>,
}

/// What was applied, as the annotations of a Work tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// ClusterOverridePolicies, as JSON; nothing where none was.
    pub cluster: Option<String>,
    /// OverridePolicies, as JSON; nothing where none was.
    pub namespaced: Option<String>,
    /// The names of ClusterOverridePolicies.
    pub cluster_names: Vec<String>,
    /// The names of OverridePolicies.
    pub namespaced_names: Vec<String>,
}

/// An overrider that cannot be applied.
#[derive(Debug, thiserror::Error)]
#[error("{} {policy:?} cannot be applied: {reason}", match kind {
    OverrideKind::Namespaced => "override policy",
    OverrideKind::Cluster => "cluster override policy",
})]
pub struct OverrideError {
    /// The kind of policy.
    pub kind: OverrideKind,
    /// The policy.
    pub policy: String,
    /// Why not.
    pub reason: Reason,
}

/// Why an overrider cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// A patch does not fit the resource.
    #[error("{operator} {path}: {}", source.kind)]
    Patch {
        /// What was to be done.
        operator: String,
        /// The JSON pointer.
        path: String,
        /// What does not fit.
        source: json_patch::PatchError,
    },
    /// A patch does not fit the text in a field.
    #[error("{operator} {path}: {problem}")]
    Text {
        /// What was to be done.
        operator: String,
        /// The JSON pointer inside the text.
        path: String,
        /// What does not fit.
        problem: String,
    },
    /// A patch is not one.
    #[error("not a JSON patch: {0}")]
    NotAPatch(#[from] serde_json::Error),
    /// The name of an image is not one.
    #[error("{0:?} is not the name of an image")]
    Image(String),
    /// A field is missing, or does not hold text.
    #[error("{0}: there is no text in this field")]
    NotText(String),
    /// Text in a field is not what the overrider says.
    #[error("{path}: {message}")]
    Document {
        /// The field.
        path: String,
        /// What the reader or writer says.
        message: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    policy_name: &'a str,
    overriders: Overriders,
}

/// Overriders as Karmada writes them down: with the values that `remove` does without.
fn recorded(overriders: &Overriders) -> Overriders {
    let mut recorded = overriders.clone();
    let plain = recorded.plaintext.iter_mut().map(|one| &mut one.value);
    let fields = recorded.field_overrider.iter_mut();
    let texts = fields.flat_map(|field| field.json.iter_mut().chain(&mut field.yaml));
    for value in plain.chain(texts.map(|one| &mut one.value)) {
        value.get_or_insert_default();
    }
    recorded
}

impl OverridePolicy {
    /// Makes a policy ready.
    pub fn new(name: &str, spec: &OverrideSpec) -> Self {
        let selectors = spec.resource_selectors.iter();
        Self {
            name: name.to_owned(),
            selectors: selectors.flat_map(Selector::compile).collect(),
            selects_all: spec.resource_selectors.is_empty(),
            rules: spec.rules(),
        }
    }

    /// How precisely it selects a resource, if it does.
    pub fn precision(&self, resource: &ResourceIdentity<'_>) -> Option<Precision> {
        if self.selects_all {
            return Some(Precision::All);
        }
        let selectors = self.selectors.iter();
        selectors.filter_map(|s| s.precision_of(resource)).max()
    }

    /// Whether it may select a resource of this kind and name, whatever its labels are.
    pub fn may_select(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let mut selectors = self.selectors.iter();
        self.selects_all || selectors.any(|s| s.may_match(api_version, kind, namespace, name))
    }
}

impl OverrideSet {
    /// Changes a resource as the policies say for a cluster.
    ///
    /// # Errors
    /// When a change does not fit the resource.
    pub fn apply(&self, resource: &mut Value, cluster: &Cluster) -> Result<Applied, OverrideError> {
        let (cluster_names, of_cluster) =
            apply_kind(OverrideKind::Cluster, &self.cluster, resource, cluster)?;
        let (namespaced_names, of_namespace) = apply_kind(
            OverrideKind::Namespaced,
            &self.namespaced,
            resource,
            cluster,
        )?;
        Ok(Applied {
            cluster: of_cluster,
            namespaced: of_namespace,
            cluster_names,
            namespaced_names,
        })
    }
}

fn apply_kind(
    kind: OverrideKind,
    policies: &[Arc<OverridePolicy>],
    resource: &mut Value,
    cluster: &Cluster,
) -> Result<(Vec<String>, Option<String>), OverrideError> {
    let identity = resource.clone();
    let identity = ResourceIdentity::of(&identity);
    let mut selected: Vec<(Precision, &Arc<OverridePolicy>)> = policies
        .iter()
        .filter_map(|policy| Some((policy.precision(&identity)?, policy)))
        .collect();
    selected.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
    let mut records = Vec::new();
    for (_, policy) in selected {
        for rule in &policy.rules {
            let counts = rule.target_cluster.as_ref();
            if !counts.is_none_or(|affinity| affinity.matches(cluster)) {
                continue;
            }
            apply_overriders(resource, &rule.overriders).map_err(|reason| OverrideError {
                kind,
                policy: policy.name.clone(),
                reason,
            })?;
            records.push(Record {
                policy_name: &policy.name,
                overriders: recorded(&rule.overriders),
            });
        }
    }
    // Karmada tells of them by name.
    records.sort_by_key(|record| record.policy_name);
    let mut names: Vec<String> = records.iter().map(|r| r.policy_name.to_owned()).collect();
    names.dedup();
    if records.is_empty() {
        return Ok((names, None));
    }
    let text = serde_json::to_string(&records).map_err(|error| OverrideError {
        kind,
        policy: names.join(","),
        reason: error.into(),
    })?;
    Ok((names, Some(json_text::compact(&text))))
}

fn apply_overriders(resource: &mut Value, overriders: &Overriders) -> Result<(), Reason> {
    for overrider in &overriders.image_overrider {
        image::apply(resource, overrider)?;
    }
    for overrider in &overriders.command_overrider {
        containers::apply(resource, containers::List::Command, overrider);
    }
    for overrider in &overriders.args_overrider {
        containers::apply(resource, containers::List::Args, overrider);
    }
    for overrider in &overriders.labels_overrider {
        metadata::apply(resource, "labels", overrider);
    }
    for overrider in &overriders.annotations_overrider {
        metadata::apply(resource, "annotations", overrider);
    }
    for overrider in &overriders.field_overrider {
        text_field::apply(resource, overrider)?;
    }
    for PlaintextOverrider {
        path,
        operator,
        value,
    } in &overriders.plaintext
    {
        patch(resource, path, operator, value.as_ref())?;
    }
    Ok(())
}

/// One operation of a JSON patch. Indexes below zero count from the end of a list, which JSON patches do not know, but
/// Karmada does.
fn patch(
    document: &mut Value,
    path: &str,
    operator: &OverriderOperator,
    value: Option<&Value>,
) -> Result<(), Reason> {
    let path = &counted(document, path, operator);
    let mut operation = json!({ "op": operator.as_str(), "path": path });
    if *operator != OverriderOperator::Remove {
        operation["value"] = value.cloned().unwrap_or_default();
    }
    let operation: json_patch::PatchOperation = serde_json::from_value(operation)?;
    json_patch::patch(document, &[operation]).map_err(|source| Reason::Patch {
        operator: operator.as_str().to_owned(),
        path: path.to_owned(),
        source,
    })
}

/// A path with the indexes that JSON patches know.
fn counted(document: &Value, path: &str, operator: &OverriderOperator) -> String {
    let mut place = Some(document);
    let mut tokens = path.split('/').peekable();
    let mut result = Vec::new();
    result.extend(tokens.next().map(str::to_owned));
    while let Some(token) = tokens.next() {
        // What is added may come after the last item.
        let more = usize::from(tokens.peek().is_none() && *operator == OverriderOperator::Add);
        let item = match place {
            Some(Value::Array(items)) if token != "-" => {
                json_text::index(token, items.len() + more)
            }
            _ => None,
        };
        place = match (place, item) {
            (Some(Value::Array(items)), Some(index)) => items.get(index),
            (Some(Value::Object(fields)), _) => fields.get(&json_text::unescaped(token)),
            _ => None,
        };
        result.push(item.map_or_else(|| token.to_owned(), |index| index.to_string()));
    }
    result.join("/")
}

/// Where the containers of a resource are, for the kinds whose images and commands can be overridden.
fn containers_of(resource: &Value) -> Option<&'static str> {
    match resource.get("kind").and_then(Value::as_str)? {
        "Pod" => Some("/spec/containers"),
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" | "Job" => {
            Some("/spec/template/spec/containers")
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "overrides/tests.rs"]
mod tests;
