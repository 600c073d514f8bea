//! The failover controllers: evict bindings from clusters with taints that they do not tolerate and from clusters where
//! the application is unhealthy, and end graceful evictions when the new copies have taken over.
//!
//! ```text
//! clusters: NoExecute taints ──┐
//!                              ├─> toleration, unhealthy_tracker ─> eviction_queue ─> eviction ─┐
//! bindings: status, tasks ─────┘                                                                ├─> writes (bounded)
//!                              └─> graceful_eviction of gracefulEvictionTasks ──────────────────┘
//! ```
//!
//! An eviction removes a cluster from `spec.clusters` and adds a task to `spec.gracefulEvictionTasks`. The scheduler
//! then places the missing replicas elsewhere, and the binding controller keeps the old Work for as long as the task
//! exists. With Karmada's gate `StatefulFailoverInjection`, the task holds the state that the policy wants to preserve
//! ([`state_preservation`]). Decisions are pure functions of what [`cache`] has observed; only writes are concurrent.
//!
//! The modules know no scheduler, no Work and no member.

mod action;
mod binding;
mod cache;
mod eviction;
mod eviction_meter;
mod eviction_queue;
mod graceful_eviction;
mod options;
mod rate_limiter;
mod reconciler;
mod schedule;
mod state_preservation;
mod toleration;
mod unhealthy_tracker;
mod writer;

pub use options::{FailoverOptions, TaintEviction};
pub use toleration::eviction_delay;

use berth_events::EventRecorder;
use tokio_util::sync::CancellationToken;

use self::cache::Source;
use self::reconciler::{Failover, WORKERS};
use self::writer::Writer;
use crate::monitor::Monitor;
use crate::reconciler::{ControllerError, Runtime};

/// The component that events name.
const COMPONENT: &str = "failover-controller";

/// Runs the failover controllers until the token is cancelled.
///
/// # Errors
/// When one of their tasks panics.
pub async fn run(
    client: kube::Client,
    options: FailoverOptions,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    if options.is_idle() {
        shutdown.cancelled().await;
        return Ok(());
    }
    let mut runtime = Runtime::new(client.clone(), COMPONENT, &monitor, &shutdown);
    let inputs = runtime.inputs();
    let (events, event_writer) = EventRecorder::new(client.clone(), COMPONENT);
    inputs.spawn(|_, stop| event_writer.run(stop));
    for source in Source::ALL {
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let failover = Failover::new(options, Writer { client, events }, monitor);
    runtime.run("failover controller", failover, WORKERS).await
}
