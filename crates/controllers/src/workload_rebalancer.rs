//! The WorkloadRebalancer controller: triggers one new scheduling of each listed workload, records the results in the
//! status of the rebalancer, and deletes the rebalancer when its time to live is over.
//!
//! The next action depends on the rebalancer alone ([`progress`]), so a restarted controller continues where the
//! previous process stopped. The controller triggers the scheduler with the field `spec.rescheduleTriggeredAt` of a
//! binding.

mod progress;
mod writer;

use std::time::Duration;

use berth_api::WorkloadRebalancer;
use jiff::Timestamp;
use kube::core::ApiResource;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::progress::Action;
use self::writer::{RebalanceError, Writer};
use crate::monitor::Monitor;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::store::{Former, Store};
use crate::reconciler::work_queue::{Priority, Timers, WorkQueue};
use crate::reconciler::{ControllerError, Inputs, Reconciler, Runtime, Workers};

/// The name of the queue in metrics.
const QUEUE: &str = "workload-rebalancer";
/// Maximum number of rebalancers processed at the same time.
const WORKERS: usize = 4;
/// Maximum delay between two attempts for a rebalancer.
const LONGEST_DELAY: Duration = Duration::from_mins(5);

/// Runs the WorkloadRebalancer controller until the token is cancelled.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(
    client: kube::Client,
    monitor: Monitor,
    shutdown: CancellationToken,
) -> Result<(), ControllerError> {
    let meter = monitor.queue(QUEUE);
    let mut runtime = Runtime::new(client.clone(), QUEUE, &monitor, &shutdown);
    let resource = ApiResource::erase::<WorkloadRebalancer>(&());
    runtime.inputs().watch(&resource, |event| event);
    let rebalancer = Rebalancer {
        writer: Writer { client },
        known: Store::new(|name, error| {
            tracing::warn!(rebalancer = name, %error, "cannot read a WorkloadRebalancer: it is ignored");
            Former::Removed
        }),
        queue: WorkQueue::with_longest_delay(LONGEST_DELAY).metered(meter),
    };
    runtime
        .run("workload rebalancer", rebalancer, WORKERS)
        .await
}

struct Rebalancer {
    writer: Writer,
    known: Store<WorkloadRebalancer>,
    queue: WorkQueue<String, ()>,
}

impl Reconciler for Rebalancer {
    type Event = WatchEvent;
    type Outcome = (String, Result<(), RebalanceError>);

    fn handle_event(&mut self, event: WatchEvent, _: &mut Inputs<WatchEvent>) {
        for change in self.known.handle(event) {
            if change.new.is_some() {
                self.queue.push(change.name, (), Priority::High);
            }
        }
    }

    fn handle_outcome(&mut self, (name, result): Self::Outcome, _: &mut Inputs<WatchEvent>) {
        match result {
            Ok(()) => self.queue.finish(&name),
            Err(error) => self.queue.retry(&name, (), &error),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>) {
        while workers.has_free() {
            let Some((name, ())) = self.queue.next() else {
                return;
            };
            self.reconcile(name, workers);
        }
    }
}

impl Rebalancer {
    fn reconcile(
        &mut self,
        name: String,
        workers: &mut Workers<(String, Result<(), RebalanceError>)>,
    ) {
        let Some(rebalancer) = self.known.objects.get(&name).cloned() else {
            self.queue.finish(&name);
            return;
        };
        let now = Timestamp::now();
        let writer = self.writer.clone();
        match progress::next_action(&rebalancer, now) {
            Action::None => self.queue.finish(&name),
            Action::Wait(time) => {
                self.queue.finish(&name);
                let wait = Duration::try_from(time.duration_since(now)).unwrap_or_default();
                // Without the additional millisecond, rounding could end the wait before `time`.
                let due = Instant::now() + wait + Duration::from_millis(1);
                self.queue.push_at(name, due);
            }
            Action::Trigger(status) => {
                self.queue.start(name.clone());
                workers.start(async move {
                    let result = writer.trigger(&rebalancer, status).await;
                    (name, result)
                });
            }
            Action::Delete => {
                self.queue.start(name.clone());
                workers.start(async move {
                    let result = writer.delete(&rebalancer).await;
                    (name, result)
                });
            }
        }
    }
}
