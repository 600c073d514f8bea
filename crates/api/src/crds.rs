//! The CustomResourceDefinitions, generated from the types.

mod policy_constraints;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::binding::{BindingSpec, BindingStatus};
use crate::cluster::{ClusterSpec, ClusterStatus};
use crate::override_policy::OverrideSpec;
use crate::policy::PropagationSpec;
use crate::taint_policy::ClusterTaintPolicySpec;
use crate::work::{WorkSpec, WorkStatus};
use crate::workload_rebalancer::{WorkloadRebalancerSpec, WorkloadRebalancerStatus};

/// A definition that cannot be made: a fault of the types, which the tests find.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The schema or its frame does not fit the type of a definition.
    #[error("definition of {plural}.{group}: {source}")]
    Shape {
        /// The plural name of the kind.
        plural: &'static str,
        /// Its group.
        group: &'static str,
        /// What did not fit.
        source: serde_json::Error,
    },
    /// The definition cannot be written as YAML.
    #[error("definition of {name} as YAML: {message}")]
    Yaml {
        /// The name of the definition.
        name: String,
        /// What the writer said.
        message: String,
    },
}

/// All definitions, in the order in which they are written to `crds/`.
///
/// # Errors
/// When a type gives a schema that is no CRD schema.
pub fn all() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    DEFINITIONS.iter().map(Definition::build).collect()
}

/// The files of `crds/`: name and text.
///
/// # Errors
/// When a definition cannot be made or written.
pub fn files() -> Result<Vec<(String, String)>, CrdError> {
    all()?
        .into_iter()
        .map(|definition| {
            let file = format!(
                "{}_{}.yaml",
                definition.spec.group, definition.spec.names.plural
            );
            let text = serde_saphyr::to_string(&definition).map_err(|error| CrdError::Yaml {
                name: file.clone(),
                message: error.to_string(),
            })?;
            Ok((
                file,
                format!("# Generated from crates/api by hack/update-crds.sh; do not edit.\n{text}"),
            ))
        })
        .collect()
}

struct Definition {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    about: &'static str,
    spec: fn() -> Value,
    status: Option<fn() -> Value>,
    columns: &'static [Column],
}

struct Column {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    wide: bool,
    about: &'static str,
}

const AGE: Column = column("AGE", "date", ".metadata.creationTimestamp", "");

const fn column(
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    about: &'static str,
) -> Column {
    Column {
        name,
        kind,
        path,
        wide: false,
        about,
    }
}

const fn wide(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        path,
        wide: true,
        about: "",
    }
}

const CLUSTER_COLUMNS: &[Column] = &[
    column(
        "Version",
        "string",
        ".status.kubernetesVersion",
        "The version of the member's API server.",
    ),
    column(
        "Mode",
        "string",
        ".spec.syncMode",
        "Who moves resources to the member.",
    ),
    column(
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
        "Whether the member answers.",
    ),
    column("Age", "date", ".metadata.creationTimestamp", ""),
    wide("Zones", ".spec.zones"),
    wide("Region", ".spec.region"),
    wide("Provider", ".spec.provider"),
    wide("API-Endpoint", ".spec.apiEndpoint"),
    wide("Proxy-URL", ".spec.proxyURL"),
];

const POLICY_COLUMNS: &[Column] = &[
    column(
        "CONFLICT-RESOLUTION",
        "string",
        ".spec.conflictResolution",
        "What happens when the resource exists in a member already.",
    ),
    column(
        "PRIORITY",
        "string",
        ".spec.priority",
        "The higher one wins.",
    ),
    AGE,
];

const BINDING_COLUMNS: &[Column] = &[
    column(
        "SCHEDULED",
        "string",
        r#".status.conditions[?(@.type=="Scheduled")].status"#,
        "",
    ),
    column(
        "FULLYAPPLIED",
        "string",
        r#".status.conditions[?(@.type=="FullyApplied")].status"#,
        "",
    ),
    AGE,
];

const WORK_COLUMNS: &[Column] = &[
    column(
        "WORKLOAD-KIND",
        "string",
        ".spec.workload.manifests[*].kind",
        "",
    ),
    column(
        "APPLIED",
        "string",
        r#".status.conditions[?(@.type=="Applied")].status"#,
        "",
    ),
    AGE,
];

