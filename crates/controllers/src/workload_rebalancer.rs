//! WorkloadRebalancers: each asks the scheduler once to place some workloads afresh, says how that went, and is
//! deleted some time later if it says so.
//!
//! One task owns what is known and what is due; rebalancers are worked on one for each at a time. What has to be done is
//! read off the status ([`progress`]), so a restart goes on where it was. Knows no scheduler: a binding is asked by the
//! field `spec.rescheduleTriggeredAt`.

mod progress;
mod rebalance;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use berth_api::WorkloadRebalancer;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::progress::Step;
use self::rebalance::{RebalanceError, Rebalancing};
use crate::informer::{Observation, inform};
use crate::queue::{Lane, Queue, until};

/// How many observations may wait.
const INBOX: usize = 256;
/// Rebalancers that are worked on at the same time.
const CONCURRENT: usize = 4;
/// The longest time between two tries.
const LONGEST: Duration = Duration::from_mins(5);

/// Why it stopped although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum RebalancerError {
    /// One of its tasks panicked.
    #[error("a task of the workload rebalancer failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Runs until it is told to stop.
///
/// # Errors
/// When one of its tasks panics.
pub async fn run(client: kube::Client, shutdown: CancellationToken) -> Result<(), RebalancerError> {
    // Everything below ends with this call, however it ends.
    let shutdown = shutdown.child_token();
    let guard = shutdown.clone().drop_guard();
    let (sender, inbox) = mpsc::channel(INBOX);
    let resource = ApiResource::erase::<WorkloadRebalancer>(&());
    let watching = tokio::spawn(inform(
        Api::all_with(client.clone(), &resource),
        watcher::Config::default(),
        |observation| observation,
        sender,
        shutdown.clone(),
    ));
    let owner = Owner {
        rebalancing: Rebalancing { client },
        known: HashMap::new(),
        queue: Queue::with_longest_delay(LONGEST),
        ends: BTreeSet::new(),
        jobs: JoinSet::new(),
    };
    let ended = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        ended = owner.run(inbox) => ended,
    };
    drop(guard);
    watching.await?;
    ended
}

struct Done {
    name: String,
    result: Result<(), RebalanceError>,
}

struct Owner {
    rebalancing: Rebalancing,
    known: HashMap<String, Arc<WorkloadRebalancer>>,
    queue: Queue<String, ()>,
    /// Those that end at some time.
    ends: BTreeSet<(Instant, String)>,
    jobs: JoinSet<Done>,
}

impl Owner {
    async fn run(mut self, mut inbox: mpsc::Receiver<Observation>) -> Result<(), RebalancerError> {
        loop {
            let end = self.ends.first().map(|(time, _)| *time);
            let due = self.queue.next_due().into_iter().chain(end).min();
            tokio::select! {
                Some(done) = self.jobs.join_next() => self.done(done?),
                seen = inbox.recv() => {
                    let Some(observation) = seen else { return Ok(()) };
                    self.observe(observation);
                }
                () = until(due) => self.bring_back(),
            }
            self.hand_out();
        }
    }

    fn observe(&mut self, observation: Observation) {
        match observation {
            Observation::Listed(there) => self.known.retain(|name, _| there.contains("", name)),
            Observation::Applied(object) => self.applied(&object),
            Observation::Deleted(object) => drop(self.known.remove(&object.name_any())),
            Observation::Unserved => {}
        }
    }

    fn applied(&mut self, object: &DynamicObject) {
        let name = object.name_any();
        match serde_json::to_value(object).and_then(serde_json::from_value) {
            Ok(rebalancer) => {
                self.known.insert(name.clone(), Arc::new(rebalancer));
                self.enqueue(name, Lane::Fast);
            }
            Err(error) => {
                tracing::warn!(rebalancer = name, %error, "cannot read a WorkloadRebalancer");
                self.known.remove(&name);
            }
        }
    }

    fn enqueue(&mut self, name: String, lane: Lane) {
        self.queue.add(name, (), lane, |(), ()| ());
    }

    fn bring_back(&mut self) {
        let now = Instant::now();
        while let Some((name, ())) = self.queue.take_due(now) {
            self.enqueue(name, Lane::Slow);
        }
        while self.ends.first().is_some_and(|(time, _)| *time <= now) {
            if let Some((_, name)) = self.ends.pop_first() {
                self.enqueue(name, Lane::Slow);
            }
        }
    }

    fn hand_out(&mut self) {
        while self.jobs.len() < CONCURRENT {
            let Some((name, ())) = self.queue.next() else {
                return;
            };
            self.start(name);
        }
    }

    fn start(&mut self, name: String) {
        let Some(rebalancer) = self.known.get(&name).cloned() else {
            self.queue.finish(&name);
            return;
        };
        let rebalancing = self.rebalancing.clone();
        match progress::step(&rebalancer, Timestamp::now()) {
            Step::Rest => self.queue.finish(&name),
            Step::Wait(time) => {
                self.queue.finish(&name);
                let wait = Duration::try_from(time.duration_since(Timestamp::now()));
                // A little more than what was rounded away.
                let end = Instant::now() + wait.unwrap_or_default() + Duration::from_millis(1);
                self.ends.insert((end, name));
            }
            Step::Ask(status) => {
                self.queue.start(name.clone());
                self.jobs.spawn(async move {
                    let result = rebalancing.ask(&rebalancer, status).await;
                    Done { name, result }
                });
            }
            Step::Delete => {
                self.queue.start(name.clone());
                self.jobs.spawn(async move {
                    let result = rebalancing.delete(&rebalancer).await;
                    Done { name, result }
                });
            }
        }
    }

    fn done(&mut self, done: Done) {
        let Done { name, result } = done;
        match result {
            Ok(()) => self.queue.finish(&name),
            Err(error) => {
                let failures = self.queue.fail(&name, ());
                if error.is_stale() {
                    tracing::debug!(rebalancer = name, failures, %error, "based on an old version");
                } else {
                    tracing::warn!(rebalancer = name, failures, %error, "failed, trying again later");
                }
            }
        }
    }
}
