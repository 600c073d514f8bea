//! The ClusterQueues, their bindings, and the usage of these bindings.
//!
//! A binding belongs to a queue that selects its namespace. If several queues select the namespace, the label
//! [`QUEUE_NAME`] names one of them; otherwise the binding belongs to the first queue by name. A label never leads to a
//! queue that does not select the namespace, so that a team cannot use the quota of another one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::cluster_queue::{ClusterQueueSpec, QUEUE_NAME};
use berth_api::federated_quota::Amounts;
use berth_api::label_selector::CompiledSelector;
use berth_api::{Binding, BindingKey, ClusterQueue};
use berth_apimachinery::quantity::Quantity;

use super::cohort::{Excess, Limit};
use super::ledger::{Account, Ledger};

/// Label of every namespace with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A ClusterQueue refuses a decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueExceeded {
    /// The usage of a resource would be too high.
    #[error("ClusterQueue {queue}: {requested} of {nominal} {resource} would be in use{remedy}")]
    Quota {
        /// The queue.
        queue: Arc<str>,
        /// The resource.
        resource: String,
        /// The usage of the queue with the decision.
        requested: Quantity,
        /// The nominal quota.
        nominal: Quantity,
        /// The end of the message: the borrowing limit, or the quota that the cohort has left.
        remedy: String,
    },
    /// The queue admits no bindings.
    #[error("ClusterQueue {0}: admission is on hold (stopPolicy Hold)")]
    Held(Arc<str>),
    /// No watch event shows the namespace yet, so that its queue is unknown.
    #[error("ClusterQueue unknown: the namespace {0} is not listed yet")]
    UnknownNamespace(Arc<str>),
}

/// A queue and the usage of its bindings.
#[derive(Clone, Debug)]
struct Queue {
    object: ClusterQueue,
    selector: Option<CompiledSelector>,
    limits: BTreeMap<String, Limit>,
    ledger: Ledger,
    /// The usage that comes from the cohort.
    from_cohort: Amounts,
    /// The usage that is reserved for bindings with room.
    reserved: Amounts,
}

/// The sums of the queues with the same cohort.
#[derive(Clone, Debug, Default)]
struct Cohort {
    lent: Amounts,
    used: Amounts,
}

/// All ClusterQueues.
#[derive(Clone, Debug, Default)]
pub(super) struct ClusterQueues {
    queues: BTreeMap<Arc<str>, Queue>,
    cohorts: HashMap<Arc<str>, Cohort>,
    /// The labels of all namespaces.
    namespaces: HashMap<Arc<str>, BTreeMap<String, String>>,
    /// The queues that select each known namespace, ordered by name.
    candidates: HashMap<Arc<str>, Vec<Arc<str>>>,
    members: HashMap<BindingKey, Arc<str>>,
    /// The bindings whose queue has changed since the last call of [`Self::take_moved`].
    moved: Vec<(BindingKey, Option<Arc<str>>)>,
    /// True if the members may be outdated after a change of a queue or a namespace.
    is_stale: bool,
}

impl Queue {
    fn new(object: ClusterQueue) -> Self {
        let selector = object.spec.namespace_selector.as_ref();
        // As in Kubernetes, a malformed selector selects nothing.
        let selector = selector.and_then(|selector| selector.compile().ok());
        let limits = limits(&object.spec);
        Self {
            object,
            selector,
            limits,
            ledger: Ledger::default(),
            from_cohort: Amounts::default(),
            reserved: Amounts::default(),
        }
    }

    fn spec(&self) -> &ClusterQueueSpec {
        &self.object.spec
    }

    fn cohort(&self) -> Option<&str> {
        self.spec()
            .cohort_name
            .as_deref()
            .filter(|name| !name.is_empty())
    }

    /// Returns the parts of a usage that come from the cohort.
    fn used_of_cohort(&self, used: &Amounts) -> Amounts {
        let parts = self.limits.iter();
        let parts = parts.map(|(resource, limit)| {
            let part = limit.used_of_cohort(used.get(resource));
            (resource.clone(), part)
        });
        parts.collect::<BTreeMap<_, _>>().into()
    }
}

