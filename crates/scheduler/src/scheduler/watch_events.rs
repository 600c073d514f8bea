//! The handlers of watch events. They update the state of the scheduler and queue the affected bindings.

use std::sync::Arc;
use std::time::Instant;

use berth_api::{Binding, BindingKey, Cluster, condition};
use berth_engine::ScheduledReason;
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::bindings::AppliedBinding;
use super::object_references::binding_reference;
use super::{Input, Scheduler};
use crate::framework::{Event, EventKind};
use crate::lazy_object::LazyObject;
use crate::metrics::Incoming;
use crate::raw_binding::RawBinding;
use crate::rules::cluster_change::{AffinityMatcher, ApiChange, ClusterDelta};
use crate::rules::plan::REASON_FAILED;
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;

impl Scheduler {
    pub(super) fn handle_watch_event(&mut self, input: Input) {
        match input {
            Input::Cluster(event) => self.handle_cluster_event(event),
            Input::Binding(event) => {
                self.handle_binding_event(Source::Bindings, event, RawBinding::Namespaced);
            }
            Input::ClusterBinding(event) => {
                self.handle_binding_event(
                    Source::ClusterBindings,
                    event,
                    RawBinding::ClusterScoped,
                );
            }
        }
    }

    /// Reports readiness to the probes after every watch has completed its first list.
    fn report_readiness(&self) {
        if self.lists.all_complete() && !self.probes.is_ready() {
            self.probes.set_ready();
            tracing::info!(
                clusters = self.clusters.len(),
                bindings = self.bindings.len(),
                "caches are filled"
            );
        }
    }

