//! One manifest of a simulation. Its kind determines its [`Role`]: a cluster, a policy, a template, …
//!
//! The module `source` reads the documents, and this module converts each document to one or more manifests.

use std::collections::HashMap;
use std::fmt;

use berth_api::BindingKind;
use berth_controllers::detector::claim::PolicyKind;
use serde_json::Value;

use super::error::{Problem, SourceLocation};
use super::source::Document;

/// Role of a manifest in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A Cluster.
    Cluster,
    /// A PropagationPolicy or ClusterPropagationPolicy.
    Policy(PolicyKind),
    /// A ResourceBinding or ClusterResourceBinding.
    Binding(BindingKind),
    /// An OverridePolicy or ClusterOverridePolicy. A propagation policy may name it in `dependentOverrides`.
    Override(PolicyKind),
    /// A ResourceInterpreterCustomization.
    Customization,
    /// A ResourceInterpreterWebhookConfiguration. The simulation never calls its webhooks.
    InterpreterWebhooks,
    /// A WorkloadRebalancer, which triggers a new decision about each of its workloads.
    Rebalancer,
    /// A FederatedResourceQuota.
    Quota,
    /// A ClusterScore, which plugins may read.
    Score,
    /// An object of a Karmada kind that does not influence scheduling.
    Ignored,
    /// An object of any other kind. Policies may select it.
    Template,
}

/// A manifest.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// Position of the manifest in a file or in standard input.
    pub(crate) location: SourceLocation,
    /// Role in the simulation.
    pub(crate) role: Role,
    /// API version, such as `apps/v1`.
    pub(crate) api_version: String,
    /// Kind of the object.
    pub(crate) kind: String,
    /// Namespace in the manifest. Empty if the manifest has no namespace.
    pub(crate) namespace: String,
    /// Name of the object.
    pub(crate) name: String,
    /// Complete object.
    pub(crate) object: Value,
}

impl Manifest {
    /// Returns the API group, which is empty for the core group.
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

/// Kind and role of each kind of Karmada and Berth, by API version.
const KARMADA: &[(&str, &[(&str, Role)])] = &[
    ("cluster.karmada.io/v1alpha1", &[("Cluster", Role::Cluster)]),
    (
        "policy.karmada.io/v1alpha1",
        &[
            ("PropagationPolicy", Role::Policy(PolicyKind::Namespaced)),
            (
                "ClusterPropagationPolicy",
                Role::Policy(PolicyKind::Cluster),
            ),
            ("OverridePolicy", Role::Override(PolicyKind::Namespaced)),
            ("ClusterOverridePolicy", Role::Override(PolicyKind::Cluster)),
            ("ClusterTaintPolicy", Role::Ignored),
            ("FederatedResourceQuota", Role::Quota),
        ],
    ),
    (
        "work.karmada.io/v1alpha2",
        &[
            ("ResourceBinding", Role::Binding(BindingKind::Namespaced)),
            (
                "ClusterResourceBinding",
                Role::Binding(BindingKind::Cluster),
            ),
        ],
    ),
    ("work.karmada.io/v1alpha1", &[("Work", Role::Ignored)]),
    (
        "apps.karmada.io/v1alpha1",
        &[("WorkloadRebalancer", Role::Rebalancer)],
    ),
    (
        "autoscaling.karmada.io/v1alpha1",
        &[
            ("FederatedHPA", Role::Ignored),
            ("CronFederatedHPA", Role::Ignored),
        ],
    ),
    (
        "config.karmada.io/v1alpha1",
        &[
            ("ResourceInterpreterCustomization", Role::Customization),
            (
                "ResourceInterpreterWebhookConfiguration",
                Role::InterpreterWebhooks,
            ),
        ],
    ),
    (
        "networking.karmada.io/v1alpha1",
        &[
            ("MultiClusterService", Role::Ignored),
            ("MultiClusterIngress", Role::Ignored),
        ],
    ),
    ("remedy.karmada.io/v1alpha1", &[("Remedy", Role::Ignored)]),
    (
        "scheduling.berth/v1alpha1",
        &[("ClusterScore", Role::Score)],
    ),
];

fn role_of(api_version: &str, kind: &str) -> Result<Role, String> {
    let group = group_of(api_version);
    let mut versions = KARMADA
        .iter()
        .filter(|(known, _)| group_of(known) == group)
        .peekable();
    if versions.peek().is_none() {
        return Ok(Role::Template);
    }
    let mut other_version = None;
    for (known, kinds) in versions {
        if let Some((_, role)) = kinds.iter().find(|(name, _)| *name == kind) {
            if *known == api_version {
                return Ok(*role);
            }
            other_version = Some(known);
        }
    }
    Err(match other_version {
        Some(known) => {
            format!("unknown kind {kind} in {api_version}: it is served as {known}")
        }
        None => format!("unknown kind {kind} in {api_version}"),
    })
}

/// Converts documents to manifests. A List becomes one manifest for each item. Adds a problem for each invalid document
/// or item.
pub(crate) fn from_documents(
    documents: Vec<Document>,
    problems: &mut Vec<Problem>,
) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    for document in documents {
        for (location, value) in items_of(document) {
            match manifest(&location, value) {
                Ok(manifest) => manifests.push(manifest),
                Err(reason) => problems.push(Problem::new(location, reason)),
            }
        }
    }
    manifests
}

/// Removes each manifest that describes the same object as an earlier manifest, and adds a problem for it. The caller
/// sets the namespaces of the manifests first.
pub(crate) fn refuse_duplicates<T>(
    items: &mut Vec<T>,
    manifest_of: impl Fn(&T) -> &Manifest,
    problems: &mut Vec<Problem>,
) {
    let mut seen: HashMap<[String; 4], SourceLocation> = HashMap::new();
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
                &manifest.location,
                format!("{manifest} is already defined in {first}"),
            ));
            return false;
        }
        seen.insert(identity, manifest.location.clone());
        true
    });
}

fn items_of(document: Document) -> Vec<(SourceLocation, Value)> {
    let Document {
        location,
        mut value,
    } = document;
    let is_list = value["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| {
                let item_place = SourceLocation {
                    item: Some(index + 1),
                    ..location.clone()
                };
                (item_place, item)
            })
            .collect(),
        Some(other) => {
            value["items"] = other;
            vec![(location, value)]
        }
        None => vec![(location, value)],
    }
}

fn manifest(location: &SourceLocation, object: Value) -> Result<Manifest, String> {
    if !object.is_object() {
        let what = match object {
            Value::Array(_) => "a list",
            Value::Null => "nothing",
            _ => "a plain value",
        };
        return Err(format!("expected a manifest, found {what}"));
    }
    let text = |path: &str| -> Result<String, String> {
        let field = path.trim_start_matches('/').replace('/', ".");
        match object.pointer(path) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!("{field} must be a string, found {other}")),
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
        location: location.clone(),
        role,
        namespace: text("/metadata/namespace")?,
        api_version,
        kind,
        name,
        object,
    })
}
