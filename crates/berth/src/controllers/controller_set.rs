//! The set of controllers that `berth controllers` and `berth up` run. [`ControllerSet`] reads the options of the
//! controllers from the flags, and groups the controllers into [`Component`]s. `berth status` shows the names of the
//! components.
//!
//! This module does not know which of the two commands runs the set, or where the API server is.

use berth_api::feature_gates::{ControllerGates, FeatureGates};
use berth_controllers::cluster::HeartbeatOptions;
use berth_controllers::cluster_status::{self, ClusterStatusOptions};
use berth_controllers::detector::{self, DetectorOptions, OptionsError};
use berth_controllers::failover::{self, FailoverOptions};
use berth_controllers::federated_quota::{self, QuotaOptions};
use berth_controllers::monitor::Monitor;
use berth_controllers::propagation::{self, PropagationOptions, PropagationParts};
use berth_controllers::recent_templates::RecentTemplates;
use berth_controllers::{
    ControllerError, cluster, dependencies, deployment_replicas_syncer, hpa_scale_target_marker,
    namespace_sync, taint_policy, unified_auth, workload_rebalancer,
};
use clap::Args;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::DetectorArgs;
use super::cluster_flags::ClusterArgs;
use super::failover_flags::{FailoverArgs, MemberKind};
use super::propagation_flags::PropagationArgs;
use super::quota_flags::QuotaArgs;
use super::selection::{Controller, Selection};

const DETECTOR: &str = "detector";
const PROPAGATION: &str = "propagation";
const BINDINGS: &str = "binding controllers";
const CLUSTERS: &str = "cluster controllers";
const FAILOVER: &str = "failover";

/// Names of the components, in the order in which they are displayed.
pub const NAMES: [&str; 5] = [DETECTOR, PROPAGATION, BINDINGS, CLUSTERS, FAILOVER];

/// Flags of the controllers.
#[derive(Args, Clone, Debug, Default)]
pub struct ControllerFlags {
    /// Controllers to run: `*` enables the default controllers, NAME enables one controller, -NAME disables one
    ///
    /// The names are applicationFailover, binding, bindingStatus, cluster, clusterStatus, clustertaintpolicy,
    /// deploymentReplicasSyncer, execution, federatedResourceQuotaEnforcement, federatedResourceQuotaStatus,
    /// federatedResourceQuotaSync, gracefulEviction, hpaScaleTargetMarker, namespace, unifiedAuth and
    /// workloadRebalancer. `*` omits deploymentReplicasSyncer and hpaScaleTargetMarker. Karmada's other names are
    /// accepted without effect.
    #[arg(
        long = "controllers",
        value_name = "LIST",
        default_value = "*",
        allow_hyphen_values = true
    )]
    pub selection: Selection,

    /// Flags of the detector.
    #[command(flatten)]
    pub detector: DetectorArgs,

    /// Flags of the failover controllers.
    #[command(flatten)]
    pub failover: FailoverArgs,

    /// Flags of the cluster controllers.
    #[command(flatten)]
    pub clusters: ClusterArgs,

    /// Flags of the propagation controllers.
    #[command(flatten)]
    pub propagation: PropagationArgs,

    /// Flags of the controllers of quotas.
    #[command(flatten)]
    pub quotas: QuotaArgs,
}

