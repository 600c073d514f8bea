//! The usage of FederatedResourceQuotas and ClusterQueues, which the scheduler checks before it writes a decision.
//!
//! A namespace and a ClusterQueue are two owners of limits. Both have a [`Ledger`], and a decision must fit in both. The
//! decisions of one scheduler never raise the usage of an owner above a limit, because
//! - the scheduler makes one decision at a time, and only after the first lists of bindings and quotas are complete, so
//!   that the [`QuotaBook`] contains every binding;
//! - a decision counts from the moment it is made, not from the watch event that shows it. A binding counts with the
//!   maximum of its stored usage, its decision, and its writes whose result is unknown;
//! - a write whose result is unknown counts until the resourceVersion of its binding changes. Every write has the
//!   resourceVersion as a precondition, so that it can no longer succeed after this change.
//!
//! Other clients are outside of this guarantee: a second scheduler, a controller that raises the requests of a placed
//! binding, and a former leader whose last writes the watches of the next leader do not show yet. The admission webhook
//! checks their writes.
//!
//! A refused binding waits. When the usage falls or a quota changes, [`QuotaBook::take_ready`] returns as many waiting
//! bindings as fit together, those with the highest priority first. The room of a returned binding stays reserved for
//! it until its cycle ends. If the binding does not use the room, the next bindings get it.
//!
//! The book contains only namespaces with quotas and bindings of ClusterQueues, and has no clock.

mod cluster_queues;
mod cohort;
mod ledger;
mod namespace_usage;
mod watch_events;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::federated_quota::{Amounts, QuotaExceeded, usage};
use berth_api::{Binding, BindingKey, ClusterQueue, FederatedResourceQuota};
use berth_apimachinery::quantity::Quantity;

use self::cluster_queues::ClusterQueues;
pub use self::cluster_queues::QueueExceeded;
use self::ledger::{Account, Ledger};
use self::namespace_usage::NamespaceUsage;
pub(crate) use self::watch_events::ListedQuotas;

/// The quotas of all namespaces and queues, the usage of their bindings, and the bindings that wait for room.
#[derive(Debug, Default)]
pub struct QuotaBook {
    /// Namespaces with at least one quota.
    namespaces: HashMap<Arc<str>, NamespaceUsage>,
    queues: ClusterQueues,
    /// Decisions of all namespaces that are not written yet, or whose write has an unknown result.
    in_flight: HashMap<BindingKey, InFlight>,
    /// Refused bindings.
    waiting: HashMap<BindingKey, Refusal>,
    /// Bindings that [`Self::take_ready`] has returned and whose cycles have not ended.
    admitted: HashMap<BindingKey, Admission>,
    /// Owners of limits in which a waiting binding may fit.
    with_room: BTreeSet<Owner>,
    /// The places of refused bindings among those of equal priority. A binding keeps its place when it is refused again.
    places: HashMap<BindingKey, u64>,
    /// Number of places that were given.
    refusals: u64,
}

/// An owner of limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Namespace(Arc<str>),
    /// A ClusterQueue, and the other queues of its cohort.
    Queue(Arc<str>),
    /// All owners, after the bindings of queues have changed.
    All,
}

/// A decision that a limit refused.
#[derive(Clone, Debug)]
struct Refusal {
    priority: i32,
    number: u64,
    binding: Arc<Binding>,
    /// Usage of the binding after the decision.
    wanted: Amounts,
}

impl Refusal {
    /// Returns the sort key of the order in which refused bindings get room.
    fn order(&self) -> (Reverse<i32>, u64) {
        (Reverse(self.priority), self.number)
    }
}

/// The room that is reserved for a binding.
#[derive(Clone, Debug)]
struct Admission {
    namespace: Amounts,
    queue: Option<(Arc<str>, Amounts)>,
}

/// A limit refuses a decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// A FederatedResourceQuota of the namespace.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The ClusterQueue of the binding.
    #[error(transparent)]
    Queue(#[from] QueueExceeded),
}

/// The usage by writes of a binding that the binding does not show yet.
#[derive(Clone, Debug, Default)]
struct InFlight {
    /// The decision that is parked or being written.
    decided: Option<Decided>,
    /// Maximum usage of the writes whose result is unknown.
    unknown: Option<Amounts>,
}

/// The usage by a decision, and the version of the binding that its write requires.
#[derive(Clone, Debug)]
struct Decided {
    usage: Amounts,
    resource_version: String,
}

impl InFlight {
    fn is_empty(&self) -> bool {
        self.decided.is_none() && self.unknown.is_none()
    }

