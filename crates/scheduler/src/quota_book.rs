//! The usage of FederatedResourceQuotas, which the scheduler checks before it writes a decision.
//!
//! The decisions of one scheduler never raise the usage of a namespace above a limit, because
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
//! The book contains only namespaces with quotas, and has no clock.

mod namespace_usage;
mod watch_events;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use berth_api::binding::{BindingSpec, TargetCluster};
use berth_api::federated_quota::{Amounts, QuotaExceeded, usage};
use berth_api::{Binding, BindingKey, FederatedResourceQuota};

use self::namespace_usage::{Account, NamespaceUsage, Refusal};
pub(crate) use self::watch_events::ListedQuotas;

/// The quotas of all namespaces, the usage of their bindings, and the bindings that wait for room.
#[derive(Debug, Default)]
pub struct QuotaBook {
    /// Namespaces with at least one quota.
    namespaces: HashMap<Arc<str>, NamespaceUsage>,
    /// Decisions of all namespaces that are not written yet, or whose write has an unknown result.
    in_flight: HashMap<BindingKey, InFlight>,
    /// Refused bindings.
    waiting: HashMap<BindingKey, Refusal>,
    /// Bindings that [`Self::take_ready`] has returned and whose cycles have not ended.
    admitted: HashMap<BindingKey, Refusal>,
    /// Namespaces in which a waiting binding may fit.
    with_room: BTreeSet<Arc<str>>,
    /// Number of refusals, for the order of waiting bindings of equal priority.
    refusals: u64,
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
                    (binding.key.name.clone(), account)
                });
                NamespaceUsage::of(accounts.collect())
            });
        if counted.set_quota(quota) {
            self.with_room.insert(namespace);
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
        self.with_room.insert(namespace.into());
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
        let namespace = new.key.namespace.as_deref().unwrap_or_default();
        if let Some(counted) = self.namespaces.get(namespace) {
            let unchanged = counted
                .account(&new.key.name)
                .filter(|_| old.is_some_and(|old| uses_the_same(&old.spec, &new.spec)));
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
        self.cycle_ended(key);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Some(counted) = self.namespaces.get_mut(namespace)
            && counted.remove(&key.name)
        {
            self.with_room.insert(namespace.into());
        }
    }

    /// Checks whether the quotas of the namespace allow the clusters for a binding. A usage that does not grow is always
    /// allowed.
    ///
    /// # Errors
    /// When the usage of a resource grows, and the total usage would exceed the limit of a quota.
    pub fn check(
        &self,
        binding: &Binding,
        clusters: &[TargetCluster],
    ) -> Result<(), Box<QuotaExceeded>> {
        match self.namespace_of(&binding.key) {
            None => Ok(()),
            Some(counted) => {
                let wanted = usage_in(binding, clusters);
                counted.check_beside(&Amounts::default(), &binding.key.name, &wanted)
            }
        }
    }

    /// Sets the clusters of a binding, as if a decision were written. For predictions.
    pub fn placed(&mut self, binding: &Binding, clusters: &[TargetCluster]) {
        if self.namespace_of(&binding.key).is_some() {
            self.set_stored(&binding.key, usage_in(binding, clusters));
        }
    }

    /// Adds a decision that is not written yet. The caller must call [`Self::complete`] after the write.
    pub(crate) fn decided(&mut self, binding: &Binding, clusters: &[TargetCluster]) {
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
    pub(crate) fn refused(&mut self, binding: &Binding, clusters: &[TargetCluster]) {
        self.refusals += 1;
        let refusal = Refusal {
            priority: binding.spec.priority(),
            number: self.refusals,
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
        if self.admitted.remove(key).is_some()
            && let Some(namespace) = &key.namespace
        {
            self.with_room.insert(Arc::clone(namespace));
        }
    }

    /// Returns the waiting bindings that fit now. The caller must schedule each of them and then call
    /// [`Self::cycle_ended`].
    pub(crate) fn take_ready(&mut self) -> Vec<BindingKey> {
        let namespaces = std::mem::take(&mut self.with_room);
        let mut ready = Vec::new();
        for namespace in namespaces {
            ready.extend(self.admit(&namespace));
        }
        ready
    }

    /// Admits the waiting bindings of a namespace that fit beside the bindings that are admitted already.
    fn admit(&mut self, namespace: &str) -> Vec<BindingKey> {
        let mut waiting: Vec<(BindingKey, Refusal)> = of_namespace(&self.waiting, namespace)
            .map(|(key, refusal)| (key.clone(), refusal.clone()))
            .collect();
        waiting.sort_by_key(|(_, refusal)| refusal.order());
        if let Some(counted) = self.namespaces.get(namespace) {
            let mut reserved: Amounts = of_namespace(&self.admitted, namespace)
                .map(|(key, refusal)| counted.growth(&key.name, &refusal.wanted))
                .sum();
            waiting.retain(|(key, refusal)| {
                let (name, wanted) = (&key.name, &refusal.wanted);
                let fits = counted.check_beside(&reserved, name, wanted).is_ok();
                if fits {
                    reserved = std::mem::take(&mut reserved) + counted.growth(name, wanted);
                }
                fits
            });
        }
        for (key, refusal) in &waiting {
            self.waiting.remove(key);
            self.admitted.insert(key.clone(), refusal.clone());
        }
        waiting.into_iter().map(|(key, _)| key).collect()
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

    fn set_stored(&mut self, key: &BindingKey, stored: Amounts) {
        let account = Account {
            maximum: max_usage(self.in_flight.get(key), &stored),
            stored,
        };
        let namespace = key.namespace.as_deref().unwrap_or_default();
        if let Some(counted) = self.namespaces.get_mut(namespace)
            && counted.set(&key.name, account)
        {
            self.with_room.insert(namespace.into());
        }
    }

    /// Updates the maximum usage of a binding after a change of its usage in flight.
    fn update_maximum(&mut self, key: &BindingKey) {
        let account = self
            .namespace_of(key)
            .and_then(|counted| counted.account(&key.name));
        if let Some(account) = account {
            let stored = account.stored.clone();
            self.set_stored(key, stored);
        }
    }
}

/// Returns the refusals of a namespace.
fn of_namespace<'a>(
    refusals: &'a HashMap<BindingKey, Refusal>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a BindingKey, &'a Refusal)> {
    let all = refusals.iter();
    all.filter(move |(key, _)| key.namespace.as_deref() == Some(namespace))
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
