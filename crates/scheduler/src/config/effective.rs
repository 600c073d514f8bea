//! The configuration that is in force: what the file, the flags and the defaults say together.
//!
//! It is logged at start and served at `/configz`; written to a file, it configures a scheduler in the same way.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use berth_api::well_known::DEFAULT_SCHEDULER;

use super::configuration::{
    ClientConnection, LeaderElection, ProfileConfig, ResourceLock, SchedulerConfiguration,
};
use crate::extender::config::ExtenderConfig;
use crate::flags::SchedulerArgs;

/// What flags and file say of everything but profiles and extenders.
pub(crate) fn process(args: &SchedulerArgs) -> SchedulerConfiguration {
    SchedulerConfiguration {
        leader_election: LeaderElection {
            leader_elect: Some(args.election.leader_elect),
            lease_duration: Some(text_of(args.election.leader_elect_lease_duration)),
            renew_deadline: Some(text_of(args.election.leader_elect_renew_deadline)),
            retry_period: Some(text_of(args.election.leader_elect_retry_period)),
            resource_lock: Some(ResourceLock::Leases),
            resource_name: Some(args.leader_elect_resource_name.clone()),
            resource_namespace: Some(args.election.leader_elect_resource_namespace.clone()),
        },
        client_connection: ClientConnection {
            kubeconfig: args
                .kubeconfig
                .as_ref()
                .map(|path| path.display().to_string()),
            qps: Some(args.kube_api_qps),
            burst: Some(args.kube_api_burst),
        },
        health_probe_bind_address: Some(args.health_probe_bind_address.to_string()),
        metrics_bind_address: Some(args.metrics_bind_address.to_string()),
        ..SchedulerConfiguration::default()
    }
}

/// A duration as Go reads it.
fn text_of(duration: Duration) -> String {
    format!("{duration:?}")
}

/// The configuration that is in force, shared with those who show it. It changes with the ConfigMap.
#[derive(Clone, Debug, Default)]
pub struct Effective(Arc<ArcSwap<SchedulerConfiguration>>);

impl Effective {
    /// Before profiles are known.
    pub fn new(process: SchedulerConfiguration) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(process)))
    }

    /// Other profiles and extenders are in force now.
    pub fn set(&self, profiles: Vec<ProfileConfig>, extenders: Vec<ExtenderConfig>) {
        let process = SchedulerConfiguration::clone(&self.0.load());
        self.0.store(Arc::new(SchedulerConfiguration {
            profiles,
            extenders,
            ..process
        }));
    }

    /// The name of the first profile in force.
    pub fn first_name(&self) -> String {
        let shown = self.0.load();
        let first = shown.profiles.first();
        let name = first.and_then(|profile| profile.scheduler_name.clone());
        name.unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned())
    }

    /// The configuration as YAML, for the log. Secrets are left out.
    pub fn yaml(&self) -> String {
        serde_saphyr::to_string(&self.shown()).unwrap_or_else(|error| error.to_string())
    }

    /// The configuration under its group, as `/configz` serves it. Secrets are left out.
    pub fn json(&self) -> String {
        serde_json::json!({ "scheduler.config.berth": self.shown() }).to_string()
    }

    fn shown(&self) -> SchedulerConfiguration {
        let mut shown = SchedulerConfiguration::clone(&self.0.load());
        for tls in shown
            .extenders
            .iter_mut()
            .filter_map(|extender| extender.tls_config.as_mut())
        {
            if !tls.key_data.is_empty() {
                "REDACTED".clone_into(&mut tls.key_data);
            }
        }
        shown
    }
}
