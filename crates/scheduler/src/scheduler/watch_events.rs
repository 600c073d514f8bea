//! The handlers of watch events. They update the cache of the scheduler and queue the affected bindings. On a standby,
//! `leading` is `None`, and they only update the cache.

use std::sync::Arc;
use std::time::Instant;

use berth_api::node_pools::NodePools;
use berth_api::well_known::{NODE_POOLS, REPLICA_LIMITS};
use berth_api::{Binding, BindingKey, BindingKind, Cluster, condition};
use berth_engine::ScheduledReason;

use super::event_hints;
use super::leadership::Leading;
use super::{Input, Scheduler};
use crate::framework::{Event, EventKind};
use crate::lazy_object::LazyObject;
use crate::metrics::Incoming;
use crate::raw_binding::RawBinding;
use crate::rules::cluster_change::{AffinityMatcher, ApiChange, ClusterDelta};
use crate::watch::WatchEvent;
use crate::watch::list_progress::Source;

impl Scheduler {
    pub(super) fn handle_watch_event(&mut self, leading: Option<&mut Leading>, input: Input) {
        match input {
            Input::Cluster(event) => self.handle_cluster_event(leading, event),
            Input::Binding(event) => {
                self.handle_binding_event(leading, Source::Bindings, event, RawBinding::Namespaced);
            }
            Input::ClusterBinding(event) => {
                self.handle_binding_event(
                    leading,
                    Source::ClusterBindings,
                    event,
                    RawBinding::ClusterScoped,
                );
            }
            Input::Quota(event) => self.handle_quota_event(event),
            Input::ClusterQueue(event) => self.handle_cluster_queue_event(event),
            Input::Namespace(event) => self.handle_namespace_event(event),
            Input::Score(event) => self.handle_score_event(leading, event),
        }
    }

    /// Reports readiness to the probes after every watch has completed its first list.
    pub(super) fn report_readiness(&self) {
        if self.cache.lists.all_complete() && !self.probes.is_ready() {
            self.probes.set_ready();
            tracing::info!(
                clusters = self.cache.clusters.len(),
                bindings = self.cache.bindings.len(),
                "caches are filled"
            );
        }
    }

