//! The scheduling queue. It returns the next binding to schedule, and delays bindings that wait for a retry or for a
//! cluster change.
//!
//! The queue contains the keys of bindings. Each key is in one state: ready, in processing, in backoff, or waiting.
//! Ready keys are in one of two lanes. The lane `fresh` contains new, changed and retried keys. The lane `activated`
//! contains keys that waited and may fit now. Fresh keys come first, but after every few fresh keys the queue returns
//! one activated key. Therefore an unstable cluster with thousands of waiting bindings does not delay new bindings.
//! Within a lane, the key with the higher rank comes first. Among keys of equal rank, the ClusterQueues and the
//! namespaces without one take turns, and the keys of each are ordered by the time at which they became ready. The queue
//! has no clock: the caller passes the current time.

mod backoff;
mod lane;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backoff::Backoffs;
pub use backoff::QueueOrder;
use berth_api::BindingKey;
pub use lane::{NamespaceWeights, Turns};
pub(crate) use lane::{Position, Tenant};
use lane::{ReadyKeys, Weights};

/// Maximum time that a key waits before it is retried.
pub(crate) const MAX_WAITING: Duration = Duration::from_mins(5);
/// Number of fresh keys that the queue returns between two activated keys.
const FRESH_PER_ACTIVATED: u32 = 4;

/// Next step for a key after its scheduling cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The cycle is complete, and the key leaves the queue.
    Done,
    /// The key is retried after its backoff.
    Retry,
    /// The key waits for a cluster change, at most five minutes.
    Wait,
    /// The key waits for a cluster change or for other answers of estimators. No event reports that an estimator would
    /// answer differently. The key is therefore retried after 1 s, and each further failure doubles this time, up to
    /// five minutes.
    WaitForEstimates,
    /// The key is retried immediately, for example after a write conflict.
    Again,
}

/// Number of keys in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Keys that are ready to be scheduled.
    pub active: usize,
    /// Keys that wait for the end of their backoff.
    pub backoff: usize,
    /// Keys that wait for a cluster change.
    pub waiting: usize,
    /// Keys that are being decided or written.
    pub processing: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Fresh,
    Activated,
}

/// Priority of a key in the queue. Ranks are compared number by number, and the key with the greater rank comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub [i64; 3]);

impl Rank {
    /// Creates a rank from a single number.
    pub const fn of(number: i64) -> Self {
        Self([number, 0, 0])
    }
}

/// Sort key of a ready key: its rank, the time at which it became ready, and a serial number.
type SortKey = (Reverse<Rank>, Instant, u64);

/// Events that arrived for a key during its processing.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// True if the binding changed.
    pushed: bool,
    /// True if a cluster change requires another cycle of the binding.
    reconciled: bool,
    /// Time of the retry if the cycle fails.
    retry: RetryTime,
}

/// Time of the retry of a key whose cycle failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum RetryTime {
    /// The [`Verdict`] of the cycle determines the time.
    #[default]
    ByVerdict,
    /// After the backoff, even if the verdict is [`Verdict::Wait`].
    AfterBackoff,
    /// Immediately, because a cluster change may help.
    Now,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Ready { lane: Lane, sort_key: SortKey },
    Processing(Pending),
    Backoff { ready_at: Instant, serial: u64 },
    Waiting { until: Instant, serial: u64 },
}

#[derive(Debug)]
struct Item {
    state: State,
    rank: Rank,
    attempts: u32,
    /// The owner of the turns in which the key comes, while it is ready.
    tenant: Tenant,
}

/// Scheduling queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    items: HashMap<BindingKey, Item>,
    turns: Turns,
    weights: Weights,
    /// The ClusterQueues of keys, also of keys that are not in the queue.
    cluster_queues: HashMap<BindingKey, Arc<str>>,
    fresh: ReadyKeys,
    activated: ReadyKeys,
    backoff: BTreeSet<(Instant, u64, BindingKey)>,
    waiting: BTreeSet<(Instant, u64, BindingKey)>,
    processing: HashSet<BindingKey>,
    serial: u64,
    fresh_served: u32,
    backoffs: Backoffs,
}

impl Queue {
    /// Creates an empty queue.
    pub(crate) fn new(order: QueueOrder, turns: &Turns) -> Self {
        let mut weights = Weights::default();
        if let Turns::ByNamespace(namespaces) = turns {
            weights.namespaces = namespaces.clone();
        }
        Self {
            turns: turns.clone(),
            weights,
            backoffs: Backoffs::new(order),
            ..Self::default()
        }
    }

