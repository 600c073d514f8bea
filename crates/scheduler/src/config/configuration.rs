//! The types of the configuration file, whose structure follows the configuration file of kube-scheduler.
//!
//! A field is optional if a flag sets the same option. If the field is absent, the value of the flag applies.
//! [`crate::config::plugin_lists`] validates the names of plugins. The plugins validate their arguments.

use berth_engine::Point;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::extender::config::ExtenderConfig;

/// The versions of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// The first version, which may still change.
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
    /// Connection to the control plane.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "is_default"
    )]
    pub client_connection: ClientConnection,
    /// Address that serves /healthz, /livez, /readyz and, without `--metrics-secure`, /configz, for example `:10351`;
    /// `0` disables it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_probe_bind_address: Option<String>,
    /// Address that serves /metrics, for example `:8080`; `0` disables it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics_bind_address: Option<String>,
    /// The profiles. Each acts as a separate scheduler with its own name and plugins. If empty, there is one profile
    /// with the name of `--scheduler-name` and the plugins of `--plugins`.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub profiles: Vec<ProfileConfig>,
    /// HTTP extenders, which every profile calls in this order.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extenders: Vec<ExtenderConfig>,
}

/// Leader election among schedulers of the same lease. Durations have the form `15s` or `1m30s`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LeaderElection {
    /// Elects a leader before scheduling anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<bool>,
    /// Time after the last renewal until a standby takes over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<String>,
    /// Time for which the leader tries to renew its lease before it stops leading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<String>,
    /// Interval between attempts to acquire or renew the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<String>,
    /// Kind of the lock. Only leases are supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_lock: Option<ResourceLock>,
    /// Name of the lease. Each scheduler deployment needs its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Namespace of the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_namespace: Option<String>,
}

/// Kind of the lock of the leader election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ResourceLock {
    /// A Lease of coordination.k8s.io.
    #[default]
    Leases,
}

/// Connection to the control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientConnection {
    /// Path to a kubeconfig file of the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Requests to the API server per second; 0 or less means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qps: Option<f32>,
    /// Burst of requests to the API server; 0 or less means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}

/// A profile, which acts as a separate scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileConfig {
    /// Name of the profile, which schedules the bindings with this `spec.schedulerName`. Optional if there is only one
    /// profile. The default is `default-scheduler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub scheduler_name: Option<String>,
    /// Plugins by extension point.
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
        /// Plugins by extension point. Plugins of `multiPoint` run at every point that they implement. Other plugins
        /// run only at the point that lists them.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct PluginsConfig {
            /// Plugins at every point that they implement. The default plugins come first, unless they are disabled.
            #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
            pub multi_point: PointConfig,
            $($(#[$doc])*
            #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
            pub $field: PointConfig,)+
        }

        /// The extension points that a profile can configure, in the order of a cycle, with their names in the file.
        pub(crate) const POINTS: [(Point, &str); 14] = [$((Point::$point, $name)),+];

        impl PluginsConfig {
            /// Returns the plugins of an extension point. The result is empty for a point that cannot be configured.
            pub fn point(&self, point: Point) -> &PointConfig {
                const EMPTY: &PointConfig = &PointConfig {
                    enabled: Vec::new(),
                    disabled: Vec::new(),
                };
                match point {
                    $(Point::$point => &self.$field,)+
                    Point::NormalizeScore | Point::Estimate => EMPTY,
                }
            }
        }
    };
}

plugins_config! {
    /// Holds bindings back before they are scheduled.
    pre_enqueue "preEnqueue": PreEnqueue,
    /// Orders the bindings in the queue. Exactly one plugin, the same in all profiles.
    queue_sort "queueSort": QueueSort,
    /// Runs once for each binding, before its clusters are filtered.
    pre_filter "preFilter": PreFilter,
    /// Rejects clusters that cannot run the binding.
    filter "filter": Filter,
    /// Selects victims to evict if no cluster passed.
    post_filter "postFilter": PostFilter,
    /// Runs once for the clusters that passed.
    pre_score "preScore": PreScore,
    /// Scores the clusters.
    score "score": Score,
    /// Selects the clusters. Exactly one plugin.
    select "select": Select,
    /// Assigns replicas to the clusters. Exactly one plugin.
    assign "assign": Assign,
    /// Tracks the resources that decisions reserve.
    reserve "reserve": Reserve,
    /// Delays or rejects a decision before it is stored.
    permit "permit": Permit,
    /// Runs before the decision is stored.
    pre_bind "preBind": PreBind,
    /// Stores the decision. Berth's own writer is always last.
    bind "bind": Bind,
    /// Runs after the decision is stored.
    post_bind "postBind": PostBind,
}

/// Plugins at one extension point. In `multiPoint`, plugins at all extension points that they implement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PointConfig {
    /// Plugins that run in addition to the default ones, in this order. A default plugin in this list keeps its
    /// position and gets the weight of its entry here.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub enabled: Vec<PluginRef>,
    /// Default plugins to disable; `*` for all of them.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub disabled: Vec<PluginRef>,
}

/// A reference to a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginRef {
    /// The plugin's name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Factor of the plugin's scores. 0 or absent means 1.
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
    /// Arguments, as documented by the plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
}

impl PluginRef {
    /// Returns a reference with the default weight.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            weight: 0,
        }
    }
}

/// Treats a field without a value, such as a bare `plugins:`, as absent.
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
