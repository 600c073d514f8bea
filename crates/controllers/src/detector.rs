//! The detector. It finds the policy of each resource template, labels the template as claimed by this policy, and
//! keeps the template's binding up to date with the template and the policy.
//!
//! ```text
//! discovery ──> served resources ─────────┐
//! informers ──> templates, policies,      ├─> index ─> queue ─> decision ─> writes (bounded)
//!               overrides, bindings ──────┘
//! ```
//!
//! A decision ([`decision`]) is a pure function of the observed objects ([`state`]). Writes to different objects run
//! concurrently, and writes to one object run one after another. Each patch contains the resource version on which it
//! is based. After a restart or a new list, the detector examines every object again, but writes only outdated objects.
//!
//! The detector must not depend on the scheduler: it never writes `spec.clusters` or a status. On a server without
//! Karmada's webhooks, the detector sets the defaults of policies itself, and reports an invalid policy with an event.

pub mod binding_patch;
pub mod claim;
pub mod decision;
pub mod desired_binding;
mod discovery;
pub mod index;
mod invalid_selectors;
mod options;
pub mod policy;
mod policy_change;
pub mod policy_findings;
mod reconciler;
mod recorded_events;
mod skipped_apis;
pub mod state;
pub mod template;
mod unserved_apis;
mod waiting_templates;
mod watch_events;
mod writer;

pub use options::{DetectorOptions, OptionsError};

use berth_api::{BindingKind, Cluster};
use kube::core::ApiResource;
use tokio_util::sync::CancellationToken;

use self::claim::PolicyKind;
use self::reconciler::Detector;
use self::reconciler::Source;
use self::writer::{Writer, policy_resource};
use crate::interpreter_configuration::{ConfigurationKind, Customizations};
use crate::monitor::Monitor;
use crate::recent_templates::RecentTemplates;
use crate::reconciler::{ControllerError, Runtime};
use crate::resource_interpreter::ResourceInterpreter;

/// The name of the controller's queue in metrics.
const QUEUE: &str = "resource detector";

/// Runs the detector until the token is cancelled.
///
/// The server may be unreachable or lack APIs when the detector starts. The detector then waits for the server and the
/// APIs. It stores the claimed templates that it observes in `templates`.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    options: DetectorOptions,
    templates: RecentTemplates,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let events = inputs.record_events(recorded_events::COMPONENT);
    let events = events.with_routine_events(options.gates.routine_events);
    let discovery = client.clone();
    inputs.spawn(|sender, stop| discovery::discover(discovery, sender, stop));
    let meter = monitor.queue(QUEUE);
    let customizations = Customizations::default();
    let writer = Writer {
        interpreter: ResourceInterpreter::new(
            customizations.interpreter().clone(),
            client.clone(),
            monitor.clone(),
        ),
        client,
        events,
        gates: options.gates,
        monitor,
    };
    let workers = options.concurrent_writes.get();
    let mut detector = Detector::new(options, writer, customizations, templates, meter);
    for kind in ConfigurationKind::ALL {
        detector.watch(Source::Interpreter(kind), &kind.resource(), inputs);
    }
    for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
        detector.watch(Source::Policies(kind), &policy_resource(kind), inputs);
    }
    for kind in [BindingKind::Namespaced, BindingKind::Cluster] {
        detector.watch(Source::Bindings(kind), &kind.api_resource(), inputs);
    }
    let clusters = ApiResource::erase::<Cluster>(&());
    detector.watch(Source::Clusters, &clusters, inputs);
    tracing::info!("detector started");
    let ended = runtime.run("detector", detector, workers).await;
    tracing::info!("detector stopped");
    ended
}
