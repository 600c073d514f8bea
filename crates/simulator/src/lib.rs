//! Simulated workloads for clusters that have no controllers, scheduler or kubelets. No container runs.
//!
//! Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get pods, and CronJobs get Jobs.
//! Pods are bound to nodes with enough capacity, and claims to volumes. Services get EndpointSlices, and load balancers
//! and Ingresses get addresses. Autoscalers scale workloads, and disruption budgets are counted. The simulation writes
//! the status of these objects, and the events of pods, workloads and autoscalers.
//!
//! ```text
//! watches ──> cache ──> plan (pure: actions due now, and times of the next planning) ──> action ──> cache
//!               └─> work_schedule: the objects to plan ──┘
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `cache`, `scope`, `work_schedule` | the watched objects; the objects to plan; the schedule of their planning |
//! | `planner`, `plan` | the planner, which calls one module for each kind; the planned actions |
//! | `deployments`, `replica_sets`, `replication_controllers`, `stateful_sets`, `daemon_sets`, `jobs`, `cron_jobs` | the workload controllers |
//! | `pod_scheduler`, `pods`, `image_registry` | binding of pods to nodes; the lifecycle of pods; the available images |
//! | `autoscalers`, `services`, `load_balancers`, `volume_claims`, `disruption_budgets` | other controllers |
//! | `scale_target` | the workload that an autoscaler scales |
//! | `replicas`, `container_status`, `stateful_set_claims`, `completion_indexes`, `owned_pods`, `pod_template` | parts of the controllers |
//! | `action`, `events` | writes, and the events of a write |
//! | [`simulation_annotations`] | annotations that control start delay, run time and failures |
//!
//! One task owns the cache. A planning computes the actions that are due. The task plans again until no action is left.
//! Apart from pending pods, a planning skips objects that are not due and that no change affects. The crate must know
//! neither Karmada nor the control plane to which the cluster belongs.

mod action;
mod autoscalers;
mod cache;
mod completion_indexes;
mod container_status;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod events;
mod image_registry;
mod jobs;
mod load_balancers;
mod owned_pods;
mod plan;
mod planner;
mod pod_scheduler;
mod pod_template;
mod pods;
mod replica_sets;
mod replicas;
mod replication_controllers;
mod scale_target;
mod scope;
mod services;
pub mod simulation_annotations;
mod stateful_set_claims;
mod stateful_sets;
mod volume_claims;
mod work_schedule;

use std::time::Duration;

use berth_events::EventRecorder;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use tokio_util::sync::CancellationToken;

use action::Executor;
use cache::Cache;
pub use image_registry::ImageRegistry;
use work_schedule::WorkSchedule;

/// Maximum number of rounds of planning before watch events are handled again.
const MAX_ROUNDS: usize = 100;
/// Number of writes after which watch events are handled again. A changed or deleted workload thus ends its bursts.
const MAX_WRITES: usize = owned_pods::MAX_BURST;
/// Time to collect watch events before planning.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// Delay before planning again after a failed write.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum time between two plannings.
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// Simulates the workloads of a cluster until the token is cancelled.
pub async fn run(client: Client, images: ImageRegistry, shutdown: CancellationToken) {
    // Each event sets its own component.
    let (recorder, writer) = EventRecorder::new(client.clone(), "");
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = simulate(client, images, &recorder) => {}
        // Queued events are dropped when the simulation ends.
        () = writer.run(CancellationToken::new()) => {}
    }
}

async fn simulate(client: Client, images: ImageRegistry, recorder: &EventRecorder) {
    let mut changes = cache::watch(&client);
    let mut cache = Cache::default();
    let mut schedule = WorkSchedule::new(images);
    let executor = Executor::new(client);
    loop {
        // Watch events that have already arrived are handled before planning.
        while let Some(change) = changes.next().now_or_never() {
            match change {
                Some(change) => cache.apply(change),
                None => return,
            }
        }
        let pause = if cache.has_synced() {
            // Writes of objects take precedence over writes of events.
            recorder.set_busy(true);
            let pause = execute_due_actions(&mut cache, &mut schedule, &executor, recorder).await;
            recorder.set_busy(false);
            pause
        } else {
            MAX_PAUSE
        };
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => {
                    cache.apply(change);
                    tokio::time::sleep(BATCH_DELAY).await;
                }
                None => return,
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Executes due actions until none is left, a write fails, or [`MAX_ROUNDS`] or [`MAX_WRITES`] is reached. Returns the
/// time until the next planning.
async fn execute_due_actions(
    cache: &mut Cache,
    schedule: &mut WorkSchedule,
    executor: &Executor,
    recorder: &EventRecorder,
) -> Duration {
    let mut writes = 0;
    for _ in 0..MAX_ROUNDS {
        let now = jiff::Timestamp::now();
        let actions = schedule.next(cache, now);
        if actions.is_empty() {
            let until = |due: jiff::Timestamp| {
                let left = due.duration_since(now);
                Duration::try_from(left).unwrap_or_default()
            };
            // One millisecond is added, because planning must not start before the due time.
            return schedule
                .next_time()
                .map_or(MAX_PAUSE, |due| until(due) + Duration::from_millis(1));
        }
        let mut failed = false;
        writes += actions.len();
        for action in actions {
            let events = events::of(&action, cache);
            match executor.execute(action, cache).await {
                Ok(()) => events.into_iter().for_each(|event| event.record(recorder)),
                Err(error) => {
                    tracing::debug!(%error, "cannot write a simulated object; retrying");
                    failed = true;
                }
            }
        }
        if failed {
            return RETRY_DELAY;
        }
        if writes >= MAX_WRITES {
            return Duration::ZERO;
        }
        tokio::task::yield_now().await;
    }
    Duration::ZERO
}