    fn handle_cluster_event(&mut self, event: WatchEvent<Cluster>) {
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(cluster) => self.on_cluster_applied(&cluster),
                Err(error) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    tracing::warn!(
                        cluster = name,
                        %error,
                        "cannot read a cluster; its last readable state is kept"
                    );
                }
            },
            WatchEvent::Deleted(metadata) => {
                self.on_cluster_deleted(metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Listed(listing) => {
                self.lists.complete(Source::Clusters);
                let names = self.clusters.names();
                let deleted: Vec<String> = names
                    .filter(|name| !listing.contains("", name))
                    .cloned()
                    .collect();
                for name in deleted {
                    self.on_cluster_deleted(&name);
                }
                self.report_readiness();
            }
        }
    }

    fn on_cluster_applied(&mut self, cluster: &Cluster) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if let Some(estimators) = &self.answers.estimators {
            estimators.client.apply(cluster);
        }
        if let Some(log) = &mut self.decision_log {
            log.cluster(name.clone(), Some(cluster));
        }
        let applied = self.clusters.apply(name.clone(), cluster);
        let mut delta = applied.delta;
        // The report of a cluster may release assumed capacity. The free capacity may then have grown even if the
        // reported capacity shrank.
        if applied.capacity_changed && self.book.cluster_reported(&name) {
            delta.more_capacity = true;
        }
        if delta.reconcile
            && let Some(old) = &applied.old
        {
            self.reconcile_bindings_of(&old.cluster, &applied.new.cluster);
        }
        if let Some(old) = &applied.old
            && let Some(change) = ApiChange::between(old, &applied.new)
        {
            self.reconcile_for_apis(&change, &applied.new.cluster);
        }
        if delta.may_fit || delta.more_capacity {
            self.activate_bindings_for(&applied.new.cluster, delta);
        }
        if self.is_registered(EventKind::Cluster) {
            let event = Event::Cluster(Arc::new(cluster.clone()));
            self.activate_registered(&event, Instant::now());
        }
    }

    /// Handles the deletion of a cluster and reconciles its bindings. If the cluster had no finalizer, no earlier event
    /// showed its deletion timestamp, so its bindings have not been reconciled before.
    fn on_cluster_deleted(&mut self, name: &str) {
        if let Some(estimators) = &self.answers.estimators {
            estimators.client.remove(name);
        }
        if let Some(log) = &mut self.decision_log {
            log.cluster(name.to_owned(), None);
        }
        self.clusters.remove(name);
        if !self.leading {
            return;
        }
        let now = Instant::now();
        if self.is_registered(EventKind::ClusterGone) {
            self.activate_registered(&Event::ClusterGone(name.to_owned()), now);
        }
        for (key, binding) in self.bindings.iter() {
            let is_target = binding.spec.clusters.iter().any(|c| c.name == name);
            if is_target && self.frameworks.in_charge(binding) {
                self.queue
                    .reconcile(key, self.frameworks.rank(binding), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Reconciles the bindings that the old or the new state of a changed cluster affects.
    fn reconcile_bindings_of(&mut self, old: &Cluster, new: &Cluster) {
        if !self.leading {
            return;
        }
        let now = Instant::now();
        let (mut before, mut after) = (AffinityMatcher::new(old), AffinityMatcher::new(new));
        for (key, binding) in self.bindings.iter() {
            let Some(placement) = &binding.spec.placement else {
                continue;
            };
            if self.frameworks.in_charge(binding)
                && (before.reconciles(binding, placement) || after.reconciles(binding, placement))
            {
                self.queue
                    .reconcile(key, self.frameworks.rank(binding), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Reconciles the bindings of resources whose kind a cluster now serves or no longer serves.
    fn reconcile_for_apis(&mut self, change: &ApiChange<'_>, cluster: &Cluster) {
        if !self.leading {
            return;
        }
        let now = Instant::now();
        let mut matcher = AffinityMatcher::new(cluster);
        for (key, binding) in self.bindings.iter() {
            let Some(placement) = &binding.spec.placement else {
                continue;
            };
            if self.frameworks.in_charge(binding)
                && change.affects(binding, placement)
                && matcher.could_be_target(placement)
            {
                self.queue
                    .reconcile(key, self.frameworks.rank(binding), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Activates the bindings that a changed cluster may help: waiting bindings, and bindings in processing.
    fn activate_bindings_for(&mut self, cluster: &Cluster, delta: ClusterDelta) {
        let mut matcher = AffinityMatcher::new(cluster);
        let mut helped = Vec::new();
        let waiting = self.queue.delayed_keys().map(|key| (key, true));
        let in_processing = self.queue.keys_in_processing().map(|key| (key, false));
        for (key, is_waiting) in waiting.chain(in_processing) {
            let Some(binding) = self.bindings.get(key) else {
                continue;
            };
            // The condition of a binding in processing may be outdated, so its reason is not used.
            let no_fit = is_waiting
                && condition::scheduled(&binding.status.conditions)
                    .is_some_and(|c| c.reason == ScheduledReason::NoClusterFit.as_str());
            let relevant = if no_fit {
                delta.may_fit
            } else {
                delta.may_fit || delta.more_capacity
            };
            let placement = binding.spec.placement.as_ref();
            if relevant && placement.is_some_and(|placement| matcher.could_be_target(placement)) {
                helped.push(key.clone());
            }
        }
        let now = Instant::now();
        for key in helped {
            self.queue.activate(&key, now);
            self.metrics.incoming(Incoming::ClusterChanged);
        }
    }

    fn handle_binding_event<K>(
        &mut self,
        source: Source,
        event: WatchEvent<K>,
        raw: fn(Box<LazyObject<K>>) -> RawBinding,
    ) {
        match event {
            WatchEvent::Applied(object) => {
                let key = BindingKey::of(object.metadata());
                self.on_raw_binding(&key, raw(object));
            }
            WatchEvent::Deleted(metadata) => self.on_binding_deleted(&BindingKey::of(&metadata)),
            WatchEvent::Listed(listing) => {
                self.lists.complete(source);
                let namespaced = source == Source::Bindings;
                for key in self.bindings.missing_from(&listing, namespaced) {
                    self.on_binding_deleted(&key);
                }
                self.report_readiness();
            }
        }
    }

    fn on_raw_binding(&mut self, key: &BindingKey, raw: RawBinding) {
        let Some(raw) = self.bindings.receive(key, raw) else {
            return;
        };
        match raw.decode() {
            Ok(binding) => self.on_binding_applied(binding),
            Err(error) => self.report_malformed(key, raw.metadata(), &error.to_string()),
        }
    }

    /// Ends the write of a binding, and handles the newest watch event that arrived during the write, if any.
    pub(super) fn end_write(&mut self, key: &BindingKey) {
        if let Some(raw) = self.bindings.end_write(key) {
            self.on_raw_binding(key, raw);
        }
    }

    fn on_binding_applied(&mut self, binding: Binding) {
        let key = binding.key.clone();
        let passes = self.frameworks.passes(&binding);
        let incoming = match self.bindings.get(&key) {
            None => passes.then_some(Incoming::BindingAdd),
            Some(old) if !binding.at_least_as_new_as(old) => return,
            Some(old) if !passes => {
                if self.frameworks.passes(old) {
                    self.queue.remove(&key);
                }
                None
            }
            Some(old) if !self.frameworks.passes(old) => Some(Incoming::BindingAdd),
            Some(old) => {
                let generation = binding.generation();
                let own = self.bindings.own_generation(&key);
                (generation != old.generation() && generation > own)
                    .then_some(Incoming::BindingUpdate)
            }
        };
        let rank = self.frameworks.rank(&binding);
        self.cache_binding(binding, 0);
        let now = Instant::now();
        if let Some(incoming) = incoming
            && self.leading
        {
            self.queue.push(&key, rank, now);
            self.metrics.incoming(incoming);
        }
        let Some(binding) = self.bindings.get(&key).cloned() else {
            return;
        };
        self.drop_outdated_decision(&binding, now);
        if self.is_registered(EventKind::Binding) {
            self.activate_registered(&Event::Binding(binding), now);
        }
    }

    /// Updates the caches of the scheduler with a binding. `own_generation` is the generation that a write of this
    /// scheduler produced, or 0.
    fn cache_binding(&mut self, binding: Binding, own_generation: i64) {
        if self.bindings.is_news(&binding) {
            self.notify_followers(&binding);
        }
        let now = Instant::now();
        match self.bindings.apply(binding, own_generation) {
            AppliedBinding::Added(binding) => {
                self.book
                    .binding_added(&binding, jiff::Timestamp::now(), now);
                self.plugin_state.set_binding(&binding);
            }
            AppliedBinding::Changed { old, new } => {
                self.book.binding_changed(&old, &new, now);
                self.plugin_state.set_binding(&new);
            }
            AppliedBinding::Outdated => {}
        }
    }

    /// Updates the caches with the object in the response to a write, unless a watch event has since reported the
    /// deletion of the object.
    pub(super) fn cache_written(&mut self, binding: Binding, own_generation: i64) {
        if self.bindings.get(&binding.key).is_some() {
            self.cache_binding(binding, own_generation);
        }
    }

    fn on_binding_deleted(&mut self, key: &BindingKey) {
        let old = self.bindings.remove(key);
        self.plugin_state.remove_binding(key);
        self.queue.remove(key);
        let now = Instant::now();
        self.notify_followers_of_deletion(key);
        self.preemption_retries.remove(key);
        self.drop_parked(key, now);
        if let Some(old) = &old
            && self.is_registered(EventKind::BindingGone)
        {
            self.activate_registered(&Event::BindingGone(Arc::clone(old)), now);
        }
        let released = self.book.binding_deleted(key, old.as_deref(), now);
        self.on_capacity_released(released);
    }

    /// Removes expired entries of the capacity book.
    pub(super) fn expire_assumed_capacity(&mut self, now: Instant) {
        let released = self.book.expire(now);
        self.on_capacity_released(released);
    }

    /// Activates the bindings that may fit after assumed capacity was released. No report of a cluster shows this
    /// release.
    fn on_capacity_released(&mut self, clusters: impl IntoIterator<Item = String>) {
        for name in clusters {
            if let Some(cluster) = self.clusters.get(&name) {
                let delta = ClusterDelta {
                    more_capacity: true,
                    ..ClusterDelta::default()
                };
                self.activate_bindings_for(&cluster, delta);
            }
        }
    }

    fn report_malformed(&self, key: &BindingKey, metadata: &ObjectMeta, error: &str) {
        tracing::warn!(binding = %key, error, "cannot read a binding");
        if self.leading {
            let message = format!("cannot read {}: {error}", key.kind());
            let note = Note {
                severity: Severity::Warning,
                reason: REASON_FAILED,
                message,
            };
            let reference = binding_reference(key, metadata);
            self.recorder.record(note.about(reference));
        }
    }
}