    /// Returns the maximum usage of a binding with this stored usage.
    fn max_usage(&self, stored: Amounts) -> Amounts {
        let decided = self.decided.as_ref().map(|decided| &decided.usage);
        let in_flight = decided.into_iter().chain(&self.unknown);
        in_flight.fold(stored, Amounts::max)
    }
}

impl QuotaBook {
    /// Adds or replaces a quota. `bindings` are all known bindings: the book starts to count the bindings of a namespace
    /// with the first quota of the namespace.
    pub fn quota_applied<'a>(
        &mut self,
        quota: FederatedResourceQuota,
        bindings: impl Iterator<Item = &'a Binding>,
    ) {
        let namespace: Arc<str> = quota
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
            .into();
        let in_flight = &self.in_flight;
        let counted = self
            .namespaces
            .entry(Arc::clone(&namespace))
            .or_insert_with(|| {
                let of_namespace =
                    bindings.filter(|binding| binding.key.namespace.as_ref() == Some(&namespace));
                let accounts = of_namespace.map(|binding| {
                    let stored = usage(&binding.spec);
                    let account = Account {
                        maximum: max_usage(in_flight.get(&binding.key), &stored),
                        stored,
                    };
                    (binding.key.clone(), account)
                });
                NamespaceUsage::of(Ledger::of(accounts.collect()))
            });
        if counted.set_quota(quota) {
            self.with_room.insert(Owner::Namespace(namespace));
        }
    }

    /// Removes a deleted quota.
    pub(crate) fn quota_deleted(&mut self, namespace: &str, name: &str) {
        let Some(counted) = self.namespaces.get_mut(namespace) else {
            return;
        };
        counted.remove_quota(name);
        if !counted.has_quotas() {
            self.namespaces.remove(namespace);
        }
        self.with_room.insert(Owner::Namespace(namespace.into()));
    }

    /// Removes the quotas for which `is_listed` returns false, after a complete list.
    pub(crate) fn retain_quotas(&mut self, is_listed: impl Fn(&str, &str) -> bool) {
        let known = self.namespaces.iter();
        let known = known.flat_map(|(namespace, counted)| {
            let names = counted.quota_names();
            names.map(move |name| (Arc::clone(namespace), name.to_owned()))
        });
        let deleted: Vec<(Arc<str>, String)> = known
            .filter(|(namespace, name)| !is_listed(namespace, name))
            .collect();
        for (namespace, name) in deleted {
            self.quota_deleted(&namespace, &name);
        }
    }

    /// Updates the usage after a binding was added or changed. `old` is the former state of a changed binding.
    pub(crate) fn binding_changed(&mut self, old: Option<&Binding>, new: &Binding) {
        let is_same_version = old.is_some_and(|old| {
            old.uid() == new.uid() && old.resource_version() == new.resource_version()
        });
        if is_same_version {
            return;
        }
        // The change may have made the binding leave the queue.
        self.cycle_ended(&new.key);
        if let Some(in_flight) = self.in_flight.get_mut(&new.key) {
            in_flight.unknown = None;
            if in_flight.is_empty() {
                self.in_flight.remove(&new.key);
            }
        }
        let in_flight = &self.in_flight;
        if let Some(left) = self.queues.place(new, || account_of(in_flight, new)) {
            self.with_room.insert(Owner::Queue(left));
            let entered = self.queues.of(&new.key).cloned();
            self.with_room.extend(entered.map(Owner::Queue));
        }
        let known = self.account(&new.key);
        if known.is_some() || self.namespace_of(&new.key).is_some() {
            let unchanged =
                known.filter(|_| old.is_some_and(|old| uses_the_same(&old.spec, &new.spec)));
            let stored = match unchanged {
                Some(account) => account.stored.clone(),
                None => usage(&new.spec),
            };
            self.set_stored(&new.key, stored);
        }
    }

    /// Removes a deleted binding.
    pub(crate) fn binding_deleted(&mut self, key: &BindingKey) {
        self.in_flight.remove(key);
        self.waiting.remove(key);
        self.places.remove(key);
        self.cycle_ended(key);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Some(counted) = self.namespaces.get_mut(namespace)
            && counted.ledger.remove(key)
        {
            self.with_room.insert(Owner::Namespace(namespace.into()));
        }
        self.with_room
            .extend(self.queues.forget(key).map(Owner::Queue));
    }

    /// Checks whether the quotas of the namespace and the ClusterQueue allow the clusters for a binding. A usage that does
    /// not grow is always allowed.
    ///
    /// # Errors
    /// When the usage of a resource grows, and the total usage would exceed a limit.
    pub fn check(
        &self,
        binding: &Binding,
        clusters: &[TargetCluster],
    ) -> Result<(), Box<LimitExceeded>> {
        let counted = self.namespace_of(&binding.key);
        if counted.is_none() && self.queues.is_empty() {
            return Ok(());
        }
        let wanted = usage_in(binding, clusters);
        let fits = match counted {
            None => Ok(()),
            Some(counted) => counted.check_beside(&Amounts::default(), &binding.key, &wanted),
        };
        fits.map_err(|exceeded| LimitExceeded::from(*exceeded))?;
        if clusters.is_empty() {
            return Ok(());
        }
        let fits = self.queues.check(binding, &wanted);
        fits.map_err(|exceeded| LimitExceeded::from(*exceeded))?;
        Ok(())
    }

    /// Sets the clusters of a binding, as if a decision were written. For predictions.
    pub fn placed(&mut self, binding: &Binding, clusters: &[TargetCluster]) {
        if self.account(&binding.key).is_some() || self.namespace_of(&binding.key).is_some() {
            self.set_stored(&binding.key, usage_in(binding, clusters));
        }
    }

    /// Adds a decision that is not written yet. The caller must call [`Self::complete`] after the write.
    pub(crate) fn decided(&mut self, binding: &Binding, clusters: &[TargetCluster]) {
        self.places.remove(&binding.key);
        if binding.key.namespace.is_none() {
            return;
        }
        let in_flight = self.in_flight.entry(binding.key.clone()).or_default();
        in_flight.decided = Some(Decided {
            usage: usage_in(binding, clusters),
            resource_version: binding.resource_version().to_owned(),
        });
        self.update_maximum(&binding.key);
    }

    /// Keeps the usage of a decision beyond [`Self::complete`], until the resourceVersion of the binding changes,
    /// because its write may have succeeded or may still succeed. `known` is the present state of the binding.
    pub(crate) fn result_unknown(&mut self, key: &BindingKey, known: Option<&Binding>) {
        let Some(in_flight) = self.in_flight.get_mut(key) else {
            return;
        };
        if let Some(decided) = in_flight.decided.take()
            && known.is_some_and(|known| known.resource_version() == decided.resource_version)
        {
            in_flight.unknown = Some(in_flight.max_usage(decided.usage));
        }
    }

    /// Completes a decision, which is stored or can no longer be stored. The caller then applies a stored binding before
    /// the next decision.
    pub(crate) fn complete(&mut self, key: &BindingKey) {
        let Some(in_flight) = self.in_flight.get_mut(key) else {
            return;
        };
        in_flight.decided = None;
        if in_flight.is_empty() {
            self.in_flight.remove(key);
        }
        self.update_maximum(key);
    }

    /// Records that the binding waits, because [`Self::check`] refused these clusters.
    pub(crate) fn refused(&mut self, binding: &Arc<Binding>, clusters: &[TargetCluster]) {
        let next = self.refusals + 1;
        let number = *self.places.entry(binding.key.clone()).or_insert(next);
        self.refusals = self.refusals.max(number);
        let refusal = Refusal {
            priority: binding.spec.priority(),
            number,
            binding: Arc::clone(binding),
            wanted: usage_in(binding, clusters),
        };
        self.waiting.insert(binding.key.clone(), refusal);
    }

    /// Records that there is a new decision about a binding, which replaces an earlier refusal.
    pub(crate) fn concluded(&mut self, key: &BindingKey) {
        self.waiting.remove(key);
        self.cycle_ended(key);
    }

    /// Records that the cycle of a binding ended, whatever its result is. Other bindings may get the room that was
    /// reserved for the binding.
    pub(crate) fn cycle_ended(&mut self, key: &BindingKey) {
        let Some(admission) = self.admitted.remove(key) else {
            return;
        };
        if let Some(namespace) = &key.namespace {
            self.with_room
                .insert(Owner::Namespace(Arc::clone(namespace)));
        }
        if let Some((queue, amounts)) = admission.queue {
            self.queues.reserve(&queue, &amounts.times(-1));
            self.with_room.insert(Owner::Queue(queue));
        }
    }

    /// Returns the waiting bindings that fit now. The caller must schedule each of them and then call
    /// [`Self::cycle_ended`].
    pub(crate) fn take_ready(&mut self) -> Vec<BindingKey> {
        let owners = std::mem::take(&mut self.with_room);
        let mut ready = Vec::new();
        for owner in owners {
            ready.extend(self.admit(&owner));
        }
        ready
    }

    /// Admits the waiting bindings of an owner that fit beside the bindings that are admitted already. Bindings that fit
    /// within the nominal quota of their queue come first, so that a queue gets its own quota back before others borrow it.
    fn admit(&mut self, owner: &Owner) -> Vec<BindingKey> {
        let concerned = self
            .waiting
            .iter()
            .filter(|(key, _)| self.concerns(owner, key));
        let mut waiting: Vec<Refusal> = concerned.map(|(_, refusal)| refusal.clone()).collect();
        waiting.sort_by_key(Refusal::order);
        let mut reserved = self.reserved_in_namespaces();
        let mut admitted = Vec::new();
        for borrows in [Borrowing::Refused, Borrowing::Allowed] {
            waiting.retain(|refusal| {
                let key = &refusal.binding.key;
                let namespace = key.namespace.clone().unwrap_or_default();
                let in_namespace = reserved.entry(namespace).or_default();
                let fits = self.has_room(refusal, borrows, in_namespace);
                if fits {
                    let growth = self.reserve(refusal);
                    *in_namespace = std::mem::take(in_namespace) + growth;
                    admitted.push(key.clone());
                }
                !fits
            });
        }
        admitted
    }

    /// Returns the room that is reserved for admitted bindings, by namespace.
    fn reserved_in_namespaces(&self) -> HashMap<Arc<str>, Amounts> {
        let mut reserved: HashMap<Arc<str>, Amounts> = HashMap::new();
        for (key, admission) in &self.admitted {
            let namespace = key.namespace.clone().unwrap_or_default();
            let sum = reserved.entry(namespace).or_default();
            *sum = std::mem::take(sum) + admission.namespace.clone();
        }
        reserved
    }

    fn concerns(&self, owner: &Owner, key: &BindingKey) -> bool {
        match owner {
            Owner::All => true,
            Owner::Namespace(namespace) => key.namespace.as_ref() == Some(namespace),
            Owner::Queue(changed) => {
                let queue = self.queues.of(key);
                queue.is_none_or(|queue| self.queues.share_quota(changed, queue))
            }
        }
    }

    /// Reports whether a refused binding fits beside the admitted bindings. `reserved` is the room of those in its
    /// namespace.
    fn has_room(&self, refusal: &Refusal, borrowing: Borrowing, reserved: &Amounts) -> bool {
        let Refusal {
            binding, wanted, ..
        } = refusal;
        let key = &binding.key;
        let is_concerned = match borrowing {
            Borrowing::Refused => self.queues.is_nominal(key, wanted),
            Borrowing::Allowed => self.queues.of(key).is_some(),
        };
        if !is_concerned {
            return false;
        }
        let in_namespace = self
            .namespace_of(key)
            .is_none_or(|counted| counted.check_beside(reserved, key, wanted).is_ok());
        in_namespace && self.queues.check(binding, wanted).is_ok()
    }

    /// Reserves the room of a binding until its cycle ends. Returns the room in its namespace.
    fn reserve(&mut self, refusal: &Refusal) -> Amounts {
        let (key, wanted) = (&refusal.binding.key, &refusal.wanted);
        self.waiting.remove(key);
        let counted = self.namespace_of(key);
        let queue = self.queues.of(key).cloned();
        let admission = Admission {
            namespace: counted
                .map(|counted| counted.ledger.growth(key, wanted))
                .unwrap_or_default(),
            queue: queue.map(|queue| (queue, self.queues.growth(key, wanted))),
        };
        if let Some((queue, amounts)) = &admission.queue {
            self.queues.reserve(queue, amounts);
        }
        let in_namespace = admission.namespace.clone();
        self.admitted.insert(key.clone(), admission);
        in_namespace
    }

    /// Releases the reserved room of all bindings, after a change of the configuration that may have removed them from
    /// the queue.
    pub(crate) fn release_admitted(&mut self) {
        let admitted: Vec<BindingKey> = self.admitted.keys().cloned().collect();
        for key in admitted {
            self.cycle_ended(&key);
        }
    }

    fn namespace_of(&self, key: &BindingKey) -> Option<&NamespaceUsage> {
        self.namespaces.get(key.namespace.as_deref()?)
    }

    /// Returns the usage of a binding with limits.
    fn account(&self, key: &BindingKey) -> Option<&Account> {
        let of_queue = self.queues.account(key);
        of_queue.or_else(|| self.namespace_of(key)?.ledger.account(key))
    }

    fn set_stored(&mut self, key: &BindingKey, stored: Amounts) {
        let account = Account {
            maximum: max_usage(self.in_flight.get(key), &stored),
            stored,
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Some(counted) = self.namespaces.get_mut(namespace)
            && counted.ledger.set(key, account.clone())
        {
            self.with_room.insert(Owner::Namespace(namespace.into()));
        }
        self.with_room
            .extend(self.queues.set(key, account).map(Owner::Queue));
    }

    /// Updates the maximum usage of a binding after a change of its usage in flight.
    fn update_maximum(&mut self, key: &BindingKey) {
        if let Some(account) = self.account(key) {
            let stored = account.stored.clone();
            self.set_stored(key, stored);
        }
    }
}