/// An error of a controller. It ends the controller.
#[derive(Debug, thiserror::Error)]
pub enum ControllerSetError {
    /// A controller ended with this error.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}

/// A group of controllers: its name in [`NAMES`], and the future that runs its controllers until the token is
/// cancelled.
pub type Component = (
    &'static str,
    BoxFuture<'static, Result<(), ControllerSetError>>,
);

/// The options of all controllers, and the selection of the controllers that run.
#[derive(Clone, Debug)]
pub struct ControllerSet {
    detector: DetectorOptions,
    propagation: PropagationOptions,
    selection: Selection,
    heartbeat: HeartbeatOptions,
    cluster_status: ClusterStatusOptions,
    failover: FailoverOptions,
    taint_policies: taint_policy::Effect,
    quotas: QuotaOptions,
    gates: ControllerGates,
}

impl ControllerSet {
    /// Reads the options of all controllers from the flags.
    ///
    /// # Errors
    /// Fails if a flag is invalid.
    pub fn new(
        flags: &ControllerFlags,
        gates: FeatureGates,
        member_kind: MemberKind,
    ) -> Result<Self, OptionsError> {
        let (controllers, selection) = (gates.controllers, flags.selection.clone());
        selection.log_names_without_effect();
        let failover = flags.failover.options(controllers, member_kind);
        let taint_eviction = failover
            .taint_eviction
            .filter(|_| selection.has(Controller::Cluster));
        let taint_policies = if !member_kind.enables_failover(controllers) {
            taint_policy::Effect::GateIsOff
        } else if !selection.has(Controller::ClusterTaintPolicy) {
            taint_policy::Effect::ControllerIsOff
        } else if taint_eviction.is_none() {
            taint_policy::Effect::Taints
        } else {
            taint_policy::Effect::TaintsAndEvictions
        };
        Ok(Self {
            detector: flags.detector.options(gates)?,
            propagation: PropagationOptions {
                parts: PropagationParts {
                    works: selection.has(Controller::Binding),
                    binding_status: selection.has(Controller::BindingStatus),
                    members: selection.has(Controller::Execution),
                },
                migration_timeout: gates
                    .controllers
                    .graceful_migration
                    .then_some(flags.failover.graceful_eviction_timeout),
                ..flags.propagation.options(gates)
            },
            heartbeat: flags.clusters.heartbeat_options(),
            cluster_status: flags.clusters.status_options(gates.engine),
            failover: FailoverOptions {
                taint_eviction,
                application_failover: selection.has(Controller::ApplicationFailover),
                graceful_eviction: failover.graceful_eviction
                    && selection.has(Controller::GracefulEviction),
                ..failover
            },
            taint_policies,
            quotas: flags.quotas.options(&selection, gates),
            selection,
            gates: controllers,
        })
    }

