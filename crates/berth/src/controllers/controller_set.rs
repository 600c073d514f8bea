//! What karmada-controller-manager does elsewhere, as parts that each have a name: `berth controllers` and `berth up`
//! run the same ones. They must not know which of the two it is, nor where the API server is.

use berth_controllers::detector::{self, DetectorError, DetectorOptions, OptionsError};
use berth_controllers::propagation::{self, PropagationError, PropagationOptions};
use berth_scheduler::gates::{ControllerGates, FeatureGates};
use clap::Args;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::DetectorArgs;
use crate::binding_controllers::{self, BindingControllersError};
use crate::cluster_controllers::{self, ClusterArgs};
use crate::failover::{self, FailoverArgs, FailoverFailure, Setting};

const DETECTOR: &str = "detector";
const PROPAGATION: &str = "propagation";
const FAILOVER: &str = "failover";

/// What the parts are called, in the order in which people read them.
pub const NAMES: [&str; 5] = [
    DETECTOR,
    PROPAGATION,
    binding_controllers::NAME,
    cluster_controllers::NAME,
    FAILOVER,
];

/// Flags of the controllers.
#[derive(Args, Clone, Debug, Default)]
pub struct ControllerFlags {
    /// Flags of the detector.
    #[command(flatten)]
    pub detector: DetectorArgs,

    /// Flags of failover.
    #[command(flatten)]
    pub failover: FailoverArgs,

    /// Flags of the controllers of clusters.
    #[command(flatten)]
    pub clusters: ClusterArgs,
}

/// Why a part has failed.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The detector cannot start, or ended.
    #[error("the detector: {0}")]
    Detector(#[from] DetectorError),
    /// The propagation to members has ended.
    #[error(transparent)]
    Propagation(#[from] PropagationError),
    /// Failover has ended.
    #[error(transparent)]
    Failover(#[from] FailoverFailure),
    /// What works on bindings has ended.
    #[error(transparent)]
    Bindings(#[from] BindingControllersError),
}

/// A part that runs as long as it is polled, and ends after its token was cancelled.
pub type Part = (&'static str, BoxFuture<'static, Result<(), PartError>>);

/// All controllers, ready to run.
#[derive(Clone, Debug)]
pub struct Controllers {
    detector: DetectorOptions,
    propagation: PropagationOptions,
    clusters: ClusterArgs,
    failover: failover::Parts,
    gates: ControllerGates,
}

impl Controllers {
    /// What the flags say.
    ///
    /// # Errors
    /// When a flag cannot be understood.
    pub fn new(
        flags: &ControllerFlags,
        gates: FeatureGates,
        setting: Setting,
    ) -> Result<Self, OptionsError> {
        let controllers = gates.controllers;
        Ok(Self {
            detector: flags.detector.options(gates)?,
            propagation: PropagationOptions {
                inject_state: controllers.stateful_failover_injection,
                ..PropagationOptions::default()
            },
            clusters: flags.clusters.clone(),
            failover: flags.failover.parts(controllers, setting),
            gates: controllers,
        })
    }

    /// The parts, in the order of [`NAMES`].
    pub fn parts(self, client: &Client, cancel: &CancellationToken) -> [Part; NAMES.len()] {
        let Self {
            detector,
            propagation,
            clusters,
            failover,
            gates,
        } = self;
        let given = || (client.clone(), cancel.clone());
        let skipped = detector.clone();
        let (client, token) = given();
        let detecting =
            detector::run(client, detector, token).map(|ended| ended.map_err(PartError::from));
        let (client, token) = given();
        let propagating = propagation::run(client, propagation, token)
            .map(|ended| ended.map_err(PartError::from));
        let (client, token) = given();
        let binding = binding_controllers::run(client, gates, token)
            .map(|ended| ended.map_err(PartError::from));
        let (client, token) = given();
        let looking_after = async move {
            cluster_controllers::run(client, clusters, &skipped, token).await;
            Ok(())
        };
        let (client, token) = given();
        let failing_over = failover
            .run(client, token)
            .map(|ended| ended.map_err(PartError::from));
        [
            (DETECTOR, detecting.boxed()),
            (PROPAGATION, propagating.boxed()),
            (binding_controllers::NAME, binding.boxed()),
            (cluster_controllers::NAME, looking_after.boxed()),
            (FAILOVER, failing_over.boxed()),
        ]
    }
}
