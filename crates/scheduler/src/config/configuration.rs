//! The configuration file's types, in the shape that users of kube-scheduler know.
//!
//! Every field that a flag can set may be absent: then the flag's value counts. What is here is checked for its
//! shape alone; names of plugins and their arguments are checked by [`crate::framework::profile`].

use berth_core::Point;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::extender::config::ExtenderConfig;

/// The only version so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// May still change.
    #[default]
    #[serde(rename = "scheduler.config.berth/v1alpha1")]
    V1Alpha1,
}

/// The kind of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// A configuration of the scheduler.
    #[default]
    SchedulerConfiguration,
}

/// Configuration of Berth's scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulerConfiguration {
    /// `scheduler.config.berth/v1alpha1`
    pub api_version: ApiVersion,
    /// `SchedulerConfiguration`
    pub kind: Kind,
    /// Leader election among schedulers of the same lease.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_default"
    )]
    pub leader_election: LeaderElection,
    /// How the control plane is reached.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_default"
    )]
    pub client_connection: ClientConnection,
    /// Address that serves /healthz, /livez, /readyz and /configz, as `:10351`; `0` turns it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_probe_bind_address: Option<String>,
    /// Address that serves /metrics, as `:8080`; `0` turns it off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_bind_address: Option<String>,
    /// The profiles, each a scheduler of its own with its own name and plugins. Without any, there is one that
    /// answers to `default-scheduler` with all in-tree plugins.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub profiles: Vec<ProfileConfig>,
    /// HTTP extenders, asked by every profile in this order.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extenders: Vec<ExtenderConfig>,
}

/// Leader election among schedulers of the same lease. Durations are written as `15s` or `1m30s`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaderElection {
    /// Whether a leader is elected before anything is scheduled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<bool>,
    /// How long standbys wait before they take over from a leader that is not heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<String>,
    /// How long the leader tries to renew its lease before it gives up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<String>,
    /// How often candidates try to take or renew the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<String>,
    /// The kind of lock: there are leases only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_lock: Option<ResourceLock>,
    /// Name of the lease; a second scheduler needs its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Namespace of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_namespace: Option<String>,
}

/// The kind of lock of the leader election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResourceLock {
    /// A Lease of coordination.k8s.io.
    #[default]
    Leases,
}

/// How the control plane is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConnection {
    /// Path to a kubeconfig file of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Requests to the API server each second; 0 or less means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<f32>,
    /// Requests to the API server that may be sent at once; 0 or less means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}

/// A profile: a scheduler of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileConfig {
    /// The profile takes the bindings whose `spec.schedulerName` says so. Only a lone profile may leave it out:
    /// it is `default-scheduler` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scheduler_name: Option<String>,
    /// Which plugins run at which extension points.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_default"
    )]
    pub plugins: PluginsConfig,
    /// Arguments of plugins.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub plugin_config: Vec<PluginConfig>,
}

macro_rules! plugins_config {
    ($($(#[$doc:meta])* $field:ident $name:literal: $point:ident),+ $(,)?) => {
        /// Which plugins run at which extension points: those of `multiPoint` at every point that they serve,
        /// those of a point at that point alone.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct PluginsConfig {
            /// Plugins at every point that they serve. The in-tree plugins come first here, unless they are
            /// disabled.
            #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
            pub multi_point: PointConfig,
            $($(#[$doc])*
            #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
            pub $field: PointConfig,)+
        }

        /// The points that a profile has plugins for, in the order of a cycle, each with its name in the file.
        pub const POINTS: [(Point, &str); 14] = [$((Point::$point, $name)),+];

        impl PluginsConfig {
            /// What is said of one point. Nothing is said of points that are no plugins' choice.
            pub fn point(&self, point: Point) -> &PointConfig {
                const NOTHING: &PointConfig = &PointConfig {
                    enabled: Vec::new(),
                    disabled: Vec::new(),
                };
                match point {
                    $(Point::$point => &self.$field,)+
                    Point::NormalizeScore | Point::Estimate => NOTHING,
                }
            }
        }
    };
}

plugins_config! {
    /// May a binding be scheduled at all yet?
    pre_enqueue "preEnqueue": PreEnqueue,
    /// In which order are bindings scheduled? Exactly one, the same in all profiles.
    queue_sort "queueSort": QueueSort,
    /// Once for each binding, before any cluster is looked at.
    pre_filter "preFilter": PreFilter,
    /// Which clusters can take the binding?
    filter "filter": Filter,
    /// None can: what has to go?
    post_filter "postFilter": PostFilter,
    /// Once for the clusters that passed.
    pre_score "preScore": PreScore,
    /// Which clusters are preferred?
    score "score": Score,
    /// Which clusters are used? Exactly one.
    select "select": Select,
    /// How many replicas does each get? Exactly one.
    assign "assign": Assign,
    /// Keeps books of decisions.
    reserve "reserve": Reserve,
    /// May the decision be stored now?
    permit "permit": Permit,
    /// Before the decision is stored.
    pre_bind "preBind": PreBind,
    /// Stores the decision. Berth's own writer is always the last.
    bind "bind": Bind,
    /// After the decision is stored.
    post_bind "postBind": PostBind,
}

/// Plugins at one extension point, or at all that they serve.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PointConfig {
    /// Plugins that run besides the default ones, in this order. A default plugin named here keeps its place
    /// and takes the weight given here.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub enabled: Vec<PluginRef>,
    /// Default plugins that do not run; `*` for all of them.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub disabled: Vec<PluginRef>,
}

/// A plugin by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginRef {
    /// The plugin's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What its scores are multiplied by; 0, and nothing, mean 1.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_default"
    )]
    pub weight: u32,
}

/// Arguments of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginConfig {
    /// The plugin's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What the plugin understands: its documentation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
}

impl PluginRef {
    /// A plugin without a weight of its own.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            weight: 0,
        }
    }
}

/// A field without a value, as `plugins:` alone, says nothing.
fn null_is_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
