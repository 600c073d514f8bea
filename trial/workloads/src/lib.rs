//! Simulated workloads for clusters that have no controllers, scheduler or kubelets. No container runs.
//!
//! Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get pods, and CronJobs get Jobs.
//! Pods are bound to nodes with enough capacity, and claims to volumes. Services get EndpointSlices, and load balancers
//! and Ingresses get addresses. Autoscalers scale workloads, and disruption budgets are counted. The simulation writes
//! the status of these objects, and the events of pods, workloads and autoscalers.
//!
//! ```text
//! watches ──> cache ──> plan (pure: actions due now, and times of the next planning) ──> workers ──> cache
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
//! | `workers`, `attempts`, `retries` | concurrent execution of the actions of different objects; pauses after failures |
//! | [`simulation_annotations`] | annotations that control start delay, run time and failures |
//!
//! One task owns the cache. A planning computes the actions that are due. An object is planned again when its actions have
//! ended. Apart from pending pods, a planning skips objects that are not due and that no change affects. The crate must know
//! neither Karmada nor the control plane to which the cluster belongs.

mod action;
mod attempts;
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
mod retries;
mod scale_target;
mod scope;
mod services;
pub mod simulation_annotations;
mod stateful_set_claims;
mod stateful_sets;
mod volume_claims;
mod work_schedule;
mod workers;

use std::time::Duration;

use berth_events::EventRecorder;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use action::Executor;
use cache::Cache;
pub use image_registry::ImageRegistry;
use work_schedule::WorkSchedule;
use workers::Workers;

/// Minimum time between two plannings while requests are running, and time to collect watch events before planning.
const BATCH_DELAY: Duration = Duration::from_millis(10);
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
    let mut workers = Workers::new(Executor::new(client));
    let mut plan_at = Instant::now();
    loop {
        // Watch events and responses that have already arrived are handled before planning.
        while let Some(change) = changes.next().now_or_never() {
            match change {
                Some(change) => cache.apply(change),
                None => return,
            }
        }
        while let Some(finished) = workers.next().now_or_never() {
            workers.finish(finished, &mut cache, &mut schedule, recorder);
        }
        let is_due = plan_at <= Instant::now() || workers.are_idle();
        if !cache.has_synced() {
            plan_at = Instant::now() + MAX_PAUSE;
        } else if is_due {
            let now = jiff::Timestamp::now();
            let planned = schedule.next(&mut cache, now, |uid| workers.are_busy_with(uid));
            for owner in schedule.take_refused() {
                if let Some(event) = events::pods_refused(&owner) {
                    event.record(recorder);
                }
            }
            for mut object in planned {
                if let Some(at) = cache.retries.hold_back(&mut object, now) {
                    schedule.add_at(at, object.uid.clone());
                }
                workers.submit(object);
            }
            let pause = schedule.next_time().map_or(MAX_PAUSE, |due| {
                Duration::try_from(due.duration_since(now)).unwrap_or_default()
            });
            // One millisecond is added, because planning must not start before the due time.
            plan_at = Instant::now() + pause.min(MAX_PAUSE) + Duration::from_millis(1);
        }
        workers.start(&cache);
        // Writes of objects take precedence over writes of events.
        recorder.set_busy(!workers.are_idle());
        let soon = Instant::now() + BATCH_DELAY;
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => {
                    cache.apply(change);
                    plan_at = plan_at.min(soon);
                    if workers.are_idle() {
                        tokio::time::sleep(BATCH_DELAY).await;
                    }
                }
                None => return,
            },
            finished = workers.next() => {
                workers.finish(finished, &mut cache, &mut schedule, recorder);
                plan_at = plan_at.min(soon);
            }
            () = tokio::time::sleep_until(plan_at) => {}
        }
    }
}
