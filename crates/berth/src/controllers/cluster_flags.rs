//! Flags of the cluster controllers.

use std::str::FromStr;
use std::time::Duration;

use berth_controllers::cluster::HeartbeatOptions;
use berth_controllers::cluster_status::ClusterStatusOptions;
use berth_scheduler::go_bool::go_bool;
use berth_scheduler::go_duration::go_duration;
use clap::Args;

/// Flags of the cluster controllers, with Karmada's names and defaults.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// Cluster controllers to run: `*` for all, NAME for one, -NAME for all but one; the names are `cluster` (execution
    /// namespaces, taints), `clusterStatus`, `namespace` (namespaces in members) and `unifiedAuth` (impersonation of
    /// users of `clusters/proxy` in members)
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Selection,

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
            controllers: Selection::default(),
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
    pub(super) fn status_options(&self) -> ClusterStatusOptions {
        ClusterStatusOptions {
            update_frequency: self
                .cluster_status_update_frequency
                .max(Duration::from_millis(1)),
            success_threshold: self.cluster_success_threshold,
            failure_threshold: self.cluster_failure_threshold,
            resource_modeling: self.enable_cluster_resource_modeling,
        }
    }
}

/// A cluster controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterController {
    /// Execution namespaces, taints, cleanup.
    Cluster,
    /// The status of Push clusters.
    ClusterStatus,
    /// Namespaces in members.
    Namespace,
    /// Impersonation of users of `clusters/proxy` in members.
    UnifiedAuth,
}

impl ClusterController {
    const ALL: [Self; 4] = [
        Self::Cluster,
        Self::ClusterStatus,
        Self::Namespace,
        Self::UnifiedAuth,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::ClusterStatus => "clusterStatus",
            Self::Namespace => "namespace",
            Self::UnifiedAuth => "unifiedAuth",
        }
    }
}

/// The selected controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection([bool; ClusterController::ALL.len()]);

impl Default for Selection {
    /// Selects all controllers.
    fn default() -> Self {
        Self([true; ClusterController::ALL.len()])
    }
}

impl Selection {
    /// No controllers.
    pub const NONE: Self = Self([false; ClusterController::ALL.len()]);

    pub(super) fn has(self, controller: ClusterController) -> bool {
        self.0[controller as usize]
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut selection = if words.contains(&"*") {
            Self::default()
        } else {
            Self::NONE
        };
        for word in words {
            let (name, wanted) = match word.strip_prefix('-') {
                Some(name) => (name, false),
                None => (word, true),
            };
            if matches!(name, "*" | "") {
                continue;
            }
            let known = ClusterController::ALL
                .into_iter()
                .find(|one| one.name() == name);
            let Some(controller) = known else {
                let names = ClusterController::ALL
                    .map(ClusterController::name)
                    .join(", ");
                return Err(format!(
                    "there is no controller {name:?}; the controllers are {names}"
                ));
            };
            selection.0[controller as usize] = wanted;
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_selects_as_in_karmada() {
        let all = Selection::default();
        let without = Selection([true, false, true, true]);
        let only = Selection([false, true, false, false]);
        for (text, expected) in [
            ("*", all),
            ("*,-clusterStatus", without),
            ("-clusterStatus,*", without),
            ("clusterStatus", only),
            ("", Selection::NONE),
            ("-cluster", Selection::NONE),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!(
            "*,nothing"
                .parse::<Selection>()
                .unwrap_err()
                .contains("nothing")
        );
    }
}
