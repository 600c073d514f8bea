//! The propagation of placed bindings. It creates Works from bindings, applies the Works as objects in member clusters,
//! and copies the status of these objects to the bindings and templates.
//!
//! ```text
//! watches: bindings, Works,  ──> reconciler ──> Works of a binding     (binding)
//!   Clusters, overrides             │  ├──────> status, from the Works (status)
//!                                   │  └──────> events
//!                                   └─────────> one task per member    (execution)
//! ```
//!
//! | layer | modules |
//! |---|---|
//! | pure | [`binding`], [`binding::targets`], [`binding::migration`], [`binding::desired_work`], [`binding::work_patch`], [`status`], [`status::health`], [`execution::work_action`], [`execution::drift`], [`difference`], [`execution::work_status`] |
//! | requests | [`binding::sync`], [`status::writer`], `execution::member_object`, `execution::work_executor` |
//! | state | [`index`], `reconciler` with `watch_events` and `health_metric`, [`execution::member`] |
//!
//! The reconciler owns the observed state of the control plane and starts a bounded number of jobs. Jobs for one
//! binding run one after another. Each member has a task with its own state. All decisions are level-triggered: a
//! restart reconciles every object once and writes only differences. Do not run the propagation together with
//! karmada-controller-manager, which writes the same objects.

pub(crate) mod binding;
pub(crate) mod execution;
mod health_metric;
pub(crate) mod index;
mod reconciler;
pub(crate) mod status;
mod watch_events;

pub use self::binding::migration::observed::runs_pods;
pub use self::execution::difference;
pub use self::status::health::StaleStatus;

use std::num::NonZeroUsize;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::binding::sync::WorkSyncer;
use self::execution::ownership::ControlPlaneId;
use self::execution::work_executor::WorkExecutor;
use self::reconciler::{Propagator, Source};
use self::status::writer::StatusWriter;
use crate::ControllerError;
use crate::interpreter_configuration::Customizations;
use crate::monitor::Monitor;
use crate::recent_templates::RecentTemplates;
use crate::reconciler::Runtime;
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::RestMapper;

/// The name of the controller's queue in metrics.
const QUEUE: &str = "binding-controller";

/// Concurrency and feature gates of the propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropagationOptions {
    /// Maximum number of bindings whose Works or status are written at the same time.
    pub concurrent_bindings: NonZeroUsize,
    /// Maximum number of Works that are applied in one member at the same time.
    pub concurrent_works: NonZeroUsize,
    /// True to add the preserved state of an evicted application as labels to its new copy, as Karmada's feature gate
    /// `StatefulFailoverInjection` does.
    pub inject_state: bool,
    /// The time after which the old copies of a workload that moves to other clusters leave although the new ones are
    /// not ready, as the feature gate `GracefulMigration` does. `None` if old copies leave at once, as in Karmada.
    pub migration_timeout: Option<Duration>,
    /// True to record an event for each successful step, as the feature gate `RoutineEvents` does.
    pub routine_events: bool,
    /// The weight of the last reports of clusters that are not ready.
    pub stale_status: StaleStatus,
    /// The enabled parts of the propagation.
    pub parts: PropagationParts,
}

/// The parts of the propagation, which Karmada runs as separate controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropagationParts {
    /// True to write the Works of bindings, as Karmada's controller `binding` does.
    pub works: bool,
    /// True to write the status of bindings and templates, as Karmada's controller `bindingStatus` does.
    pub binding_status: bool,
    /// True to apply Works in the members and report their status, as Karmada's controllers `execution` and
    /// `workStatus` do.
    pub members: bool,
}

impl Default for PropagationParts {
    /// Enables all parts.
    fn default() -> Self {
        Self {
            works: true,
            binding_status: true,
            members: true,
        }
    }
}

impl Default for PropagationOptions {
    fn default() -> Self {
        Self {
            concurrent_bindings: NonZeroUsize::new(32).unwrap_or(NonZeroUsize::MIN),
            concurrent_works: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            inject_state: false,
            migration_timeout: Some(Duration::from_mins(10)),
            routine_events: false,
            stale_status: StaleStatus::default(),
            parts: PropagationParts::default(),
        }
    }
}

/// Runs the propagation until `shutdown` is cancelled.
///
/// The server may be unreachable or lack APIs when the propagation starts. The propagation then waits for the server
/// and the APIs.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: PropagationOptions,
    templates: RecentTemplates,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events("binding-controller");
    let events = events.with_routine_events(options.routine_events);
    for source in Source::ALL {
        inputs.watch(&source.api_resource(), move |event| (source, event));
    }
    let customizations = Customizations::default();
    let rules = customizations.interpreter().clone();
    let interpreter = ResourceInterpreter::new(rules, client.clone(), monitor.clone());
    let mapper = RestMapper::new(client.clone());
    let status_writer = StatusWriter::new(
        mapper.clone(),
        events.clone(),
        interpreter.clone(),
        templates.clone(),
    );
    let syncer = WorkSyncer::new(
        mapper,
        events.clone(),
        interpreter.clone(),
        templates,
        options.inject_state,
        options.migration_timeout,
    );
    let executor = WorkExecutor {
        id: ControlPlaneId::new(client.clone()),
        control_plane: client,
        events: events.of("execution-controller"),
        interpreter,
        monitor: monitor.clone(),
    };
    let propagator = Propagator::new(
        options,
        syncer,
        status_writer,
        executor,
        customizations,
        monitor,
    );
    tracing::info!("propagation started");
    let limit = options.concurrent_bindings.get();
    let result = runtime.run("propagation", propagator, limit).await;
    tracing::info!("propagation stopped");
    result
}
