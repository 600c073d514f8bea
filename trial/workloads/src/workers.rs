//! Concurrent execution of actions. The actions of one object are executed one after the other, and the actions of
//! different objects at the same time. The number of requests of one namespace is bounded, so that a webhook that does not
//! respond delays only the objects of the namespaces that it handles.

use berth_apimachinery::api_error::api_error_message;
use std::collections::{BTreeMap, HashMap, VecDeque};

use berth_events::EventRecorder;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use crate::action::{Action, CacheUpdate, Executor};
use crate::cache::Cache;
use crate::events::{self, RefusalEvent, SimulatedEvent};
use crate::plan::{ObjectPlan, SCHEDULER};
use crate::work_schedule::WorkSchedule;

/// Maximum number of requests at a time, in all namespaces and in one namespace.
const MAX_REQUESTS: usize = 64;
const MAX_REQUESTS_IN_NAMESPACE: usize = 8;

/// The remaining actions of an object.
struct Lane {
    object: ObjectPlan,
    actions: VecDeque<Action>,
    has_started: bool,
    is_running: bool,
}

/// A finished request.
pub(crate) struct Finished {
    uid: String,
    is_of_status: bool,
    events: Vec<SimulatedEvent>,
    refusal: Option<RefusalEvent>,
    result: Result<CacheUpdate, kube::Error>,
}

/// The objects with actions, and the running requests.
pub(crate) struct Workers {
    executor: Executor,
    /// Lanes of the objects, keyed by UID.
    lanes: HashMap<String, Lane>,
    /// UIDs of the objects that wait for a request, by namespace.
    waiting: BTreeMap<String, VecDeque<String>>,
    /// The number of running requests, by namespace.
    running: HashMap<String, usize>,
    requests: FuturesUnordered<BoxFuture<'static, Finished>>,
}

impl Workers {
    pub(crate) fn new(executor: Executor) -> Self {
        Self {
            executor,
            lanes: HashMap::new(),
            waiting: BTreeMap::new(),
            running: HashMap::new(),
            requests: FuturesUnordered::new(),
        }
    }

    /// Reports whether no action is left.
    pub(crate) fn are_idle(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Reports whether actions of an object are being executed.
    pub(crate) fn are_busy_with(&self, uid: &str) -> bool {
        self.lanes.get(uid).is_some_and(|lane| lane.has_started)
    }

    /// Adds the planned actions of an object. They replace actions that have not started. While actions of the object
    /// are executed, a plan is ignored, because the object is planned again afterwards.
    pub(crate) fn submit(&mut self, mut object: ObjectPlan) {
        let uid = object.uid.clone();
        let known = self.lanes.get(&uid);
        if known.is_some_and(|lane| lane.has_started) {
            return;
        }
        let actions: VecDeque<Action> = std::mem::take(&mut object.actions).into();
        if actions.is_empty() {
            self.lanes.remove(&uid);
            return;
        }
        if known.is_none() {
            let waiting = self.waiting.entry(object.namespace.clone()).or_default();
            waiting.push_back(uid.clone());
        }
        let lane = Lane {
            object,
            actions,
            has_started: false,
            is_running: false,
        };
        self.lanes.insert(uid, lane);
    }

    /// Starts requests, in turn for each namespace.
    pub(crate) fn start(&mut self, cache: &Cache) {
        let mut started = true;
        while started {
            started = false;
            let namespaces: Vec<String> = self.waiting.keys().cloned().collect();
            for namespace in namespaces {
                if self.requests.len() >= MAX_REQUESTS {
                    return;
                }
                let count = self.running.get(&namespace).copied().unwrap_or_default();
                if count < MAX_REQUESTS_IN_NAMESPACE {
                    started |= self.start_in(namespace, cache);
                }
            }
        }
    }

    /// Starts the next request of a namespace. Returns false if no object waits.
    fn start_in(&mut self, namespace: String, cache: &Cache) -> bool {
        let Some(waiting) = self.waiting.get_mut(&namespace) else {
            return false;
        };
        let Some(uid) = waiting.pop_front() else {
            self.waiting.remove(&namespace);
            return false;
        };
        // A plan without actions removes an object that is still waiting.
        let lane = self.lanes.get_mut(&uid).filter(|lane| !lane.is_running);
        let Some(lane) = lane else {
            return true;
        };
        lane.has_started = true;
        lane.is_running = true;
        let Some(action) = lane.actions.pop_front() else {
            return true;
        };
        *self.running.entry(namespace).or_default() += 1;
        let is_of_status = action.is_status();
        // The watch event of the write may arrive before the response, so the events are determined here.
        let events = events::of(&action, cache);
        let refusal = events::of_refusal(&action, cache);
        let result = self.executor.clone().execute(action);
        self.requests.push(Box::pin(async move {
            Finished {
                uid,
                is_of_status,
                events,
                refusal,
                result: result.await,
            }
        }));
        true
    }

    /// Waits for the end of a request. Never returns if no request is running.
    pub(crate) async fn next(&mut self) -> Finished {
        match self.requests.next().await {
            Some(finished) => finished,
            None => std::future::pending().await,
        }
    }

    /// Updates the cache after a request, and records the events. After a failure, the remaining actions of the object
    /// are dropped.
    pub(crate) fn finish(
        &mut self,
        finished: Finished,
        cache: &mut Cache,
        schedule: &mut WorkSchedule,
        recorder: &EventRecorder,
    ) {
        let Some(lane) = self.lanes.get_mut(&finished.uid) else {
            return;
        };
        lane.is_running = false;
        let now = jiff::Timestamp::now();
        let namespace = &lane.object.namespace;
        if let Some(count) = self.running.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(namespace);
            }
        }
        let is_of_scheduler = finished.uid == SCHEDULER;
        let failed = match finished.result {
            Ok(update) => {
                update.apply(cache);
                let events = finished.events.into_iter();
                events.for_each(|event| event.record(recorder));
                false
            }
            Err(error) => {
                let message = api_error_message(&error);
                tracing::debug!(error = %message, "cannot write a simulated object; retrying");
                let refusal = finished
                    .refusal
                    .and_then(|refusal| refusal.because_of(&error));
                let refusal = refusal.map(|(refusal, event)| {
                    event.record(recorder);
                    refusal
                });
                let is_of_status = finished.is_of_status;
                cache
                    .retries
                    .failed(&lane.object, is_of_status, refusal, now);
                true
            }
        };
        // Pods are bound independently of each other.
        if failed && !is_of_scheduler {
            lane.actions.clear();
        }
        if lane.actions.is_empty() {
            if !failed {
                cache.retries.succeeded(&finished.uid, now);
            }
            self.lanes.remove(&finished.uid);
            schedule.add(finished.uid);
        } else {
            let waiting = self.waiting.entry(namespace.clone()).or_default();
            waiting.push_back(finished.uid);
        }
    }
}
