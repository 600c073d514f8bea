//! OverridePolicy and ClusterOverridePolicy: how a resource differs from one member cluster to another.

use std::collections::BTreeMap;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::placement::ClusterAffinity;
use crate::policy::ResourceSelector;
use crate::root_kind::root_kind;

root_kind! {
    /// Changes resources of its own namespace on their way to member clusters.
    OverridePolicy {
        group: "policy.karmada.io", version: "v1alpha1", plural: "overridepolicies",
        scope: NamespaceResourceScope, spec: OverrideSpec,
    }
}

root_kind! {
    /// Changes resources of any namespace, and cluster-scoped ones, on their way to member clusters.
    ClusterOverridePolicy {
        group: "policy.karmada.io", version: "v1alpha1", plural: "clusteroverridepolicies",
        scope: ClusterResourceScope, spec: OverrideSpec,
    }
}

/// The spec of both kinds of override policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// The resources to change; none means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// What is changed, and for which clusters.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub override_rules: Option<Vec<RuleWithCluster>>,
    /// Deprecated, see `overrideRules`: the clusters for which `overriders` count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Deprecated, see `overrideRules`: what is changed.
    #[serde(default)]
    #[schemars(extend("x-no-default" = true))]
    pub overriders: Overriders,
}

impl OverrideSpec {
    /// The rules, those of the deprecated fields included.
    pub fn rules(&self) -> Vec<RuleWithCluster> {
        match &self.override_rules {
            Some(rules) if !rules.is_empty() => rules.clone(),
            _ => vec![RuleWithCluster {
                target_cluster: self.target_cluster.clone(),
                overriders: self.overriders.clone(),
            }],
        }
    }
}

/// What is changed for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// The clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// What is changed.
    pub overriders: Overriders,
}

/// Changes, applied in this order: images, commands, arguments, labels, annotations, fields, plain text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// JSON patches of the whole resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Changes of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes of containers' commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes of containers' arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes of labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes of annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes inside a field that holds JSON or YAML as text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

open_enum! {
    /// What is done with a value.
    pub enum OverriderOperator {
        /// It is added.
        Add = "add",
        /// It is removed.
        Remove = "remove",
        /// It replaces the one that is there.
        Replace = "replace",
    }
}

open_enum! {
    /// A part of the name of an image.
    pub enum ImageComponent {
        /// For example `registry.k8s.io`.
        Registry = "Registry",
        /// For example `library/nginx`.
        Repository = "Repository",
        /// The tag or the digest.
        Tag = "Tag",
    }
}

/// A JSON patch of the whole resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// The JSON pointer of the field.
    pub path: String,
    /// What is done.
    pub operator: OverriderOperator,
    /// The value; none for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
}

/// A change of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Where the image is; absent means the containers of a Pod or of the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The part that is changed.
    pub component: ImageComponent,
    /// What is done.
    pub operator: OverriderOperator,
    /// The value; does not count for `remove`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// The JSON pointer of the field.
    pub path: String,
}

/// A change of a container's command or arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// The container.
    pub container_name: String,
    /// What is done.
    #[schemars(extend("enum" = ["add", "remove"]))]
    pub operator: OverriderOperator,
    /// What is appended, or taken out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// A change of labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// What is done.
    pub operator: OverriderOperator,
    /// Keys and values; `replace` and `remove` count for keys that are there.
    pub value: BTreeMap<String, String>,
}

/// A change inside a field that holds JSON or YAML as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// The JSON pointer of the field, for example `/data/config.yaml`.
    pub field_path: String,
    /// Patches of a field that holds JSON; not together with `yaml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<TextPatch>,
    /// Patches of a field that holds YAML; not together with `json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<TextPatch>,
}

/// A JSON patch of a document that is kept as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextPatch {
    /// The JSON pointer inside the document.
    pub sub_path: String,
    /// What is done.
    pub operator: OverriderOperator,
    /// The value; none for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub value: Option<Value>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}
