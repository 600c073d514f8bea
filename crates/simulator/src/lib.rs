//! Simulated workloads: what the controllers, the scheduler and the kubelets of a cluster would do, in a cluster that has
//! none of them. Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs get pods, CronJobs get
//! Jobs, pods get nodes with room for them, claims get volumes, services get the addresses of their pods, load balancers and
//! ingresses get addresses, budgets for disruptions are counted, and all of them get a status and events.
//! Nothing runs.
//!
//! ```text
//! watches ──> world ──> plan (pure: what is to be done now, and when to look again) ──> writes ──> world
//!               └─> agenda: what has to be looked at ──┘
//! ```
//!
//! One task owns the world, which is what the server holds, as far as it matters here. It plans until there is nothing
//! left to do; what has not changed, and depends on nothing that has, is not looked at. How soon pods are ready, and whether they fail, can be wished for by annotations: see [`wishes`].
//!
//! It knows nothing of what the cluster is a member of.

mod action;
mod agenda;
mod budgets;
mod claims;
mod completion_indexes;
mod controlled;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod jobs;
mod load_balancers;
mod placing;
mod plan;
mod pods;
mod replica_sets;
mod replication_controllers;
mod scope;
mod services;
mod set_claims;
mod stateful_sets;
mod telling;
mod template;
pub mod wishes;
mod world;

use std::time::Duration;

use berth_events::EventRecorder;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use tokio_util::sync::CancellationToken;

use action::Executor;
use agenda::Agenda;
use world::World;

/// How often it is planned without a pause; what is left then waits for others to have a turn.
const ROUNDS: usize = 100;
/// How long changes are gathered before they are looked at together.
const GATHERING: Duration = Duration::from_millis(10);
/// How soon to look again when something could not be written.
const AGAIN: Duration = Duration::from_millis(500);
/// The longest time without a look.
const LONGEST: Duration = Duration::from_hours(1);

/// Simulates the workloads of a cluster until the token is cancelled.
pub async fn run(client: Client, shutdown: CancellationToken) {
    // Everything that is told says by whom.
    let (recorder, writer) = EventRecorder::new(client.clone(), "");
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = simulate(client, &recorder) => {}
        // What is not told by then stays untold: nobody waits for it.
        () = writer.run(CancellationToken::new()) => {}
    }
}

async fn simulate(client: Client, recorder: &EventRecorder) {
    let mut changes = world::watch(&client);
    let mut world = World::default();
    let mut agenda = Agenda::new();
    let executor = Executor::new(client);
    loop {
        // Whatever has been seen meanwhile counts at once.
        while let Some(change) = changes.next().now_or_never() {
            match change {
                Some(change) => world.take(change),
                None => return,
            }
        }
        let pause = if world.is_complete() {
            // What is done matters more than what is told of it.
            recorder.set_busy(true);
            let pause = work(&mut world, &mut agenda, &executor, recorder).await;
            recorder.set_busy(false);
            pause
        } else {
            LONGEST
        };
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => {
                    world.take(change);
                    tokio::time::sleep(GATHERING).await;
                }
                None => return,
            },
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Does what is to be done now; returns how long there is nothing more to do.
async fn work(
    world: &mut World,
    agenda: &mut Agenda,
    executor: &Executor,
    recorder: &EventRecorder,
) -> Duration {
    for _ in 0..ROUNDS {
        let now = jiff::Timestamp::now();
        let actions = agenda.next(world, now);
        if actions.is_empty() {
            let until = |wake: jiff::Timestamp| {
                let left = wake.duration_since(now);
                Duration::try_from(left).unwrap_or_default()
            };
            // A little later rather than a little too early.
            return agenda
                .wake()
                .map_or(LONGEST, |wake| until(wake) + Duration::from_millis(1));
        }
        let mut failed = false;
        for action in actions {
            let told = telling::of(&action, world);
            match executor.act(action, world).await {
                Ok(()) => told.into_iter().for_each(|told| told.record(recorder)),
                Err(error) => {
                    tracing::debug!(%error, "something simulated could not be written; trying again");
                    failed = true;
                }
            }
        }
        if failed {
            return AGAIN;
        }
        tokio::task::yield_now().await;
    }
    Duration::ZERO
}
