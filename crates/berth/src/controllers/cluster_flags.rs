//! The controllers that look after Clusters, as `berth up` and `berth controllers` run them.

use std::str::FromStr;
use std::time::Duration;

use berth_controllers::cluster::HeartbeatOptions;
use berth_controllers::cluster_status::ClusterStatusOptions;
use berth_controllers::detector::DetectorOptions;
use berth_controllers::{cluster, cluster_status, namespace_sync, unified_auth};
use berth_scheduler::go_duration::go_duration;
use clap::Args;
use tokio_util::sync::CancellationToken;

/// What they are called where people look at what runs.
pub const NAME: &str = "cluster controllers";

/// Flags of the controllers that look after Clusters, with Karmada's names and defaults.
#[derive(Args, Clone, Debug)]
pub struct ClusterArgs {
    /// Which controllers of clusters run: `*` for all, NAME for one, -NAME for all but one; they are `cluster`
    /// (execution namespaces, taints), `clusterStatus`, `namespace` (namespaces get into all members) and `unifiedAuth`
    /// (users of `clusters/proxy` can be impersonated in members)
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub controllers: Choice,

    /// How often the status of clusters is collected
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub cluster_status_update_frequency: Duration,

    /// How long a cluster must have been reachable to be ready again
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go_duration)]
    pub cluster_success_threshold: Duration,

    /// How long a cluster must have been unreachable to be not ready
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go_duration)]
    pub cluster_failure_threshold: Duration,

    /// How often is looked for agents of Pull clusters that are silent
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    pub cluster_monitor_period: Duration,

    /// How long the agent of a Pull cluster may be silent before the cluster is not ready
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = go_duration)]
    pub cluster_monitor_grace_period: Duration,

    /// The same for one that has never posted a status
    #[arg(long, value_name = "DURATION", default_value = "1m0s", value_parser = go_duration)]
    pub cluster_startup_grace_period: Duration,
}

impl Default for ClusterArgs {
    fn default() -> Self {
        let options = ClusterStatusOptions::default();
        let heartbeat = HeartbeatOptions::default();
        Self {
            controllers: Choice::default(),
            cluster_status_update_frequency: options.update_frequency,
            cluster_success_threshold: options.success_threshold,
            cluster_failure_threshold: options.failure_threshold,
            cluster_monitor_period: heartbeat.monitor_period,
            cluster_monitor_grace_period: heartbeat.grace_period,
            cluster_startup_grace_period: heartbeat.startup_grace_period,
        }
    }
}

/// A controller of clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Execution namespaces, taints, farewell.
    Cluster,
    /// The status of Push clusters.
    ClusterStatus,
    /// Namespaces get into all members.
    Namespace,
    /// Users of `clusters/proxy` can be impersonated in members.
    UnifiedAuth,
}

impl Controller {
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

/// Which of the controllers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice([bool; Controller::ALL.len()]);

impl Default for Choice {
    /// All of them.
    fn default() -> Self {
        Self([true; Controller::ALL.len()])
    }
}

impl Choice {
    /// None of them.
    pub const NONE: Self = Self([false; Controller::ALL.len()]);

    fn has(self, controller: Controller) -> bool {
        self.0[controller as usize]
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut choice = if words.contains(&"*") {
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
            let known = Controller::ALL.into_iter().find(|one| one.name() == name);
            let Some(controller) = known else {
                let names = Controller::ALL.map(Controller::name).join(", ");
                return Err(format!(
                    "there is no controller {name:?}; the controllers are {names}"
                ));
            };
            choice.0[controller as usize] = wanted;
        }
        Ok(choice)
    }
}

/// Runs those that were chosen until the token is cancelled. The namespaces that the detector skips stay.
pub async fn run(
    client: kube::Client,
    args: ClusterArgs,
    detector: &DetectorOptions,
    cancel: CancellationToken,
) {
    let skipped = detector.skipped_namespaces.clone();
    let options = ClusterStatusOptions {
        update_frequency: args
            .cluster_status_update_frequency
            .max(Duration::from_millis(1)),
        success_threshold: args.cluster_success_threshold,
        failure_threshold: args.cluster_failure_threshold,
    };
    let heartbeat = HeartbeatOptions {
        monitor_period: args.cluster_monitor_period.max(Duration::from_millis(1)),
        grace_period: args.cluster_monitor_grace_period,
        startup_grace_period: args.cluster_startup_grace_period,
    };
    let life = async {
        if args.controllers.has(Controller::Cluster) {
            Box::pin(cluster::run(client.clone(), heartbeat, cancel.clone())).await;
        }
    };
    let status = async {
        if args.controllers.has(Controller::ClusterStatus) {
            cluster_status::run(client.clone(), options, cancel.clone()).await;
        }
    };
    let namespaces = async {
        if args.controllers.has(Controller::Namespace) {
            namespace_sync::run(client.clone(), skipped, cancel.clone()).await;
        }
    };
    let impersonation = async {
        if args.controllers.has(Controller::UnifiedAuth) {
            unified_auth::run(client.clone(), cancel.clone()).await;
        }
    };
    // Keeps the component running where none was chosen.
    tokio::join!(life, status, namespaces, impersonation, cancel.cancelled());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_chooses_as_in_karmada() {
        let all = Choice::default();
        let without = Choice([true, false, true, true]);
        let only = Choice([false, true, false, false]);
        for (text, expected) in [
            ("*", all),
            ("*,-clusterStatus", without),
            ("-clusterStatus,*", without),
            ("clusterStatus", only),
            ("", Choice::NONE),
            ("-cluster", Choice::NONE),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!(
            "*,nothing"
                .parse::<Choice>()
                .unwrap_err()
                .contains("nothing")
        );
    }
}
