//! `berth estimator`: counts the replicas that fit into one member cluster, for the schedulers of its control plane.
//! The command replaces karmada-scheduler-estimator.

pub mod flags;

use berth_component_base::kube_client::{self, ConnectError, Target, Timeouts};
use berth_component_base::program::ignored_flags;
use berth_component_base::user_agent::Component;
use berth_estimator::StartError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::flags::EstimatorArgs;
pub(crate) use self::flags::rules;

/// The reason why `berth estimator` cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EstimatorError {
    /// No client of the member can be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The estimator cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Answers requests for estimates until the token is cancelled.
///
/// # Errors
/// When the estimator cannot start.
pub async fn run(args: EstimatorArgs, cancel: CancellationToken) -> Result<(), EstimatorError> {
    let gates = args.feature_gates.ineffective();
    ignored_flags::log_ineffective(&[args.without_effect.names(), &gates].concat());
    if args.tls_is_incomplete() {
        tracing::warn!(
            "the server uses plain text, and verifies no clients: TLS needs --grpc-auth-cert-file and --grpc-auth-key-file"
        );
    }
    let target = Target {
        kubeconfig: args
            .kubeconfig
            .clone()
            .filter(|path| !path.as_os_str().is_empty()),
        master: args.master.clone().filter(|url| !url.is_empty()),
        ..Target::default()
    };
    let mut config = kube_client::config(&target).await?;
    kube_client::limit_silence(&mut config, Timeouts::default());
    let (client, requests) = kube_client::counted_client(config, &target, Component::Estimator)?;
    // No caller needs the addresses, which the log contains.
    let (addresses, _) = watch::channel(None);
    let options = args.options();
    berth_estimator::run(options, client, Some(requests), addresses, cancel).await?;
    Ok(())
}