    /// Sets the number of keys that ClusterQueues get in one turn.
    pub(crate) fn set_queue_weights(&mut self, weights: BTreeMap<Arc<str>, u32>) {
        self.weights.queues = weights;
    }

    /// Sets the ClusterQueue of a key, with which the key takes turns. A ready key keeps its lane and age.
    pub(crate) fn assign(&mut self, key: &BindingKey, queue: Option<Arc<str>>) {
        match queue {
            Some(queue) => self.cluster_queues.insert(key.clone(), queue),
            None => self.cluster_queues.remove(key),
        };
        if let Some(State::Ready { lane, sort_key }) = self.items.get(key).map(|item| item.state) {
            self.remove_from_set(key);
            self.make_ready(key, lane, sort_key.1);
        }
    }

    fn tenant(&self, key: &BindingKey) -> Tenant {
        match (&self.turns, self.cluster_queues.get(key)) {
            (Turns::None, _) => Tenant::All,
            (Turns::ByNamespace(_), Some(queue)) => Tenant::ClusterQueue(Arc::clone(queue)),
            (Turns::ByNamespace(_), None) => Tenant::Namespace(key.namespace.clone()),
        }
    }

    /// Makes a key ready in the fresh lane. A key that is already in this lane gets the new rank and keeps its age. A
    /// key in processing becomes ready again after [`Queue::done`].
    pub(crate) fn push(&mut self, key: &BindingKey, rank: Rank, now: Instant) {
        match self.items.get_mut(key) {
            None => {
                let item = Item {
                    state: State::Processing(Pending::default()),
                    rank,
                    attempts: 0,
                    tenant: Tenant::All,
                };
                self.items.insert(key.clone(), item);
                self.make_ready(key, Lane::Fresh, now);
            }
            Some(item) => {
                item.rank = rank;
                match &mut item.state {
                    State::Processing(pending) => pending.pushed = true,
                    State::Ready {
                        lane: Lane::Fresh,
                        sort_key,
                    } if sort_key.0 == Reverse(rank) => {}
                    State::Ready {
                        lane: Lane::Fresh,
                        sort_key,
                    } => {
                        let since = sort_key.1;
                        self.remove_from_set(key);
                        self.make_ready(key, Lane::Fresh, since);
                    }
                    State::Ready { .. } | State::Backoff { .. } | State::Waiting { .. } => {
                        self.remove_from_set(key);
                        self.make_ready(key, Lane::Fresh, now);
                    }
                }
            }
        }
    }

    /// Makes a key ready because of a cluster change. If the key is in processing, [`Queue::clear_pending`] keeps this
    /// event, although it discards a [`Queue::push`].
    pub(crate) fn reconcile(&mut self, key: &BindingKey, rank: Rank, now: Instant) {
        if let Some(Item {
            state: State::Processing(pending),
            ..
        }) = self.items.get_mut(key)
        {
            pending.reconciled = true;
        } else {
            self.push(key, rank, now);
        }
    }

    /// Moves a waiting key, or a key in backoff, to the activated lane. A key in processing is retried immediately if
    /// its cycle fails. A ready key does not change.
    pub(crate) fn activate(&mut self, key: &BindingKey, now: Instant) {
        match self.items.get_mut(key).map(|item| &mut item.state) {
            Some(State::Waiting { .. } | State::Backoff { .. }) => {
                self.remove_from_set(key);
                self.make_ready(key, Lane::Activated, now);
            }
            Some(State::Processing(pending)) => pending.retry = RetryTime::Now,
            Some(State::Ready { .. }) | None => {}
        }
    }