    fn handle_cluster_event(
        &mut self,
        mut leading: Option<&mut Leading>,
        event: WatchEvent<Cluster>,
    ) {
        match event {
            WatchEvent::Applied(object) => match object.decode() {
                Ok(cluster) => self.on_cluster_applied(leading, &cluster),
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
                self.on_cluster_deleted(leading, metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Listed(listing) => {
                self.cache.lists.complete(Source::Clusters);
                let names = self.cache.clusters.names();
                let deleted: Vec<String> = names
                    .filter(|name| !listing.contains("", name))
                    .cloned()
                    .collect();
                for name in deleted {
                    self.on_cluster_deleted(leading.as_deref_mut(), &name);
                }
                self.report_readiness();
            }
        }
    }

    fn on_cluster_applied(&mut self, leading: Option<&mut Leading>, cluster: &Cluster) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if let Some(estimators) = &self.answers.estimators {
            estimators.client.apply(cluster);
        }
        if let Some(log) = &mut self.records.decision_log {
            log.cluster(name.clone(), Some(cluster));
        }
        let version = cluster.metadata.resource_version.as_deref();
        let version = version.unwrap_or_default();
        let applied = self.cache.clusters.apply(name.clone(), cluster);
        if self.config.node_pool_estimate
            && applied.new.node_pools_changed(applied.old.as_ref())
            && let Some(error) = NodePools::error(cluster)
        {
            tracing::warn!(
                cluster = name,
                %error,
                "the annotation {NODE_POOLS} is malformed, so estimates ignore it"
            );
        }
        let mut delta = applied.delta;
        // The report of a cluster may release assumed capacity. The free capacity may then have grown even if the
        // reported capacity shrank.
        if applied.capacity_changed && self.cache.book.cluster_reported(&name, version) {
            delta.more_capacity = true;
        }
        let Some(leading) = leading else { return };
        if delta.reconcile
            && let Some(old) = &applied.old
        {
            self.reconcile_bindings_of(leading, &old.cluster, &applied.new.cluster);
        }
        if let Some(old) = &applied.old
            && let Some(change) = ApiChange::between(old, &applied.new)
        {
            self.reconcile_for_apis(leading, &change, &applied.new.cluster);
        }
        if delta.may_fit || delta.more_capacity {
            self.activate_bindings_for(leading, &applied.new.cluster, delta);
        }
        if self.config.is_registered(EventKind::Cluster) {
            let event = Event::Cluster(Arc::new(cluster.clone()));
            self.activate_registered(leading, &event, Instant::now());
        }
    }

    /// Handles the deletion of a cluster and reconciles its bindings. If the cluster had no finalizer, no earlier event
    /// showed its deletion timestamp, so its bindings have not been reconciled before.
    fn on_cluster_deleted(&mut self, leading: Option<&mut Leading>, name: &str) {
        if let Some(estimators) = &self.answers.estimators {
            estimators.client.remove(name);
        }
        if let Some(log) = &mut self.records.decision_log {
            log.cluster(name.to_owned(), None);
        }
        self.cache.clusters.remove(name);
        let Some(leading) = leading else { return };
        let now = Instant::now();
        if self.config.is_registered(EventKind::ClusterGone) {
            self.activate_registered(leading, &Event::ClusterGone(name.to_owned()), now);
        }
        for (key, binding) in self.cache.bindings.iter() {
            let is_target = binding.spec.clusters.iter().any(|c| c.name == name);
            if is_target && self.config.frameworks.in_charge(binding) {
                leading
                    .queue
                    .reconcile(key, self.config.frameworks.rank(binding), now);
                self.records.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Reconciles the bindings that the old or the new state of a changed cluster affects.
    fn reconcile_bindings_of(&self, leading: &mut Leading, old: &Cluster, new: &Cluster) {
        let now = Instant::now();
        let (mut before, mut after) = (AffinityMatcher::new(old), AffinityMatcher::new(new));
        for (key, binding) in self.cache.bindings.iter() {
            let Some(placement) = &binding.spec.placement else {
                continue;
            };
            if self.config.frameworks.in_charge(binding)
                && (before.reconciles(binding, placement) || after.reconciles(binding, placement))
            {
                leading
                    .queue
                    .reconcile(key, self.config.frameworks.rank(binding), now);
                self.records.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Reconciles the bindings of resources whose kind a cluster now serves or no longer serves.
    fn reconcile_for_apis(&self, leading: &mut Leading, change: &ApiChange<'_>, cluster: &Cluster) {
        let now = Instant::now();
        let mut matcher = AffinityMatcher::new(cluster);
        for (key, binding) in self.cache.bindings.iter() {
            let Some(placement) = &binding.spec.placement else {
                continue;
            };
            if self.config.frameworks.in_charge(binding)
                && change.affects(binding, placement)
                && matcher.could_be_target(placement)
            {
                leading
                    .queue
                    .reconcile(key, self.config.frameworks.rank(binding), now);
                self.records.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Activates the bindings that a changed cluster may help: waiting bindings, and bindings in processing.
    fn activate_bindings_for(&self, leading: &mut Leading, cluster: &Cluster, delta: ClusterDelta) {
        let mut matcher = AffinityMatcher::new(cluster);
        let mut helped = Vec::new();
        let waiting = leading.queue.delayed_keys().map(|key| (key, true));
        let in_processing = leading.queue.keys_in_processing().map(|key| (key, false));
        for (key, is_waiting) in waiting.chain(in_processing) {
            let Some(binding) = self.cache.bindings.get(key) else {
                continue;
            };
            // The condition of a binding in processing may be outdated, so its reason is not used.
            let capacity_does_not_help = is_waiting
                && condition::scheduled(&binding.status.conditions).is_some_and(|c| {
                    c.reason == ScheduledReason::NoClusterFit.as_str()
                        || c.reason == ScheduledReason::QuotaExceeded.as_str()
                });
            let relevant = if capacity_does_not_help {
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
            leading.queue.activate(&key, now);
            self.records.metrics.incoming(Incoming::ClusterChanged);
        }
    }

    fn handle_binding_event<K>(
        &mut self,
        mut leading: Option<&mut Leading>,
        source: Source,
        event: WatchEvent<K>,
        raw: fn(Box<LazyObject<K>>) -> RawBinding,
    ) {
        match event {
            WatchEvent::Applied(object) => {
                let key = BindingKey::of(object.metadata());
                self.on_raw_binding(leading, &key, raw(object));
            }
            WatchEvent::Deleted(metadata) => {
                self.on_binding_deleted(leading, &BindingKey::of(&metadata));
            }
            WatchEvent::Listed(listing) => {
                self.cache.lists.complete(source);
                let kind = match source {
                    Source::Bindings => BindingKind::Namespaced,
                    Source::ClusterBindings
                    | Source::Clusters
                    | Source::Quotas
                    | Source::ClusterQueues
                    | Source::Namespaces
                    | Source::Scores => BindingKind::Cluster,
                };
                for key in self.cache.bindings.missing_from(&listing, kind) {
                    self.on_binding_deleted(leading.as_deref_mut(), &key);
                }
                self.report_readiness();
            }
        }
    }

    fn on_raw_binding(&mut self, leading: Option<&mut Leading>, key: &BindingKey, raw: RawBinding) {
        let Some(raw) = self.cache.bindings.receive(key, raw) else {
            return;
        };
        match raw.decode() {
            Ok(binding) => self.on_binding_applied(leading, binding),
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(binding = %key, error, "cannot read a binding");
                if leading.is_some() {
                    self.records.malformed(key, raw.metadata(), &error);
                }
            }
        }
    }

    /// Ends the write of a binding, and handles the newest watch event that arrived during the write, if any.
    pub(super) fn end_write(&mut self, leading: &mut Leading, key: &BindingKey) {
        if let Some(raw) = self.cache.bindings.end_write(key) {
            self.on_raw_binding(Some(leading), key, raw);
        }
    }

    fn on_binding_applied(&mut self, mut leading: Option<&mut Leading>, binding: Binding) {
        let key = binding.key.clone();
        let passes = self.config.frameworks.passes(&binding);
        let incoming = match self.cache.bindings.get(&key) {
            None => passes.then_some(Incoming::BindingAdd),
            Some(old) if !binding.at_least_as_new_as(old) => return,
            Some(old) if !passes => {
                if self.config.frameworks.passes(old)
                    && let Some(leading) = leading.as_deref_mut()
                {
                    leading.queue.remove(&key);
                }
                None
            }
            Some(old) if !self.config.frameworks.passes(old) => Some(Incoming::BindingAdd),
            Some(old) => {
                let generation = binding.generation();
                let own = self.cache.bindings.own_generation(&key);
                let spec_changed = generation != old.generation() && generation > own;
                // A change of an annotation keeps the generation.
                let limits_changed =
                    || old.annotation(REPLICA_LIMITS) != binding.annotation(REPLICA_LIMITS);
                (spec_changed || limits_changed()).then_some(Incoming::BindingUpdate)
            }
        };
        let rank = self.config.frameworks.rank(&binding);
        self.cache.apply(&self.config, binding, 0);
        let Some(leading) = leading else { return };
        let now = Instant::now();
        if let Some(incoming) = incoming {
            leading.queue.push(&key, rank, now);
            self.records.metrics.incoming(incoming);
        }
        let Some(binding) = self.cache.bindings.get(&key).cloned() else {
            return;
        };
        self.drop_outdated_decision(leading, &binding, now);
        if self.config.is_registered(EventKind::Binding) {
            self.activate_registered(leading, &Event::Binding(binding), now);
        }
    }

    fn on_binding_deleted(&mut self, mut leading: Option<&mut Leading>, key: &BindingKey) {
        let old = self.cache.bindings.remove(key);
        self.cache.plugin_state.remove_binding(key);
        let now = Instant::now();
        self.config.notify_followers_of_deletion(key);
        if let Some(leading) = leading.as_deref_mut() {
            leading.queue.remove(key);
            leading.preemption_retries.remove(key);
            self.drop_parked(leading, key, now);
            if let Some(old) = &old
                && self.config.is_registered(EventKind::BindingGone)
            {
                self.activate_registered(leading, &Event::BindingGone(Arc::clone(old)), now);
            }
        }
        if let Some(quotas) = &mut self.cache.quotas {
            quotas.binding_deleted(key);
        }
        let released = self.cache.book.binding_deleted(key, old.as_deref(), now);
        if let Some(leading) = leading {
            self.on_capacity_released(leading, released);
        }
    }

    /// Removes expired entries of the capacity book.
    pub(super) fn expire_assumed_capacity(&mut self, leading: Option<&mut Leading>, now: Instant) {
        let released = self.cache.book.expire(now);
        if let Some(leading) = leading {
            self.on_capacity_released(leading, released);
        }
    }

    /// Activates the bindings that may fit after assumed capacity was released. No report of a cluster shows this
    /// release.
    fn on_capacity_released(
        &self,
        leading: &mut Leading,
        clusters: impl IntoIterator<Item = String>,
    ) {
        for name in clusters {
            if let Some(cluster) = self.cache.clusters.get(&name) {
                let delta = ClusterDelta {
                    more_capacity: true,
                    ..ClusterDelta::default()
                };
                self.activate_bindings_for(leading, &cluster, delta);
            }
        }
    }

    pub(super) fn activate_registered(&self, leading: &mut Leading, event: &Event, now: Instant) {
        let (config, bindings) = (&self.config, &self.cache.bindings);
        event_hints::activate_registered(config, bindings, &mut leading.queue, event, now);
    }
}
