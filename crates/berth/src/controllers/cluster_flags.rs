//! Flags of the controllers that manage Cluster objects: the cluster controller and the cluster status controller.

use std::time::Duration;

use berth_api::feature_gates::EngineGates;
use berth_apimachinery::go_bool::go_bool;
use berth_component_base::go_duration::go_duration;
use berth_controllers::cluster::HeartbeatOptions;
use berth_controllers::cluster_status::ClusterStatusOptions;
use clap::Args;

/// Flags of the cluster controller and the cluster status controller, with Karmada's names and defaults.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// Interval between collections of the cluster status
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub cluster_status_update_frequency: Duration,

    /// Time for which a cluster must be reachable to become ready again
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go_duration)]
    pub cluster_success_threshold: Duration,

    /// Time for which a cluster must be unreachable to become not ready
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go_duration)]
    pub cluster_failure_threshold: Duration,

    /// Interval between checks for silent Pull agents
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    pub cluster_monitor_period: Duration,

    /// Maximum silence of a Pull agent before its cluster becomes not ready
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = go_duration)]
    pub cluster_monitor_grace_period: Duration,

    /// Maximum silence of a Pull agent that has never posted a status
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = go_duration)]
    pub cluster_startup_grace_period: Duration,

    /// Watch nodes and pods of members, and report their resources and models in the cluster status
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub enable_cluster_resource_modeling: bool,
}

impl Default for ClusterArgs {
    fn default() -> Self {
        let options = ClusterStatusOptions::default();
        let heartbeat = HeartbeatOptions::default();
        Self {
            cluster_status_update_frequency: options.update_frequency,
            cluster_success_threshold: options.success_threshold,
            cluster_failure_threshold: options.failure_threshold,
            cluster_monitor_period: heartbeat.monitor_period,
            cluster_monitor_grace_period: heartbeat.grace_period,
            cluster_startup_grace_period: heartbeat.startup_grace_period,
            enable_cluster_resource_modeling: options.resource_modeling,
        }
    }
}

impl ClusterArgs {
    /// Returns the options of the cluster controller.
    pub(super) fn heartbeat_options(&self) -> HeartbeatOptions {
        HeartbeatOptions {
            monitor_period: self.cluster_monitor_period.max(Duration::from_millis(1)),
            grace_period: self.cluster_monitor_grace_period,
            startup_grace_period: self.cluster_startup_grace_period,
        }
    }

    /// Returns the options of the cluster status controller.
    pub(super) fn status_options(&self, gates: EngineGates) -> ClusterStatusOptions {
        ClusterStatusOptions {
            update_frequency: self
                .cluster_status_update_frequency
                .max(Duration::from_millis(1)),
            success_threshold: self.cluster_success_threshold,
            failure_threshold: self.cluster_failure_threshold,
            resource_modeling: self.enable_cluster_resource_modeling,
            node_pools: gates.node_pool_estimate,
        }
    }
}
