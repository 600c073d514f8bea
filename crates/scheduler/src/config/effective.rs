//! The configuration that the scheduler logs at start and serves at `/configz`: the file, the flags and the defaults,
//! merged. `options` has the settings with which the scheduler runs.
//!
//! Secrets are redacted. A user can save the configuration as the configuration file of another scheduler.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use berth_api::well_known::DEFAULT_SCHEDULER;

use super::configuration::{
    ClientConnection, LeaderElection, ProfileConfig, ResourceLock, SchedulerConfiguration,
};
use crate::config::flags::SchedulerArgs;
use crate::extender::config::ExtenderConfig;

/// Returns the effective configuration without profiles and extenders.
pub(crate) fn without_profiles(args: &SchedulerArgs) -> SchedulerConfiguration {
    SchedulerConfiguration {
        leader_election: LeaderElection {
            leader_elect: Some(args.election.leader_elect),
            lease_duration: Some(go_text(args.election.leader_elect_lease_duration)),
            renew_deadline: Some(go_text(args.election.leader_elect_renew_deadline)),
            retry_period: Some(go_text(args.election.leader_elect_retry_period)),
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

/// Formats a duration so that Go can parse it.
fn go_text(duration: Duration) -> String {
    format!("{duration:?}")
}

/// The effective configuration, shared with the HTTP server. A change of the watched ConfigMap replaces its profiles
/// and extenders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effective(Arc<ArcSwap<SchedulerConfiguration>>);

impl Effective {
    /// Creates an effective configuration that has no profiles and extenders yet.
    pub(crate) fn new(configuration: SchedulerConfiguration) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(configuration)))
    }

    /// Replaces the profiles and extenders.
    pub(crate) fn set(&self, profiles: Vec<ProfileConfig>, extenders: Vec<ExtenderConfig>) {
        let current = SchedulerConfiguration::clone(&self.0.load());
        self.0.store(Arc::new(SchedulerConfiguration {
            profiles,
            extenders,
            ..current
        }));
    }

    /// Returns the name of the first profile.
    pub(crate) fn first_name(&self) -> String {
        let config = self.0.load();
        let first = config.profiles.first();
        let name = first.and_then(|profile| profile.scheduler_name.clone());
        name.unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned())
    }

    /// Renders the configuration as YAML, for the log. Secrets are redacted.
    pub(crate) fn yaml(&self) -> String {
        serde_saphyr::to_string(&self.redacted()).unwrap_or_else(|error| error.to_string())
    }

    /// Renders the configuration as JSON for `/configz`, as the value of the key `scheduler.config.berth`. Secrets are
    /// redacted.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({ "scheduler.config.berth": self.redacted() }).to_string()
    }

    /// Returns the configuration as JSON in the format of the configuration file. Secrets are redacted.
    pub(crate) fn document(&self) -> serde_json::Value {
        serde_json::json!(self.redacted())
    }

    fn redacted(&self) -> SchedulerConfiguration {
        let mut config = SchedulerConfiguration::clone(&self.0.load());
        redact(&mut config.extenders);
        config
    }
}

/// Returns the profiles and extenders, which affect decisions, as JSON in the format of the configuration file. Secrets
/// are redacted.
pub(crate) fn decision_document(
    profiles: &[ProfileConfig],
    extenders: &[ExtenderConfig],
) -> serde_json::Value {
    let mut config = SchedulerConfiguration {
        profiles: profiles.to_vec(),
        extenders: extenders.to_vec(),
        ..SchedulerConfiguration::default()
    };
    redact(&mut config.extenders);
    serde_json::json!(config)
}

fn redact(extenders: &mut [ExtenderConfig]) {
    for tls in extenders
        .iter_mut()
        .filter_map(|extender| extender.tls_config.as_mut())
    {
        if !tls.key_data.is_empty() {
            "REDACTED".clone_into(&mut tls.key_data);
        }
    }
}