/// The ClusterQueues in the book. After these changes, [`QuotaBook::refresh_queues`] must run before the next decision.
impl QuotaBook {
    /// Adds or replaces a ClusterQueue.
    pub fn queue_applied(&mut self, queue: ClusterQueue) {
        self.queues.apply(queue);
    }

    /// Removes a deleted ClusterQueue.
    pub(crate) fn queue_deleted(&mut self, name: &str) {
        self.queues.delete(name);
        // A queue of the same name that is created later has no reservations.
        for admission in self.admitted.values_mut() {
            let queue = &mut admission.queue;
            queue.take_if(|(queue, _)| **queue == *name);
        }
    }

    /// Removes the ClusterQueues for which `is_listed` returns false, after a complete list.
    pub(crate) fn retain_queues(&mut self, is_listed: impl Fn(&str) -> bool) {
        let names = self.queues.names().cloned();
        let deleted: Vec<Arc<str>> = names.filter(|name| !is_listed(name)).collect();
        for name in deleted {
            self.queue_deleted(&name);
        }
    }

    /// Adds or replaces the labels of a namespace.
    pub fn namespace_applied(&mut self, name: &str, labels: BTreeMap<String, String>) {
        self.queues.namespace_applied(name, labels);
    }

    /// Removes the namespaces for which `is_kept` returns false.
    pub(crate) fn retain_namespaces(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.queues.retain_namespaces(is_kept);
    }

