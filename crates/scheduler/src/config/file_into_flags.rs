//! The copy of a configuration file's settings into the flags. A flag that the user sets explicitly overrides the file.

use std::path::PathBuf;
use std::time::Duration;

use super::configuration::SchedulerConfiguration;
use super::document::{ConfigError, Document};
use crate::config::flags::SchedulerArgs;
use berth_component_base::bind_address::BindAddress;
use berth_component_base::go_duration::go_duration;

/// Copies the settings of the file, except profiles and extenders, into the flags that the user has not set explicitly.
///
/// # Errors
/// If a duration or an address is invalid.
pub(crate) fn file_into_flags(
    args: &mut SchedulerArgs,
    document: &Document,
    configuration: &SchedulerConfiguration,
) -> Result<(), ConfigError> {
    let explicit = args.explicit.clone();
    let election = &configuration.leader_election;
    let client = &configuration.client_connection;
    let duration = |path: &str, text: &Option<String>| -> Result<Option<Duration>, ConfigError> {
        let Some(text) = text else { return Ok(None) };
        let duration = go_duration(text);
        duration.map(Some).map_err(|message| {
            document.error(
                &format!("leaderElection.{path}"),
                format!("{text:?}: {message}"),
            )
        })
    };
    let address = |path: &str, text: &Option<String>| -> Result<Option<BindAddress>, ConfigError> {
        let Some(text) = text else { return Ok(None) };
        let address = text.parse::<BindAddress>();
        address
            .map(Some)
            .map_err(|message| document.error(path, format!("{text:?}: {message}")))
    };
    macro_rules! set {
        ($($flag:ident $(of $part:ident)?: $configured:expr),+ $(,)?) => {
            $(if !explicit.contains(stringify!($flag)) && let Some(value) = $configured {
                args$(.$part)?.$flag = value.into();
            })+
        };
    }
    set! {
        leader_elect of election: election.leader_elect,
        leader_elect_lease_duration of election: duration("leaseDuration", &election.lease_duration)?,
        leader_elect_renew_deadline of election: duration("renewDeadline", &election.renew_deadline)?,
        leader_elect_retry_period of election: duration("retryPeriod", &election.retry_period)?,
        leader_elect_resource_name: election.resource_name.clone(),
        leader_elect_resource_namespace of election: election.resource_namespace.clone(),
        kubeconfig: client.kubeconfig.clone().filter(|path| !path.is_empty()).map(PathBuf::from),
        kube_api_qps: client.qps,
        kube_api_burst: client.burst,
        health_probe_bind_address: address("healthProbeBindAddress", &configuration.health_probe_bind_address)?,
        metrics_bind_address: address("metricsBindAddress", &configuration.metrics_bind_address)?,
    }
    Ok(())
}
