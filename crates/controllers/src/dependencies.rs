//! The dependencies distributor: propagates the objects that a template refers to (ConfigMaps, Secrets,
//! ServiceAccounts, volume claims) together with the template, where the policy sets `propagateDeps`.
//!
//! ```text
//! ResourceBindings ─────────┐
//!                           ├─> index ─> queue ─┬─> resolve: template, its dependencies
//! objects of the kinds of   │                   └─> attach: bindings of dependencies
//!   dependencies ───────────┘                       (bounded)
//! ```
//!
//! As in Karmada, a binding with `propagateDeps` is *independent*. The dependencies of its template are stored in an
//! annotation of the binding. Each of them gets a binding of its own, the *attached* one, which has no placement; its
//! `requiredBy` lists the independent bindings with their clusters, and the propagation creates Works from it. The
//! content of an attached binding is a pure function ([`attachment`]) of all independent bindings that need it, so
//! their order does not matter.
//!
//! An independent binding keeps a finalizer until no attached binding refers to it. The distributor knows no scheduler,
//! no Work and no member.

mod attachment;
mod events;
mod index;
mod reconciler;
mod record;
mod strategy;
mod watch_events;
mod writer;

use berth_events::EventRecorder;
use tokio_util::sync::CancellationToken;

use self::reconciler::{Distributor, WORKERS};
use self::writer::Writer;
use crate::customizations::Customizations;
use crate::monitor::Monitor;
use crate::reconciler::{ControllerError, Runtime};
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::RestMapper;

/// The name of the queue in metrics.
const QUEUE: &str = "dependencies-distributor";

/// Runs the distributor until the token is cancelled.
///
/// The server may be down or lack APIs when the distributor starts: it waits for them.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let (events, event_writer) = EventRecorder::new(client.clone(), events::COMPONENT);
    inputs.spawn(|_, stop| event_writer.run(stop));
    let customizations = Customizations::default();
    let rules = customizations.interpreter().clone();
    let writer = Writer {
        mapper: RestMapper::new(client.clone()),
        events,
        interpreter: ResourceInterpreter::new(rules, client, monitor.clone()),
    };
    let mut distributor = Distributor::new(writer, customizations, monitor.queue(QUEUE));
    distributor.watch_bindings(inputs);
    distributor.watch_customizations(inputs);
    runtime
        .run("dependencies distributor", distributor, WORKERS)
        .await
}