    /// Assigns all bindings to their queues, if a queue or a namespace has changed. Reports whether there was a change.
    pub fn refresh_queues<'a>(&mut self, bindings: impl Iterator<Item = &'a Binding>) -> bool {
        let in_flight = &self.in_flight;
        let is_changed = self
            .queues
            .refresh(bindings, |binding| account_of(in_flight, binding));
        if is_changed {
            self.with_room.insert(Owner::All);
        }
        is_changed
    }

    /// Returns the bindings whose queue has changed since the last call, with their present queue.
    pub(crate) fn take_moved(&mut self) -> Vec<(BindingKey, Option<Arc<str>>)> {
        self.queues.take_moved()
    }

    /// Returns the bindings of all queues, with their queues.
    pub(crate) fn queue_members(&self) -> impl Iterator<Item = (&BindingKey, &Arc<str>)> {
        self.queues.members()
    }

    /// Returns all queues and the usage of their limited resources: the total, and the part beyond the nominal quota.
    pub(crate) fn queue_usages(
        &self,
    ) -> impl Iterator<Item = (&ClusterQueue, Vec<(&str, Quantity, Quantity)>)> {
        self.queues.usages()
    }

    /// Reports whether a limit refused the last decision about a binding.
    pub(crate) fn waits(&self, key: &BindingKey) -> bool {
        self.waiting.contains_key(key)
    }
}

/// Use of quota beyond the nominal quota of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Borrowing {
    Refused,
    Allowed,
}

/// Returns the usage of a stored binding.
fn account_of(in_flight: &HashMap<BindingKey, InFlight>, binding: &Binding) -> Account {
    let stored = usage(&binding.spec);
    Account {
        maximum: max_usage(in_flight.get(&binding.key), &stored),
        stored,
    }
}

/// Returns the maximum usage of a binding.
fn max_usage(in_flight: Option<&InFlight>, stored: &Amounts) -> Amounts {
    match in_flight {
        None => stored.clone(),
        Some(in_flight) => in_flight.max_usage(stored.clone()),
    }
}

/// Returns the usage of a binding in these clusters.
fn usage_in(binding: &Binding, clusters: &[TargetCluster]) -> Amounts {
    usage(&BindingSpec {
        clusters: clusters.to_vec(),
        components: binding.spec.components.clone(),
        replica_requirements: binding.spec.replica_requirements.clone(),
        ..BindingSpec::default()
    })
}

fn uses_the_same(old: &BindingSpec, new: &BindingSpec) -> bool {
    old.clusters == new.clusters
        && old.components == new.components
        && old.replica_requirements == new.replica_requirements
}

#[cfg(test)]
mod tests;