const DEFINITIONS: &[Definition] = &[
    Definition {
        group: "cluster.karmada.io",
        version: "v1alpha1",
        kind: "Cluster",
        plural: "clusters",
        singular: "cluster",
        short_names: &[],
        categories: &[],
        namespaced: false,
        about: "One member of the fleet.",
        spec: schema::of::<ClusterSpec>,
        status: Some(schema::of::<ClusterStatus>),
        columns: CLUSTER_COLUMNS,
    },
    Definition {
        group: "policy.karmada.io",
        version: "v1alpha1",
        kind: "PropagationPolicy",
        plural: "propagationpolicies",
        singular: "propagationpolicy",
        short_names: &["pp"],
        categories: &["karmada-io"],
        namespaced: true,
        about: "Propagates resources of its own namespace to member clusters.",
        spec: policy_schema,
        status: None,
        columns: POLICY_COLUMNS,
    },
    Definition {
        group: "policy.karmada.io",
        version: "v1alpha1",
        kind: "ClusterPropagationPolicy",
        plural: "clusterpropagationpolicies",
        singular: "clusterpropagationpolicy",
        short_names: &["cpp"],
        categories: &["karmada-io"],
        namespaced: false,
        about: "Propagates cluster-scoped resources, and resources of any namespace, to member clusters.",
        spec: policy_schema,
        status: None,
        columns: POLICY_COLUMNS,
    },
    Definition {
        group: "policy.karmada.io",
        version: "v1alpha1",
        kind: "OverridePolicy",
        plural: "overridepolicies",
        singular: "overridepolicy",
        short_names: &["op"],
        categories: &["karmada-io"],
        namespaced: true,
        about: "Changes resources of its own namespace on their way to member clusters.",
        spec: schema::of::<OverrideSpec>,
        status: None,
        columns: &[],
    },
    Definition {
        group: "policy.karmada.io",
        version: "v1alpha1",
        kind: "ClusterOverridePolicy",
        plural: "clusteroverridepolicies",
        singular: "clusteroverridepolicy",
        short_names: &["cop"],
        categories: &["karmada-io"],
        namespaced: false,
        about: "Changes resources of any namespace, and cluster-scoped ones, on their way to member clusters.",
        spec: schema::of::<OverrideSpec>,
        status: None,
        columns: &[],
    },
    Definition {
        group: "policy.karmada.io",
        version: "v1alpha1",
        kind: "ClusterTaintPolicy",
        plural: "clustertaintpolicies",
        singular: "clustertaintpolicy",
        short_names: &[],
        categories: &[],
        namespaced: false,
        about: "Taints clusters by their conditions. Taints stay when the policy goes.",
        spec: schema::of::<ClusterTaintPolicySpec>,
        status: None,
        columns: &[],
    },
    Definition {
        group: "work.karmada.io",
        version: "v1alpha2",
        kind: "ResourceBinding",
        plural: "resourcebindings",
        singular: "resourcebinding",
        short_names: &["rb"],
        categories: &["karmada-io"],
        namespaced: true,
        about: "The binding of a namespaced resource to member clusters.",
        spec: schema::of::<BindingSpec>,
        status: Some(schema::of_status::<BindingStatus>),
        columns: BINDING_COLUMNS,
    },
    Definition {
        group: "work.karmada.io",
        version: "v1alpha2",
        kind: "ClusterResourceBinding",
        plural: "clusterresourcebindings",
        singular: "clusterresourcebinding",
        short_names: &["crb"],
        categories: &["karmada-io"],
        namespaced: false,
        about: "The binding of a cluster-scoped resource to member clusters.",
        spec: schema::of::<BindingSpec>,
        status: Some(schema::of_status::<BindingStatus>),
        columns: BINDING_COLUMNS,
    },
    Definition {
        group: "work.karmada.io",
        version: "v1alpha1",
        kind: "Work",
        plural: "works",
        singular: "work",
        short_names: &["wk"],
        categories: &["karmada-io"],
        namespaced: true,
        about: "Resources for the member cluster in whose execution namespace the Work lies.",
        spec: schema::of::<WorkSpec>,
        status: Some(schema::of_status::<WorkStatus>),
        columns: WORK_COLUMNS,
    },
    Definition {
        group: "apps.karmada.io",
        version: "v1alpha1",
        kind: "WorkloadRebalancer",
        plural: "workloadrebalancers",
        singular: "workloadrebalancer",
        short_names: &[],
        categories: &[],
        namespaced: false,
        about: "Asks for workloads to be placed afresh, once.",
        spec: schema::of::<WorkloadRebalancerSpec>,
        status: Some(schema::of::<WorkloadRebalancerStatus>),
        columns: &[],
    },
];

impl Definition {
    fn build(&self) -> Result<CustomResourceDefinition, CrdError> {
        let mut properties = Map::new();
        properties.insert(
            "apiVersion".into(),
            json!({ "type": "string", "description": "The versioned schema of this object." }),
        );
        properties.insert(
            "kind".into(),
            json!({ "type": "string", "description": "The kind of this object." }),
        );
        properties.insert("metadata".into(), json!({ "type": "object" }));
        properties.insert("spec".into(), (self.spec)());
        if let Some(status) = self.status {
            properties.insert("status".into(), status());
        }
        let columns: Vec<Value> = self.columns.iter().map(Column::build).collect();
        let subresources = self.status.map(|_| json!({ "status": {} }));
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{}.{}", self.plural, self.group) },
            "spec": {
                "group": self.group,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.singular,
                    "shortNames": some(self.short_names),
                    "categories": some(self.categories),
                },
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": some(&columns),
                    "subresources": subresources,
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "description": self.about,
                        "required": ["spec"],
                        "properties": properties,
                    } },
                }],
            },
        });
        serde_json::from_value(definition).map_err(|source| CrdError::Shape {
            plural: self.plural,
            group: self.group,
            source,
        })
    }
}

/// A list with something in it. A server does not keep an empty one, and whoever applies one is in conflict with
/// whoever has applied it before.
fn some<T: Serialize>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

impl Column {
    fn build(&self) -> Value {
        let mut column = json!({ "name": self.name, "type": self.kind, "jsonPath": self.path });
        if !self.about.is_empty() {
            column["description"] = json!(self.about);
        }
        if self.wide {
            column["priority"] = json!(1);
        }
        column
    }
}

fn policy_schema() -> Value {
    let mut schema = schema::of::<PropagationSpec>();
    policy_constraints::add(&mut schema);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_crds_are_those_of_the_types() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
        for (name, text) in files().unwrap() {
            let kept = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(
                kept == text,
                "crds/{name} is stale: run hack/update-crds.sh"
            );
        }
    }
}