    /// Returns the components, in the order of [`NAMES`]. Each component runs until `cancel` is cancelled.
    pub fn components(
        self,
        client: &Client,
        monitor: &Monitor,
        cancel: &CancellationToken,
    ) -> [Component; NAMES.len()] {
        let inputs = || (client.clone(), monitor.clone(), cancel.clone());
        let detector_options = self.detector.clone();
        let observed = RecentTemplates::default();
        let templates = observed.clone();
        let (client, monitor, cancel) = inputs();
        let detector = async move {
            Ok(detector::run(client, self.detector, templates, monitor, cancel).await?)
        };
        let (client, monitor, cancel) = inputs();
        let propagation = async move {
            Ok(propagation::run(client, self.propagation, observed, monitor, cancel).await?)
        };
        let (client, monitor, cancel) = inputs();
        let bindings = run_bindings_and_quotas(
            client,
            self.gates,
            self.selection.clone(),
            self.quotas,
            monitor,
            cancel,
        );
        let (client, monitor, cancel) = inputs();
        let clusters = run_cluster_controllers(
            client,
            (self.heartbeat, self.cluster_status),
            self.selection,
            detector_options,
            monitor,
            cancel,
        );
        let (client, monitor, cancel) = inputs();
        let failover = run_failover(client, self.failover, self.taint_policies, monitor, cancel);
        [
            (DETECTOR, detector.boxed()),
            (PROPAGATION, propagation.boxed()),
            (BINDINGS, bindings.boxed()),
            (CLUSTERS, clusters.boxed()),
            (FAILOVER, failover.boxed()),
        ]
    }
}

/// Runs the component "binding controllers" with the controllers that are on by default, until the token is cancelled.
/// The dependencies distributor runs only if its feature gate is on.
///
/// # Errors
/// Fails if a controller fails.
pub async fn run_binding_controllers(
    client: Client,
    gates: ControllerGates,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllerSetError> {
    let selection = Selection::default();
    Box::pin(run_selected_binding_controllers(
        client, gates, selection, monitor, cancel,
    ))
    .await
}

/// Runs the selected binding controllers and the controllers of quotas, until the token is cancelled.
async fn run_bindings_and_quotas(
    client: Client,
    gates: ControllerGates,
    selection: Selection,
    quotas: QuotaOptions,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllerSetError> {
    let quotas = async {
        let run = federated_quota::run(client.clone(), quotas, monitor.clone(), cancel.clone());
        Ok(run.await?)
    };
    let bindings = run_selected_binding_controllers(
        client.clone(),
        gates,
        selection,
        monitor.clone(),
        cancel.clone(),
    );
    tokio::try_join!(bindings, quotas)?;
    Ok(())
}

async fn run_selected_binding_controllers(
    client: Client,
    gates: ControllerGates,
    selection: Selection,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllerSetError> {
    let dependencies = async {
        if gates.propagate_deps {
            dependencies::run(client.clone(), monitor.clone(), cancel.clone()).await?;
        }
        Ok(())
    };
    let rebalancer = async {
        if selection.has(Controller::WorkloadRebalancer) {
            workload_rebalancer::run(client.clone(), monitor.clone(), cancel.clone()).await?;
        }
        Ok(())
    };
    let marker = async {
        if selection.has(Controller::HpaScaleTargetMarker) {
            hpa_scale_target_marker::run(client.clone(), monitor.clone(), cancel.clone()).await?;
        }
        Ok(())
    };
    let syncer = async {
        if selection.has(Controller::DeploymentReplicasSyncer) {
            deployment_replicas_syncer::run(client.clone(), monitor.clone(), cancel.clone())
                .await?;
        }
        Ok(())
    };
    // Without this future, the component would end at once if no controller is selected.
    let cancelled = cancel.cancelled().map(Ok::<(), ControllerError>);
    tokio::try_join!(dependencies, rebalancer, marker, syncer, cancelled)?;
    Ok(())
}

/// Runs the selected cluster controllers until the token is cancelled. The namespace controller skips the namespaces
/// that the detector skips.
async fn run_cluster_controllers(
    client: Client,
    (heartbeat, status): (HeartbeatOptions, ClusterStatusOptions),
    selection: Selection,
    detector: DetectorOptions,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllerSetError> {
    let is_selected = |controller| selection.has(controller);
    let cluster = async {
        if is_selected(Controller::Cluster) {
            Box::pin(cluster::run(
                client.clone(),
                heartbeat,
                monitor.clone(),
                cancel.clone(),
            ))
            .await?;
        }
        Ok(())
    };
    let collector = async {
        if is_selected(Controller::ClusterStatus) {
            cluster_status::run(client.clone(), status, monitor.clone(), cancel.clone()).await;
        }
        Ok(())
    };
    let namespaces = async {
        if is_selected(Controller::Namespace) {
            let skipped = detector.skipped_namespaces;
            namespace_sync::run(client.clone(), skipped, monitor.clone(), cancel.clone()).await?;
        }
        Ok(())
    };
    let impersonation = async {
        if is_selected(Controller::UnifiedAuth) {
            unified_auth::run(client.clone(), monitor.clone(), cancel.clone()).await?;
        }
        Ok(())
    };
    // Without this future, the component would end at once if no controller is selected.
    let cancelled = cancel.cancelled().map(Ok::<(), ControllerError>);
    tokio::try_join!(cluster, collector, namespaces, impersonation, cancelled)?;
    Ok(())
}

/// Runs the failover controllers and the controller of ClusterTaintPolicies until the token is cancelled.
async fn run_failover(
    client: Client,
    options: FailoverOptions,
    taint_policies: taint_policy::Effect,
    monitor: Monitor,
    cancel: CancellationToken,
) -> Result<(), ControllerSetError> {
    let tainting = taint_policy::run(
        client.clone(),
        taint_policies,
        monitor.clone(),
        cancel.clone(),
    );
    let failover = failover::run(client.clone(), options, monitor.clone(), cancel.clone());
    tokio::try_join!(tainting, failover)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use berth_api::feature_gates;
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        controllers: ControllerFlags,
    }

    #[test]
    fn old_copies_wait_for_the_timeout_of_graceful_evictions_unless_the_gate_is_off() {
        let timeout = |gates: &str| {
            let program = Program::parse_from(["p", "--graceful-eviction-timeout=2m"]);
            let gates = feature_gates::parse(gates).unwrap();
            let set = ControllerSet::new(&program.controllers, gates, MemberKind::Real).unwrap();
            set.propagation.migration_timeout
        };
        assert_eq!(timeout(""), Some(std::time::Duration::from_mins(2)));
        assert_eq!(timeout("GracefulMigration=false"), None);
    }
}
