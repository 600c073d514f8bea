//! Propagation: placed bindings become Works, Works become objects in member clusters, and the objects' status
//! returns to the binding and the template.
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
//! | pure | [`binding`], [`binding::targets`], [`binding::desired_work`], [`binding::work_patch`], [`status`], [`execution::work_action`], [`execution::drift`], [`execution::work_status`] |
//! | requests | [`binding::sync`], [`status::writer`], `execution::member_object`, `execution::worker` |
//! | state | [`index`], `reconciler` with `watch_events`, [`execution::member`] |
//!
//! The reconciler owns the state of the control plane and starts a bounded number of jobs, never two for one binding.
//! Each member has a task with its own state. Everything is level-triggered: a restart reconciles every object once
//! and writes only differences. Do not run it together with karmada-controller-manager, which does the same work.

pub(crate) mod binding;
pub(crate) mod execution;
pub(crate) mod index;
mod reconciler;
pub(crate) mod status;
mod watch_events;

use std::num::NonZeroUsize;

use berth_events::EventRecorder;
use tokio_util::sync::CancellationToken;

use self::binding::sync::WorkSyncer;
use self::execution::worker::Worker;
use self::reconciler::{Propagator, Source};
use self::status::writer::StatusWriter;
use crate::ControllerError;
use crate::customizations::Customizations;
use crate::monitor::Monitor;
use crate::reconciler::Runtime;
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::RestMapper;

/// The name of the queue in metrics.
const QUEUE: &str = "binding-controller";

/// Concurrency and feature gates of the propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropagationOptions {
    /// Maximum bindings whose Works or status are written at once.
    pub concurrent_bindings: NonZeroUsize,
    /// Maximum Works applied at once, per member.
    pub concurrent_works: NonZeroUsize,
    /// Adds preserved state as labels to the objects of a moved application; Karmada's gate
    /// `StatefulFailoverInjection`.
    pub inject_state: bool,
    /// The parts that run.
    pub parts: PropagationParts,
}

/// The parts of the propagation, which Karmada runs as separate controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropagationParts {
    /// Writes the Works of bindings; Karmada's controller `binding`.
    pub works: bool,
    /// Writes the status of bindings and templates; Karmada's controller `bindingStatus`.
    pub binding_status: bool,
    /// Applies Works in the members and reports their status; Karmada's controllers `execution` and `workStatus`.
    pub members: bool,
}

impl Default for PropagationParts {
    /// Returns all parts.
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
            parts: PropagationParts::default(),
        }
    }
}

/// Runs the propagation until `shutdown` is cancelled.
///
/// The server may be down or lack some APIs at the start: the watches wait for them.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: PropagationOptions,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let (events, event_writer) = EventRecorder::new(client.clone(), "binding-controller");
    inputs.spawn(|_, stop| event_writer.run(stop));
    for source in Source::ALL {
        inputs.watch(&source.api_resource(), move |event| (source, event));
    }
    let customizations = Customizations::default();
    let rules = customizations.interpreter().clone();
    let interpreter = ResourceInterpreter::new(rules, client.clone(), monitor.clone());
    let mapper = RestMapper::new(client.clone());
    let status_writer = StatusWriter::new(mapper.clone(), events.clone(), interpreter.clone());
    let syncer = WorkSyncer::new(
        mapper,
        events.clone(),
        interpreter.clone(),
        options.inject_state,
    );
    let worker = Worker {
        control_plane: client,
        events: events.of("execution-controller"),
        interpreter,
        monitor: monitor.clone(),
    };
    let propagator = Propagator::new(
        options,
        syncer,
        status_writer,
        worker,
        customizations,
        monitor,
    );
    tracing::info!("propagation started");
    let limit = options.concurrent_bindings.get();
    let result = runtime.run("propagation", propagator, limit).await;
    tracing::info!("propagation stopped");
    result
}
