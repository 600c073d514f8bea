//! OverridePolicy and ClusterOverridePolicy, which change resources for particular member clusters.

use std::collections::BTreeMap;
use std::ops::Deref;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field_schema;
use crate::go_zero::is_go_zero;
use crate::open_enum::open_enum;
use crate::placement::ClusterAffinity;
use crate::policy::ResourceSelector;

/// The spec of both kinds of override policy.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "OverridePolicy",
    doc = "Changes resources of its own namespace before they are applied to member clusters.",
    namespaced,
    shortname = "op",
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// The resources to change; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// The changes and the clusters they apply to.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub override_rules: Option<Vec<RuleWithCluster>>,
    /// Deprecated: use `overrideRules`. The clusters that `overriders` apply to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Deprecated: use `overrideRules`. The changes.
    #[serde(default)]
    #[schemars(transform = field_schema::without_default)]
    pub overriders: Overriders,
}

/// The spec of both kinds of override policy.
// kube-derive needs one type for each kind.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "policy.karmada.io",
    version = "v1alpha1",
    kind = "ClusterOverridePolicy",
    doc = "Changes cluster-scoped resources, and resources of any namespace, before they are applied to member clusters.",
    shortname = "cop",
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq"
)]
#[serde(transparent)]
pub struct ClusterOverrideSpec(pub OverrideSpec);

impl Deref for ClusterOverrideSpec {
    type Target = OverrideSpec;

    fn deref(&self) -> &OverrideSpec {
        &self.0
    }
}

impl OverrideSpec {
    /// Returns the override rules. If the policy has no rules, returns one rule with the values of the deprecated
    /// fields.
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

/// The changes for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// The clusters; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// The changes.
    pub overriders: Overriders,
}

/// The changes of one rule. They are applied in this order: images, commands, arguments, labels, annotations, fields,
/// plain text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// JSON patches of the whole resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Changes to images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes to the commands of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes to the arguments of containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes to labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes to annotations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes to a document inside a string field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

open_enum! {
    /// The kind of change to a value.
    pub enum OverriderOperator {
        /// Adds the value.
        Add = "add",
        /// Removes the value.
        Remove = "remove",
        /// Replaces the existing value.
        Replace = "replace",
    }
}

open_enum! {
    /// A component of an image name.
    pub enum ImageComponent {
        /// The registry, for example `registry.k8s.io`.
        Registry = "Registry",
        /// The repository, for example `library/nginx`.
        Repository = "Repository",
        /// The tag or digest.
        Tag = "Tag",
    }
}

/// A JSON patch of the whole resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// The JSON pointer of the field.
    pub path: String,
    /// The kind of change.
    pub operator: OverriderOperator,
    /// The new value; absent for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "field_schema::any_value")]
    pub value: Option<Value>,
}

/// A change to images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// The location of the image; absent means the containers of a Pod or of the pod template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The component to change.
    pub component: ImageComponent,
    /// The kind of change.
    pub operator: OverriderOperator,
    /// The new value; ignored for `remove`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

/// The location of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImagePredicate {
    /// The JSON pointer of the field.
    pub path: String,
}

/// A change to the command or arguments of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// The name of the container.
    pub container_name: String,
    /// The kind of change.
    #[schemars(extend("enum" = ["add", "remove"]))]
    pub operator: OverriderOperator,
    /// The values to append or remove.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// A change to labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// The kind of change.
    pub operator: OverriderOperator,
    /// Keys and values; `replace` and `remove` affect existing keys only.
    pub value: BTreeMap<String, String>,
}

/// A change to a JSON or YAML document inside a string field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// The JSON pointer of the field, for example `/data/config.yaml`.
    pub field_path: String,
    /// Patches of a JSON document; exclusive with `yaml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<TextPatch>,
    /// Patches of a YAML document; exclusive with `json`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<TextPatch>,
}

/// A JSON patch of a document inside a string field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TextPatch {
    /// The JSON pointer inside the document.
    pub sub_path: String,
    /// The kind of change.
    pub operator: OverriderOperator,
    /// The new value; absent for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "field_schema::any_value")]
    pub value: Option<Value>,
}
