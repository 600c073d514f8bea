//! The command `berth controllers`. It runs Berth's controllers in place of karmada-controller-manager, for a control
//! plane that already has an API server.
//!
//! Both programs use the same Lease, so that only one of them works at a time.

pub mod cluster_flags;
pub mod controller_set;
mod election;
mod endpoints;
pub mod failover_flags;
pub mod ignored_flags;
mod leader_gate;
pub mod propagation_flags;
pub mod quota_flags;
pub mod selection;

use std::path::PathBuf;

use berth_api::feature_gates::{self, FeatureGates};
use berth_component_base::kube_client::{self, ConnectError, Target};
use berth_component_base::leader_election::LeaseOptionsError;
use berth_component_base::leader_election::flags::ElectionFlags;
use berth_component_base::program::ignored_flags::{AcceptedFlags, log_ineffective};
use berth_component_base::user_agent::Component;
use berth_controllers::detector::{DetectorOptions, OptionsError};
use berth_controllers::monitor::Monitor;
use berth_telemetry::{ExportError, TracingArgs};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use futures::future::try_join_all;
use kube::client::ClientBuilder;
use tokio_util::sync::CancellationToken;

use self::controller_set::{ControllerFlags, ControllerSet, ControllerSetError};
use self::election::{Term, lead};
use self::endpoints::{EndpointError, EndpointFlags, ProcessState};
use self::failover_flags::MemberKind;
use self::ignored_flags::WithoutEffect;
use self::leader_gate::LeaderGate;
use crate::control_plane::kubeconfig_of;

/// Flags of the detector, the controller that claims objects for policies. `berth up` has the same flags.
#[derive(Args, Clone, Debug)]
pub struct DetectorArgs {
    /// APIs that are never propagated: GROUP, GROUP/VERSION or GROUP/VERSION/KIND,KIND; separated by `;`
    #[arg(
        long,
        value_name = "LIST",
        default_value = "",
        hide_default_value = true
    )]
    pub skipped_propagating_apis: String,

    /// Namespaces that are never propagated, as regular expressions over the whole name
    #[arg(
        long,
        value_name = "REGEX",
        default_value = "kube-.*",
        value_delimiter = ','
    )]
    pub skipped_propagating_namespaces: Vec<String>,
}

impl Default for DetectorArgs {
    fn default() -> Self {
        Self {
            skipped_propagating_apis: String::new(),
            skipped_propagating_namespaces: vec!["kube-.*".to_owned()],
        }
    }
}

impl DetectorArgs {
    /// Returns the options of the detector.
    ///
    /// # Errors
    /// Fails if a flag is invalid.
    pub fn options(&self, gates: FeatureGates) -> Result<DetectorOptions, OptionsError> {
        let options = DetectorOptions::parse(
            &self.skipped_propagating_apis,
            &self.skipped_propagating_namespaces,
        )?;
        Ok(DetectorOptions { gates, ..options })
    }
}

/// Flags of `berth controllers`.
#[derive(Args, Clone, Debug)]
pub struct ControllersArgs {
    /// Path to a kubeconfig file of the control plane
    ///
    /// Without this flag, the sources are, in this order: KUBECONFIG, the kubeconfig of `berth up`, ~/.kube/config and
    /// the in-cluster configuration.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Feature gates, as for karmada-controller-manager
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse)]
    feature_gates: FeatureGates,

    #[command(flatten)]
    election: ElectionFlags,

    /// Name of the lease; the default is the lease of karmada-controller-manager, so that only one of the two works at
    /// a time
    #[arg(
        long,
        value_name = "NAME",
        default_value = "karmada-controller-manager"
    )]
    leader_elect_resource_name: String,

    #[command(flatten)]
    endpoints: EndpointFlags,

    #[command(flatten)]
    controllers: ControllerFlags,

    #[command(flatten)]
    tracing: TracingArgs,

    #[command(flatten)]
    without_effect: AcceptedFlags<WithoutEffect>,
}

