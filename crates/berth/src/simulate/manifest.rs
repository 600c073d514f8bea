//! From documents to manifests: what each of them is to a simulation, and which of them cannot be meant.

use std::collections::HashMap;
use std::fmt;

use berth_controllers::binding_key::BindingKind;
use berth_controllers::detector::claim::PolicyKind;
use serde_json::Value;

use super::error::{Place, Problem};
use super::source::Document;

/// What a manifest is to a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A member of the fleet.
    Cluster,
    /// A PropagationPolicy or ClusterPropagationPolicy.
    Policy(PolicyKind),
    /// A ResourceBinding or ClusterResourceBinding.
    Binding(BindingKind),
    /// An override policy: policies may wait for it.
    Override(PolicyKind),
    /// Of Karmada's own, without a part in scheduling.
    Aside,
    /// Something that policies may select.
    Template,
}

/// A manifest.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// Where it was found.
    pub(crate) place: Place,
    /// What it is to a simulation.
    pub(crate) role: Role,
    /// For example `apps/v1`.
    pub(crate) api_version: String,
    /// The kind.
    pub(crate) kind: String,
    /// The namespace that it names; empty where it names none.
    pub(crate) namespace: String,
    /// The name.
    pub(crate) name: String,
    /// All of it.
    pub(crate) object: Value,
}

impl Manifest {
    /// The group, empty for the core group.
    pub(crate) fn group(&self) -> &str {
        group_of(&self.api_version)
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

fn group_of(api_version: &str) -> &str {
    api_version
        .split_once('/')
        .map_or("", |(group, _version)| group)
}

/// Karmada's kinds that are known: the API version, the kinds and their part.
const KARMADA: &[(&str, &str, Role)] = &[
    ("cluster.karmada.io/v1alpha1", "Cluster", Role::Cluster),
    (
        "policy.karmada.io/v1alpha1",
        "PropagationPolicy",
        Role::Policy(PolicyKind::Namespaced),
    ),
    (
        "policy.karmada.io/v1alpha1",
        "ClusterPropagationPolicy",
        Role::Policy(PolicyKind::Cluster),
    ),
    (
        "policy.karmada.io/v1alpha1",
        "OverridePolicy",
        Role::Override(PolicyKind::Namespaced),
    ),
    (
        "policy.karmada.io/v1alpha1",
        "ClusterOverridePolicy",
        Role::Override(PolicyKind::Cluster),
    ),
    (
        "policy.karmada.io/v1alpha1",
        "ClusterTaintPolicy",
        Role::Aside,
    ),
    (
        "policy.karmada.io/v1alpha1",
        "FederatedResourceQuota",
        Role::Aside,
    ),
    (
        "work.karmada.io/v1alpha2",
        "ResourceBinding",
        Role::Binding(BindingKind::Namespaced),
    ),
    (
        "work.karmada.io/v1alpha2",
        "ClusterResourceBinding",
        Role::Binding(BindingKind::Cluster),
    ),
    ("work.karmada.io/v1alpha1", "Work", Role::Aside),
    (
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        Role::Aside,
    ),
    (
        "autoscaling.karmada.io/v1alpha1",
        "FederatedHPA",
        Role::Aside,
    ),
    (
        "autoscaling.karmada.io/v1alpha1",
        "CronFederatedHPA",
        Role::Aside,
    ),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterCustomization",
        Role::Aside,
    ),
    (
        "config.karmada.io/v1alpha1",
        "ResourceInterpreterWebhookConfiguration",
        Role::Aside,
    ),
    (
        "networking.karmada.io/v1alpha1",
        "MultiClusterService",
        Role::Aside,
    ),
    (
        "networking.karmada.io/v1alpha1",
        "MultiClusterIngress",
        Role::Aside,
    ),
    ("remedy.karmada.io/v1alpha1", "Remedy", Role::Aside),
];

fn role_of(api_version: &str, kind: &str) -> Result<Role, String> {
    let group = group_of(api_version);
    let own = KARMADA
        .iter()
        .any(|(known, ..)| group_of(known) == group && !group.is_empty());
    if !own {
        return Ok(Role::Template);
    }
    let exact = KARMADA
        .iter()
        .find(|(known, name, _)| *known == api_version && *name == kind);
    if let Some((.., role)) = exact {
        return Ok(*role);
    }
    let elsewhere = KARMADA
        .iter()
        .find(|(known, name, _)| *name == kind && group_of(known) == group);
    Err(match elsewhere {
        Some((known, ..)) => {
            format!("unknown kind {kind} in {api_version}: it is served as {known}")
        }
        None => format!("unknown kind {kind} in {api_version}"),
    })
}

/// Makes manifests of documents. Lists are taken apart; what is no manifest, or is there twice, becomes a
/// problem.
pub(crate) fn sort_out(documents: Vec<Document>, problems: &mut Vec<Problem>) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    for document in documents {
        for (place, value) in items_of(document) {
            match manifest(&place, value) {
                Ok(manifest) => manifests.push(manifest),
                Err(reason) => problems.push(Problem::new(place, reason)),
            }
        }
    }
    manifests
}

/// Drops what has a manifest whose object is there already, once namespaces are known.
pub(crate) fn refuse_duplicates<T>(
    items: &mut Vec<T>,
    manifest_of: impl Fn(&T) -> &Manifest,
    problems: &mut Vec<Problem>,
) {
    let mut seen: HashMap<[String; 4], Place> = HashMap::new();
    items.retain(|item| {
        let manifest = manifest_of(item);
        let identity = [
            manifest.group().to_owned(),
            manifest.kind.clone(),
            manifest.namespace.clone(),
            manifest.name.clone(),
        ];
        if let Some(first) = seen.get(&identity) {
            problems.push(Problem::new(
                &manifest.place,
                format!("{manifest} is there already: {first}"),
            ));
            return false;
        }
        seen.insert(identity, manifest.place.clone());
        true
    });
}

fn items_of(document: Document) -> Vec<(Place, Value)> {
    let Document { place, mut value } = document;
    let is_list = value["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let item_place = Place {
                    item: Some(index + 1),
                    ..place.clone()
                };
                (item_place, item)
            })
            .collect(),
        Some(other) => {
            value["items"] = other;
            vec![(place, value)]
        }
        None => vec![(place, value)],
    }
}

fn manifest(place: &Place, object: Value) -> Result<Manifest, String> {
    if !object.is_object() {
        let what = match object {
            Value::Array(_) => "a list",
            Value::Null => "nothing",
            _ => "a plain value",
        };
        return Err(format!("{what} is no manifest"));
    }
    let text = |path: &str| -> Result<String, String> {
        let field = path.trim_start_matches('/').replace('/', ".");
        match object.pointer(path) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!("{field} must be a text, and is {other}")),
        }
    };
    let required = |path: &str| -> Result<String, String> {
        let found = text(path)?;
        if found.is_empty() {
            let field = path.trim_start_matches('/').replace('/', ".");
            return Err(format!("{field} is missing"));
        }
        Ok(found)
    };
    let api_version = required("/apiVersion")?;
    let kind = required("/kind")?;
    let name = required("/metadata/name")?;
    let role = role_of(&api_version, &kind)?;
    Ok(Manifest {
        place: place.clone(),
        role,
        namespace: text("/metadata/namespace")?,
        api_version,
        kind,
        name,
        object,
    })
}
