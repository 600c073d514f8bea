//! ResourceInterpreterCustomization: Lua scripts that interpret the objects of one kind.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The target and the scripts.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "config.karmada.io",
    version = "v1alpha1",
    kind = "ResourceInterpreterCustomization",
    doc = "Scripts that interpret the objects of one kind. They take precedence over every built-in rule.",
    shortname = "ric",
    category = "karmada-io",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(
        name = "TARGET-API-VERSION",
        type_ = "string",
        json_path = ".spec.target.apiVersion"
    ),
    printcolumn(
        name = "TARGET-KIND",
        type_ = "string",
        json_path = ".spec.target.kind"
    ),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationSpec {
    /// The kind that the scripts interpret.
    pub target: CustomizationTarget,
    /// The scripts, by operation.
    pub customizations: CustomizationRules,
}

/// The kind that a customization applies to.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationTarget {
    /// The API version, for example `apps/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// The scripts of a customization. An operation without a script keeps its built-in rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationRules {
    /// Keeps fields that the member cluster owns: `function Retain(desiredObj, observedObj)` returns the object to
    /// apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaRule>,
    /// Reads the replicas: `function GetReplicas(desiredObj)` returns their number and the requirements of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaRule>,
    /// Reads the components of a workload with several pod templates: `function GetComponents(desiredObj)` returns a
    /// list of components. Only used with the feature gate MultiplePodTemplatesScheduling, and then instead of
    /// replicaResource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaRule>,
    /// Sets the replicas: `function ReviseReplica(desiredObj, desiredReplica)` returns the object to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaRule>,
    /// Selects the status that a member cluster reports: `function ReflectStatus(observedObj)` returns the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaRule>,
    /// Combines the reports of the member clusters: `function AggregateStatus(desiredObj, statusItems)` returns the
    /// template with its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaRule>,
    /// Assesses the health in a member cluster: `function InterpretHealth(observedObj)` returns a boolean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaRule>,
    /// Finds the objects that a template needs: `function GetDependencies(desiredObj)` returns a list of references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaRule>,
}

/// A script for one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LuaRule {
    /// The Lua script. It declares the function of the operation.
    pub lua_script: String,
}