/// An error that prevents the start of the controllers or ends them.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A flag of the detector is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Traces cannot be exported.
    #[error(transparent)]
    Tracing(#[from] ExportError),
    /// The flags of leader election contradict each other.
    #[error(transparent)]
    Lease(#[from] LeaseOptionsError),
    /// This process lost the leadership.
    #[error("lost the leader election")]
    LeadershipLost,
    /// The endpoints for probes and metrics cannot be served.
    #[error(transparent)]
    Endpoints(#[from] EndpointError),
    /// A controller failed.
    #[error(transparent)]
    Controllers(#[from] ControllerSetError),
}

/// Runs the controllers until the token is cancelled. Unless leader election is disabled, waits for the leadership
/// first.
///
/// # Errors
/// Fails if the controllers cannot start, a controller fails, or the leadership is lost. The caller then ends the
/// process.
pub async fn run(args: ControllersArgs, cancel: CancellationToken) -> Result<(), ControllersError> {
    let version = env!("CARGO_PKG_VERSION");
    let export = berth_telemetry::start(&args.tracing, "berth-controllers", version)?;
    let ran = elect_and_run(args, cancel).await;
    export.finish().await;
    ran
}

async fn elect_and_run(
    args: ControllersArgs,
    cancel: CancellationToken,
) -> Result<(), ControllersError> {
    let controllers = ControllerSet::new(&args.controllers, args.feature_gates, MemberKind::Real)?;
    let gates = args.feature_gates.ineffective_for_controllers();
    log_ineffective(&[args.without_effect.names(), &gates].concat());
    let name = args.leader_elect_resource_name.clone();
    let lease = args.election.clone().lease(name)?;
    // As in Karmada, an empty value means that the flag is unset.
    let master = args.master.filter(|url| !url.is_empty());
    let kubeconfig = args.kubeconfig.filter(|path| !path.as_os_str().is_empty());
    let target = Target {
        // With --master, `$KUBECONFIG` and the kubeconfig of `berth up` are ignored.
        kubeconfig: match &master {
            Some(_) => kubeconfig,
            None => kubeconfig_of(kubeconfig),
        },
        context: None,
        master,
    };
    let config = kube_client::config(&target).await?;
    let (client, requests) = kube_client::counted_client(config, &target, Component::Controllers)?;
    let monitor = Monitor::default();
    let state = ProcessState::new(monitor.clone(), requests, args.leader_elect_resource_name);
    // The guard stops the endpoints when this function returns, which is after the controllers have stopped.
    let serving = CancellationToken::new();
    let _served = serving.clone().drop_guard();
    args.endpoints.serve(&state, &client, &serving).await?;
    let Some(lease) = lease else {
        state.set_leading(true);
        return Box::pin(run_controllers(client, controllers, monitor, cancel)).await;
    };
    let (inner, namespace) = (client.clone(), client.default_namespace().to_owned());
    let work = async |gate: LeaderGate, cancel| {
        let client = ClientBuilder::new(kube_client::over(inner), namespace)
            .with_layer(&gate)
            .build();
        state.set_leading(true);
        Box::pin(run_controllers(client, controllers, monitor, cancel)).await
    };
    let term = lead(client, lease, &cancel, work).await;
    state.set_leading(false);
    match term {
        Term::Never => Ok(()),
        Term::Worked(worked) => worked,
        Term::Lost => Err(ControllersError::LeadershipLost),
    }
}

async fn run_controllers(
    client: kube::Client,
    controllers: ControllerSet,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllersError> {
    // When a controller fails, the guard cancels the other controllers.
    let cancel = cancel.child_token();
    let _guard = cancel.clone().drop_guard();
    let components = controllers.components(&client, &monitor, &cancel);
    try_join_all(components.into_iter().map(|(_, run)| run)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_feature_gate_of_the_detector_sets_its_field() {
        let detector = |list: &str| {
            let gates = feature_gates::parse(list).unwrap();
            DetectorArgs::default().options(gates).unwrap().gates
        };
        assert_eq!(detector(""), FeatureGates::default());
        let list = "PropagationPolicyPreemption=true,PriorityBasedScheduling=false,\
                    ResourceQuotaEstimate=true,WorkloadAffinity=true,\
                    MultiplePodTemplatesScheduling=true,RoutineEvents=true";
        let mut expected = FeatureGates::default();
        expected.controllers.policy_preemption = true;
        expected.priority_based_scheduling = false;
        expected.controllers.resource_quota_estimate = true;
        expected.engine.multiple_pod_templates_scheduling = true;
        expected.engine.workload_affinity = true;
        expected.routine_events = true;
        assert_eq!(detector(list), expected);
    }
}