    /// Changes the rank of a key in any state. The key keeps its lane and age.
    pub(crate) fn rerank(&mut self, key: &BindingKey, rank: Rank) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut item.rank, rank);
        if let State::Ready { lane, sort_key } = item.state
            && before != rank
        {
            self.remove_from_set(key);
            self.make_ready(key, lane, sort_key.1);
        }
    }

    /// Returns the waiting keys and the keys in backoff.
    pub(crate) fn delayed_keys(&self) -> impl Iterator<Item = &BindingKey> {
        self.waiting
            .iter()
            .map(|(_, _, key)| key)
            .chain(self.backoff.iter().map(|(_, _, key)| key))
    }

    /// Returns the keys in processing.
    pub(crate) fn keys_in_processing(&self) -> impl Iterator<Item = &BindingKey> {
        self.processing.iter()
    }

    /// Returns the next ready key, and the time at which the key became ready. The key is in processing until
    /// [`Queue::done`].
    pub(crate) fn pop_with_age(&mut self) -> Option<(BindingKey, Instant)> {
        let activated_turn = self.fresh_served >= FRESH_PER_ACTIVATED || self.fresh.is_empty();
        let (since, key) = if activated_turn && !self.activated.is_empty() {
            self.fresh_served = 0;
            self.activated.pop(&self.weights)?
        } else {
            self.fresh_served = self.fresh_served.saturating_add(1);
            self.fresh.pop(&self.weights)?
        };
        if let Some(item) = self.items.get_mut(&key) {
            item.state = State::Processing(Pending::default());
            item.attempts = item.attempts.saturating_add(1);
            self.processing.insert(key.clone());
        }
        Some((key, since))
    }

    /// Ends the processing of a key with a verdict.
    pub(crate) fn done(&mut self, key: &BindingKey, verdict: Verdict, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let State::Processing(pending) = item.state else {
            return;
        };
        self.processing.remove(key);
        if verdict == Verdict::Done {
            item.attempts = 0;
        }
        let again = pending.pushed
            || pending.reconciled
            || (pending.retry == RetryTime::Now && verdict != Verdict::Done);
        if again || verdict == Verdict::Again {
            self.make_ready(key, Lane::Fresh, now);
            return;
        }
        self.serial += 1;
        let serial = self.serial;
        let verdict = match (self.backoffs.order(), verdict) {
            (QueueOrder::Arrival { .. }, Verdict::Wait | Verdict::WaitForEstimates) => {
                Verdict::Retry
            }
            (_, Verdict::Wait | Verdict::WaitForEstimates)
                if pending.retry == RetryTime::AfterBackoff =>
            {
                Verdict::Retry
            }
            (_, verdict) => verdict,
        };
        match verdict {
            Verdict::Done | Verdict::Again => {
                self.items.remove(key);
            }
            Verdict::Retry => {
                let attempts = item.attempts;
                let ready_at = now + self.backoffs.delay(attempts, now);
                let Some(item) = self.items.get_mut(key) else {
                    return;
                };
                item.state = State::Backoff { ready_at, serial };
                self.backoff.insert((ready_at, serial, key.clone()));
            }
            Verdict::Wait | Verdict::WaitForEstimates => {
                let wait = match verdict {
                    Verdict::WaitForEstimates => backoff::wait_for_estimates(item.attempts),
                    _ => MAX_WAITING,
                };
                let until = now + wait;
                item.state = State::Waiting { until, serial };
                self.waiting.insert((until, serial, key.clone()));
            }
        }
    }

    /// Moves a waiting key to backoff. A key in processing moves to backoff if its cycle ends with [`Verdict::Wait`] or
    /// [`Verdict::WaitForEstimates`].
    pub(crate) fn back_off(&mut self, key: &BindingKey, now: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let attempts = item.attempts;
        match &mut item.state {
            State::Waiting { .. } => {}
            State::Processing(pending) => {
                pending.retry = pending.retry.max(RetryTime::AfterBackoff);
                return;
            }
            State::Ready { .. } | State::Backoff { .. } => return,
        }
        self.remove_from_set(key);
        let ready_at = now + self.backoffs.delay(attempts, now);
        self.serial += 1;
        let serial = self.serial;
        if let Some(item) = self.items.get_mut(key) {
            item.state = State::Backoff { ready_at, serial };
            self.backoff.insert((ready_at, serial, key.clone()));
        }
    }

    /// Extends the backoff of a key to at least `until`, because the API server requested this delay.
    pub(crate) fn postpone(&mut self, key: &BindingKey, until: Instant) {
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let State::Backoff { ready_at, serial } = item.state else {
            return;
        };
        if until > ready_at {
            item.state = State::Backoff {
                ready_at: until,
                serial,
            };
            self.backoff.remove(&(ready_at, serial, key.clone()));
            self.backoff.insert((until, serial, key.clone()));
        }
    }

    /// Discards the calls of [`Queue::push`] for a key in processing, because the scheduler's own write caused them.
    pub(crate) fn clear_pending(&mut self, key: &BindingKey) {
        if let Some(Item {
            state: State::Processing(pending),
            ..
        }) = self.items.get_mut(key)
        {
            pending.pushed = false;
        }
    }

    /// Removes the key of a deleted object. A key in processing stays until [`Queue::done`].
    pub(crate) fn remove(&mut self, key: &BindingKey) {
        match self.items.get(key).map(|item| item.state) {
            None | Some(State::Processing(_)) => self.clear_pending(key),
            Some(_) => {
                self.remove_from_set(key);
                self.items.remove(key);
            }
        }
    }

    /// Makes each key ready whose backoff or maximum waiting time is over.
    pub(crate) fn flush(&mut self, now: Instant) {
        while let Some((ready_at, _, key)) = self.backoff.first().cloned()
            && ready_at <= now
        {
            self.remove_from_set(&key);
            self.make_ready(&key, Lane::Fresh, now);
        }
        while let Some((until, _, key)) = self.waiting.first().cloned()
            && until <= now
        {
            self.remove_from_set(&key);
            self.make_ready(&key, Lane::Activated, now);
        }
    }

    /// Returns the next time at which [`Queue::flush`] has an effect.
    pub(crate) fn next_flush(&self) -> Option<Instant> {
        let backoff = self.backoff.first().map(|(ready_at, ..)| *ready_at);
        let waiting = self.waiting.first().map(|(until, ..)| *until);
        [backoff, waiting].into_iter().flatten().min()
    }

    /// Reports whether at least one key is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.fresh.is_empty() || !self.activated.is_empty()
    }

    /// Returns the number of keys in each state.
    pub(crate) fn depth(&self) -> Depth {
        Depth {
            active: self.fresh.len() + self.activated.len(),
            backoff: self.backoff.len(),
            waiting: self.waiting.len(),
            processing: self.processing.len(),
        }
    }

    /// Returns the position of a key in its lane, or `None` if the key is not ready.
    pub(crate) fn position(&self, key: &BindingKey) -> Option<(&Tenant, Position)> {
        let item = self.items.get(key)?;
        let State::Ready { lane, sort_key } = item.state else {
            return None;
        };
        let (own, other) = match lane {
            Lane::Fresh => (&self.fresh, &self.activated),
            Lane::Activated => (&self.activated, &self.fresh),
        };
        let mut position = own.position(sort_key.0, &item.tenant, key, &self.weights)?;
        // Between two activated keys come up to four fresh keys.
        let fresh_per_activated = usize::try_from(FRESH_PER_ACTIVATED).unwrap_or(usize::MAX);
        let between = match lane {
            Lane::Fresh => position.before / fresh_per_activated,
            Lane::Activated => position.before.saturating_mul(fresh_per_activated),
        };
        position.before += between.min(other.len());
        Some((&item.tenant, position))
    }

    /// Returns the number of ready keys of each tenant, and the time at which its oldest key became ready. A tenant may
    /// occur several times.
    pub(crate) fn ready_by_tenant(&self) -> impl Iterator<Item = (&Tenant, usize, Instant)> {
        self.fresh.by_tenant().chain(self.activated.by_tenant())
    }

    /// Returns the number of keys that a tenant gets in one turn.
    pub(crate) fn weight(&self, tenant: &Tenant) -> u32 {
        self.weights.of(tenant)
    }

    /// Returns the time at which the oldest ready key became ready.
    pub(crate) fn oldest_ready(&self) -> Option<Instant> {
        let oldest = [self.fresh.oldest(), self.activated.oldest()];
        oldest.into_iter().flatten().min()
    }

    fn make_ready(&mut self, key: &BindingKey, lane: Lane, since: Instant) {
        let tenant = self.tenant(key);
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        self.serial += 1;
        let rank = match self.backoffs.order() {
            QueueOrder::Priority => item.rank,
            QueueOrder::Arrival { .. } => Rank::default(),
        };
        let sort_key = (Reverse(rank), since, self.serial);
        item.state = State::Ready { lane, sort_key };
        match lane {
            Lane::Fresh => self.fresh.insert(sort_key, &tenant, key),
            Lane::Activated => self.activated.insert(sort_key, &tenant, key),
        }
        item.tenant = tenant;
    }

    /// Removes the key from the set that belongs to its state.
    fn remove_from_set(&mut self, key: &BindingKey) {
        let Some(item) = self.items.get(key) else {
            return;
        };
        match item.state {
            State::Ready {
                lane: Lane::Fresh,
                sort_key,
            } => self.fresh.remove(sort_key, &item.tenant, key),
            State::Ready {
                lane: Lane::Activated,
                sort_key,
            } => self.activated.remove(sort_key, &item.tenant, key),
            State::Backoff { ready_at, serial } => {
                self.backoff.remove(&(ready_at, serial, key.clone()))
            }
            State::Waiting { until, serial } => self.waiting.remove(&(until, serial, key.clone())),
            State::Processing(_) => false,
        };
    }
}

#[cfg(test)]
mod tests;