/// Returns the limits of a spec. A malformed quantity counts as zero; the schema refuses such quantities.
fn limits(spec: &ClusterQueueSpec) -> BTreeMap<String, Limit> {
    let has_cohort = spec
        .cohort_name
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    let quotas = spec.quotas.iter();
    let limits = quotas.map(|quota| {
        let nominal = quota
            .nominal_quota
            .parse()
            .unwrap_or_default()
            .max(Quantity::ZERO);
        let parsed = |text: &Option<berth_api::quantity::QuantityText>| {
            let text = text.as_ref()?;
            Some(text.parse().unwrap_or_default().max(Quantity::ZERO))
        };
        let limit = if has_cohort {
            Limit {
                nominal,
                borrowing: parsed(&quota.borrowing_limit),
                lent: parsed(&quota.lending_limit).map_or(nominal, |limit| limit.min(nominal)),
            }
        } else {
            Limit {
                nominal,
                borrowing: Some(Quantity::ZERO),
                lent: Quantity::ZERO,
            }
        };
        (quota.name.clone(), limit)
    });
    limits.collect()
}

impl ClusterQueues {
    /// Adds or replaces a queue.
    pub(super) fn apply(&mut self, object: ClusterQueue) {
        let name: Arc<str> = object.metadata.name.as_deref().unwrap_or_default().into();
        match self.queues.get_mut(&name) {
            Some(queue) if queue.object.spec == object.spec => queue.object = object,
            Some(queue) => {
                let old = std::mem::replace(queue, Queue::new(object));
                queue.ledger = old.ledger;
                queue.reserved = old.reserved;
                self.is_stale = true;
            }
            None => {
                self.queues.insert(name, Queue::new(object));
                self.is_stale = true;
            }
        }
    }

    /// Removes a deleted queue.
    pub(super) fn delete(&mut self, name: &str) {
        self.is_stale |= self.queues.remove(name).is_some();
    }

