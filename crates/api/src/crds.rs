//! The CustomResourceDefinitions, generated from the API types.

mod policy_constraints;
mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::binding::{BindingSpec, BindingStatus};
use crate::cluster::{ClusterSpec, ClusterStatus};
use crate::interpreter_customization::CustomizationSpec;
use crate::interpreter_webhook::InterpreterWebhook;
use crate::override_policy::OverrideSpec;
use crate::policy::PropagationSpec;
use crate::taint_policy::ClusterTaintPolicySpec;
use crate::work::{WorkSpec, WorkStatus};
use crate::workload_rebalancer::{WorkloadRebalancerSpec, WorkloadRebalancerStatus};
use crate::{
    Cluster, ClusterOverridePolicy, ClusterPropagationPolicy, ClusterResourceBinding,
    ClusterTaintPolicy, OverridePolicy, PropagationPolicy, ResourceBinding,
    ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration, Work,
    WorkloadRebalancer,
};

/// An error while a definition is built or written. Each such error is a bug in the API types, and a test finds it.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The generated JSON is not a valid `CustomResourceDefinition`.
    #[error("definition of {plural}.{group}: {source}")]
    Shape {
        /// The plural name of the kind.
        plural: &'static str,
        /// The API group of the kind.
        group: &'static str,
        /// The error of the deserialization.
        source: serde_json::Error,
    },
    /// A definition cannot be written as YAML.
    #[error("definition of {name} as YAML: {message}")]
    Yaml {
        /// The name of the file for the definition.
        name: String,
        /// The error of the YAML writer.
        message: String,
    },
}

/// Builds all definitions.
///
/// # Errors
/// When the schema of a type is not a valid CRD schema.
pub fn all() -> Result<Vec<CustomResourceDefinition>, CrdError> {
    DEFINITIONS.iter().map(Definition::build).collect()
}

/// Returns the names and contents of the files in `crds/`.
///
/// # Errors
/// When a definition cannot be built or written.
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
    description: &'static str,
    content: Content,
    status: Option<fn() -> Value>,
    columns: &'static [Column],
}

/// The required top-level field of a kind, which is `spec` for most kinds.
struct Content {
    field: &'static str,
    schema: fn() -> Value,
}

const fn spec(schema: fn() -> Value) -> Content {
    Content {
        field: "spec",
        schema,
    }
}

struct Column {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    wide: bool,
    description: &'static str,
}

const AGE: Column = column("AGE", "date", ".metadata.creationTimestamp", "");

const fn column(
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    description: &'static str,
) -> Column {
    Column {
        name,
        kind,
        path,
        wide: false,
        description,
    }
}

const fn wide(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        path,
        wide: true,
        description: "",
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
        "The component that applies resources to the cluster.",
    ),
    column(
        "Ready",
        "string",
        r#".status.conditions[?(@.type=="Ready")].status"#,
        "The API server of the cluster responds.",
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
        "The reaction to a resource that already exists in a member cluster.",
    ),
    column(
        "PRIORITY",
        "string",
        ".spec.priority",
        "The priority among policies that select the same resource.",
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

const CUSTOMIZATION_COLUMNS: &[Column] = &[
    column(
        "TARGET-API-VERSION",
        "string",
        ".spec.target.apiVersion",
        "",
    ),
    column("TARGET-KIND", "string", ".spec.target.kind", ""),
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
        description: Cluster::DESCRIPTION,
        content: spec(schema::of::<ClusterSpec>),
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
        description: PropagationPolicy::DESCRIPTION,
        content: spec(policy_schema),
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
        description: ClusterPropagationPolicy::DESCRIPTION,
        content: spec(policy_schema),
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
        description: OverridePolicy::DESCRIPTION,
        content: spec(schema::of::<OverrideSpec>),
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
        description: ClusterOverridePolicy::DESCRIPTION,
        content: spec(schema::of::<OverrideSpec>),
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
        description: ClusterTaintPolicy::DESCRIPTION,
        content: spec(schema::of::<ClusterTaintPolicySpec>),
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
        description: ResourceBinding::DESCRIPTION,
        content: spec(schema::of::<BindingSpec>),
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
        description: ClusterResourceBinding::DESCRIPTION,
        content: spec(schema::of::<BindingSpec>),
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
        description: Work::DESCRIPTION,
        content: spec(schema::of::<WorkSpec>),
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
        description: WorkloadRebalancer::DESCRIPTION,
        content: spec(schema::of::<WorkloadRebalancerSpec>),
        status: Some(schema::of::<WorkloadRebalancerStatus>),
        columns: &[],
    },
    Definition {
        group: "config.karmada.io",
        version: "v1alpha1",
        kind: "ResourceInterpreterCustomization",
        plural: "resourceinterpretercustomizations",
        singular: "resourceinterpretercustomization",
        short_names: &["ric"],
        categories: &["karmada-io"],
        namespaced: false,
        description: ResourceInterpreterCustomization::DESCRIPTION,
        content: spec(schema::of::<CustomizationSpec>),
        status: None,
        columns: CUSTOMIZATION_COLUMNS,
    },
    Definition {
        group: "config.karmada.io",
        version: "v1alpha1",
        kind: "ResourceInterpreterWebhookConfiguration",
        plural: "resourceinterpreterwebhookconfigurations",
        singular: "resourceinterpreterwebhookconfiguration",
        short_names: &[],
        categories: &["karmada-io"],
        namespaced: false,
        description: ResourceInterpreterWebhookConfiguration::DESCRIPTION,
        content: Content {
            field: "webhooks",
            schema: schema::of::<Vec<InterpreterWebhook>>,
        },
        status: None,
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
        let Content { field, schema } = self.content;
        properties.insert(field.into(), schema());
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
                    "shortNames": non_empty(self.short_names),
                    "categories": non_empty(self.categories),
                },
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": non_empty(&columns),
                    "subresources": subresources,
                    "schema": { "openAPIV3Schema": {
                        "type": "object",
                        "description": self.description,
                        "required": [field],
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

/// Returns the list, or `None` if the list is empty. A server stores no empty list. An apply with an empty list would
/// therefore differ from the stored definition, and conflict with the manager that created it.
fn non_empty<T: Serialize>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

impl Column {
    fn build(&self) -> Value {
        let mut column = json!({ "name": self.name, "type": self.kind, "jsonPath": self.path });
        if !self.description.is_empty() {
            column["description"] = json!(self.description);
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
    fn crd_files_are_up_to_date() {
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
