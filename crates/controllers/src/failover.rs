//! The failover controllers. They evict a binding from a cluster if the binding does not tolerate a taint of the
//! cluster, or if the application is unhealthy in the cluster. They end a graceful eviction when the new copies of the
//! application are healthy or a grace period ends, and cancel it when its cause has ended ([`cancellation`]).
//!
//! ```text
//! clusters: taints, readiness ─┐
//!                              ├─> toleration, unhealthy_tracker ─> eviction_queue ─> eviction ─┐
//! bindings: status, tasks ─────┘                                                                ├─> writes (bounded)
//!                              └─> graceful_eviction of gracefulEvictionTasks ──────────────────┘
//! ```
//!
//! An eviction removes a cluster from `spec.clusters` of a binding and adds a task to `spec.gracefulEvictionTasks`. The
//! scheduler then places the missing replicas in other clusters. The binding controller keeps the Work in the old
//! cluster as long as the task exists, unless the purge mode is `Directly`. With Karmada's feature gate
//! `StatefulFailoverInjection`, the task contains the state that the policy preserves ([`read_preserved_state`]).
//!
//! While many clusters are lost at the same time, the [`brake`] holds evictions back. With rebalancing, bindings return to
//! clusters that are back ([`failback`]), and replicas that no node can run leave their cluster ([`pending_replicas`]).
//!
//! The decisions use only the objects that [`cache`] has observed, and run one after another; [`action`] tells their order.
//! Only writes, and the counts of [`pending_pods`] in members, are concurrent. These modules must not depend on the
//! scheduler or on Works.

mod action;
mod binding;
mod brake;
mod cache;
mod cancellation;
mod cluster;
mod eviction;
mod eviction_meter;
mod eviction_queue;
mod failback;
mod graceful_eviction;
#[cfg(test)]
mod histories;
mod options;
mod pending_pods;
mod pending_replicas;
mod rate_limiter;
mod read_preserved_state;
mod rebalancing;
mod reconciler;
mod report;
mod room;
mod schedule;
#[cfg(test)]
mod simulation;
mod stability;
#[cfg(test)]
mod storm;
mod toleration;
mod unhealthy_tracker;
mod writer;

pub use brake::BrakeOptions;
pub use options::{FailoverOptions, RebalanceMode, RebalanceOptions, TaintEviction};
pub use toleration::eviction_delay;

use tokio_util::sync::CancellationToken;

use self::cache::Source;
use self::reconciler::{Failover, WORKERS};
use self::writer::Writer;
use crate::monitor::Monitor;
use crate::reconciler::{ControllerError, Runtime};

/// The name of this component in events and metrics.
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
    let events = inputs.record_events(COMPONENT);
    for source in Source::ALL {
        inputs.watch(&source.resource(), move |event| (source, event));
    }
    let failover = Failover::new(options, Writer { client, events }, monitor);
    runtime.run("failover controller", failover, WORKERS).await
}
