//! The dependencies distributor. If a policy sets `propagateDeps`, the distributor propagates the dependencies of a
//! template together with the template. Dependencies are the objects that a template refers to, such as ConfigMaps,
//! Secrets, ServiceAccounts and volume claims.
//!
//! ```text
//! ResourceBindings ─────────┐
//!                           ├─> index ─> queue ─┬─> resolve: template, its dependencies
//! objects of the kinds of   │                   └─> attach: bindings of dependencies
//!   dependencies ───────────┘                       (bounded)
//! ```
//!
//! As in Karmada, a binding with `propagateDeps` is *independent*. An annotation of this binding lists the dependencies
//! of its template. For each dependency, the distributor creates an *attached* binding, which has no placement. The
//! field `requiredBy` of the attached binding lists the independent bindings with their clusters. The binding
//! controller creates Works for these clusters. The content of an attached binding is a pure function ([`attachment`])
//! of all independent bindings that depend on the object. Therefore the order in which these bindings change does not
//! matter.
//!
//! An independent binding has a finalizer. After the binding is deleted or stops propagating dependencies, the
//! finalizer is removed when no attached binding refers to the binding any more. This module must not depend on the
//! scheduler, on Works or on members.

mod attachment;
mod index;
mod merged_settings;
mod reconciler;
mod record;
mod recorded_events;
mod watch_events;
mod writer;

use tokio_util::sync::CancellationToken;

use self::reconciler::{Distributor, WORKERS};
use self::writer::Writer;
use crate::interpreter_configuration::Customizations;
use crate::monitor::Monitor;
use crate::reconciler::{ControllerError, Runtime};
use crate::resource_interpreter::ResourceInterpreter;
use crate::rest_mapper::RestMapper;

/// The name of the controller's queue in metrics.
const QUEUE: &str = "dependencies-distributor";

/// Runs the distributor until the token is cancelled.
///
/// The server may be unreachable or lack APIs when the distributor starts. The distributor then waits for the server
/// and the APIs.
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
    let events = inputs.record_events(recorded_events::COMPONENT);
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