    /// Returns the names of all queues.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queues.keys()
    }

    /// Adds or replaces the labels of a namespace.
    pub(super) fn namespace_applied(&mut self, name: &str, mut labels: BTreeMap<String, String>) {
        labels.insert(NAMESPACE_NAME.to_owned(), name.to_owned());
        let old = self.namespaces.insert(name.into(), labels);
        self.is_stale |= old.as_ref() != self.namespaces.get(name);
    }

    /// Removes the namespaces for which `is_listed` returns false. Their remaining bindings keep their queue until
    /// [`Self::refresh`] assigns all bindings again.
    pub(super) fn retain_namespaces(&mut self, is_listed: impl Fn(&str) -> bool) {
        self.namespaces.retain(|name, _| is_listed(name));
    }

    /// Reports whether there are no queues.
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Updates the members of all queues after a change of a queue or a namespace. Reports whether there was a change.
    /// `account` returns the usage of a binding.
    pub(super) fn refresh<'a>(
        &mut self,
        bindings: impl Iterator<Item = &'a Binding>,
        account: impl Fn(&Binding) -> Account,
    ) -> bool {
        if !std::mem::take(&mut self.is_stale) {
            return false;
        }
        let without_queues = self.queues.is_empty();
        if without_queues && self.members.is_empty() && self.candidates.is_empty() {
            return false;
        }
        self.candidates.clear();
        for (namespace, labels) in self.namespaces.iter().filter(|_| !without_queues) {
            let queues = self.queues.iter();
            let selecting = queues.filter(|(_, queue)| {
                let selector = queue.selector.as_ref();
                selector.is_some_and(|selector| selector.matches(labels))
            });
            let names = selecting.map(|(name, _)| Arc::clone(name)).collect();
            self.candidates.insert(Arc::clone(namespace), names);
        }
        let known = &self.queues;
        self.members.retain(|key, queue| {
            let is_kept = known.contains_key(queue);
            if !is_kept {
                self.moved.push((key.clone(), None));
            }
            is_kept
        });
        for binding in bindings {
            self.place(binding, || account(binding));
        }
        self.rebuild_cohorts();
        true
    }

    fn rebuild_cohorts(&mut self) {
        self.cohorts.clear();
        for queue in self.queues.values_mut() {
            queue.from_cohort = queue.used_of_cohort(queue.ledger.total());
            let Some(name) = queue.cohort() else { continue };
            let lent = queue.limits.iter();
            let lent = lent.map(|(resource, limit)| (resource.clone(), limit.lent));
            let lent = Amounts::from(lent.collect::<BTreeMap<_, _>>());
            let cohort = self.cohorts.entry(name.into()).or_default();
            cohort.lent = std::mem::take(&mut cohort.lent) + lent;
            cohort.used = std::mem::take(&mut cohort.used) + queue.from_cohort.clone();
        }
    }

    /// Returns the queue to which the labels of a binding and of its namespace assign it.
    fn assigned(&self, binding: &Binding) -> Option<&Arc<str>> {
        let namespace = binding.key.namespace.as_ref()?;
        let candidates = self.candidates.get(namespace)?;
        let labels = binding.metadata.labels.as_ref();
        let named = labels.and_then(|labels| labels.get(QUEUE_NAME));
        let by_label = named.and_then(|named| candidates.iter().find(|name| ***name == **named));
        by_label.or_else(|| candidates.first())
    }

    /// Assigns an added or changed binding to its queue. `account` computes the usage of a binding that is new in the
    /// queue. Returns the queue that the binding left.
    pub(super) fn place(
        &mut self,
        binding: &Binding,
        account: impl FnOnce() -> Account,
    ) -> Option<Arc<str>> {
        if self.queues.is_empty() && self.members.is_empty() {
            return None;
        }
        let new = self.assigned(binding).cloned();
        let key = &binding.key;
        if self.members.get(key) == new.as_ref() {
            return None;
        }
        let old = self.remove(key);
        if let Some(new) = &new {
            self.members.insert(key.clone(), Arc::clone(new));
            self.set(key, account());
        }
        self.moved.push((key.clone(), new));
        old
    }

    /// Removes a deleted binding. Returns its queue.
    pub(super) fn forget(&mut self, key: &BindingKey) -> Option<Arc<str>> {
        let left = self.remove(key)?;
        self.moved.push((key.clone(), None));
        Some(left)
    }

    /// Removes a binding. Returns its queue.
    fn remove(&mut self, key: &BindingKey) -> Option<Arc<str>> {
        let name = self.members.remove(key)?;
        if let Some(queue) = self.queues.get_mut(&name) {
            queue.ledger.remove(key);
        }
        self.update_cohort(&name);
        Some(name)
    }

    /// Sets the usage of a binding, if it belongs to a queue. Returns the queue if its usage of a resource fell.
    pub(super) fn set(&mut self, key: &BindingKey, account: Account) -> Option<Arc<str>> {
        let name = self.members.get(key)?.clone();
        let fell = self.queues.get_mut(&name)?.ledger.set(key, account);
        self.update_cohort(&name);
        fell.then_some(name)
    }

    /// Updates the usage of the cohort after a change of the usage of a queue.
    fn update_cohort(&mut self, name: &str) {
        let Some(queue) = self.queues.get_mut(name) else {
            return;
        };
        let new = queue.used_of_cohort(queue.ledger.total());
        let old = std::mem::replace(&mut queue.from_cohort, new.clone());
        if let Some(cohort) = queue.cohort().and_then(|name| self.cohorts.get_mut(name)) {
            cohort.used = std::mem::take(&mut cohort.used) + new - old;
        }
    }

    /// Returns the queue of a binding.
    pub(super) fn of(&self, key: &BindingKey) -> Option<&Arc<str>> {
        self.members.get(key)
    }

    /// Returns the usage of a binding that belongs to a queue.
    pub(super) fn account(&self, key: &BindingKey) -> Option<&Account> {
        self.queues.get(self.members.get(key)?)?.ledger.account(key)
    }

    /// Reports whether a change of the usage of `changed` may help the bindings of `queue`.
    pub(super) fn share_quota(&self, changed: &str, queue: &str) -> bool {
        let cohort = |name: &str| self.queues.get(name).and_then(Queue::cohort);
        changed == queue || cohort(changed).is_some_and(|name| cohort(queue) == Some(name))
    }

    /// Returns the growth of the usage of a queue if a binding gets this usage.
    pub(super) fn growth(&self, key: &BindingKey, wanted: &Amounts) -> Amounts {
        let queue = self.members.get(key).and_then(|name| self.queues.get(name));
        queue
            .map(|queue| queue.ledger.growth(key, wanted))
            .unwrap_or_default()
    }

    /// Reserves usage in a queue, or releases it with a negative amount.
    pub(super) fn reserve(&mut self, name: &str, amounts: &Amounts) {
        if let Some(queue) = self.queues.get_mut(name) {
            queue.reserved = std::mem::take(&mut queue.reserved) + amounts.clone();
        }
    }

    /// Checks whether the queue of a binding and its cohort allow this usage, beside the reserved usage.
    pub(super) fn check(
        &self,
        binding: &Binding,
        wanted: &Amounts,
    ) -> Result<(), Box<QueueExceeded>> {
        let key = &binding.key;
        let Some((name, queue)) = self
            .members
            .get(key)
            .and_then(|name| self.queues.get_key_value(name))
        else {
            return match &key.namespace {
                Some(namespace) if !self.is_empty() && !self.candidates.contains_key(namespace) => {
                    Err(Box::new(QueueExceeded::UnknownNamespace(Arc::clone(
                        namespace,
                    ))))
                }
                _ => Ok(()),
            };
        };
        let growth = queue.ledger.growth_of_stored(key, wanted);
        // An evicted binding is not a new one: it takes its former place before those that wait.
        let is_evicted = !binding.spec.graceful_eviction_tasks.is_empty();
        let grows = growth.is_some() || binding.spec.clusters.is_empty();
        if queue.spec().is_held() && grows && !is_evicted {
            return Err(Box::new(QueueExceeded::Held(Arc::clone(name))));
        }
        let Some(growth) = growth else { return Ok(()) };
        let used = if is_evicted {
            growth.used
        } else {
            growth.used + queue.reserved.clone()
        };
        for (resource, limit) in &queue.limits {
            let change = growth.change.get(resource);
            if change <= Quantity::ZERO {
                continue;
            }
            let (before, requested) = (used.get(resource), used.get(resource) + change);
            let (others, lent) = self.cohort_of(queue, name, resource);
            limit
                .check(before, requested, others, lent)
                .map_err(|excess| {
                    Box::new(QueueExceeded::Quota {
                        queue: Arc::clone(name),
                        resource: resource.clone(),
                        requested,
                        nominal: limit.nominal,
                        remedy: remedy(queue.cohort(), excess, limit.borrowed(requested)),
                    })
                })?;
        }
        Ok(())
    }

    /// Returns the usage of a resource from the cohort by the other queues, and the sum of the lent quota. A queue
    /// without a cohort has a cohort of its own.
    fn cohort_of(&self, queue: &Queue, name: &str, resource: &str) -> (Quantity, Quantity) {
        let cohort = queue.cohort();
        let Some(sums) = cohort.and_then(|cohort| self.cohorts.get(cohort)) else {
            return (Quantity::ZERO, Quantity::ZERO);
        };
        let mut others = sums.used.get(resource) - queue.from_cohort.get(resource);
        let reserving = self.queues.iter().filter(|(other, queue)| {
            !queue.reserved.is_empty() && &***other != name && queue.cohort() == cohort
        });
        for (_, other) in reserving {
            if let Some(limit) = other.limits.get(resource) {
                let total = other.ledger.total().get(resource);
                let with_reserved = total + other.reserved.get(resource);
                others = others + limit.used_of_cohort(with_reserved) - limit.used_of_cohort(total);
            }
        }
        (others, sums.lent.get(resource))
    }

    /// Reports whether this usage for a binding keeps its queue within the nominal quota.
    pub(super) fn is_nominal(&self, key: &BindingKey, wanted: &Amounts) -> bool {
        let Some(queue) = self.members.get(key).and_then(|name| self.queues.get(name)) else {
            return true;
        };
        let used = queue.ledger.total().clone() + queue.reserved.clone();
        let used = used + queue.ledger.growth(key, wanted);
        let mut limits = queue.limits.iter();
        limits.all(|(resource, limit)| used.get(resource) <= limit.nominal)
    }

    /// Returns the changes of the queues of bindings since the last call.
    pub(super) fn take_moved(&mut self) -> Vec<(BindingKey, Option<Arc<str>>)> {
        std::mem::take(&mut self.moved)
    }

    /// Returns the bindings of all queues, with their queues.
    pub(super) fn members(&self) -> impl Iterator<Item = (&BindingKey, &Arc<str>)> {
        self.members.iter()
    }

    /// Returns all queues and the usage of their limited resources: the total, and the part beyond the nominal quota.
    pub(super) fn usages(
        &self,
    ) -> impl Iterator<Item = (&ClusterQueue, Vec<(&str, Quantity, Quantity)>)> {
        self.queues.values().map(|queue| {
            let limits = queue.limits.iter();
            let usage = limits.map(|(resource, limit)| {
                let used = queue.ledger.total().get(resource);
                (&**resource, used, limit.borrowed(used))
            });
            (&queue.object, usage.collect())
        })
    }
}

/// Returns the end of the message about a refusal. `borrowed` is the amount that the queue would borrow.
fn remedy(cohort: Option<&str>, excess: Excess, borrowed: Quantity) -> String {
    match (cohort, excess) {
        (None, _) => String::new(),
        (Some(_), Excess::Borrowing { limit }) => format!("; it may borrow at most {limit}"),
        (Some(cohort), Excess::Cohort { unused }) if borrowed.is_zero() => {
            format!("; cohort {cohort} has {unused} unused, because other queues borrow")
        }
        (Some(cohort), Excess::Cohort { unused }) => {
            format!("; cohort {cohort} has {unused} unused")
        }
    }
}
