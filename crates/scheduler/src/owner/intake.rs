//! What the watches see, and which bindings it concerns.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_events::{Note, Severity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::references::binding_reference;
use super::{Entry, Input, Owner, Source};
use crate::binding::{Binding, BindingKey, Unread};
use crate::condition::{Reason, stored};
use crate::fleet_watch::{Concern, Meaning, Member};
use crate::framework::{Event, EventKind};
use crate::guard::Guarded;
use crate::metrics::Incoming;
use crate::plan::REASON_FAILED;
use crate::watch::Seen;

impl Owner {
    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Cluster(seen) => self.take_cluster(seen),
            Input::Binding(seen) => {
                self.take_binding(Source::Bindings, seen, Unread::Namespaced);
            }
            Input::ClusterBinding(seen) => {
                self.take_binding(Source::ClusterBindings, seen, Unread::ClusterScoped);
            }
        }
    }

    fn list_ends(&mut self, source: Source) {
        self.synced.insert(source);
        if self.synced.len() == 3 && !self.probes.is_ready() {
            self.probes.set_ready();
            tracing::info!(
                clusters = self.members.len(),
                bindings = self.bindings.len(),
                "caches are filled"
            );
        }
    }

    fn take_cluster(&mut self, seen: Seen<Cluster>) {
        match seen {
            Seen::ListBegins => {
                self.listing.insert(Source::Clusters, HashSet::new());
            }
            Seen::Present(object) => match object.read() {
                Ok(cluster) => self.cluster_is(&cluster),
                Err(error) => {
                    let name = object.metadata().name.clone().unwrap_or_default();
                    tracing::warn!(
                        cluster = name,
                        %error,
                        "cannot read a cluster; its last readable state is kept"
                    );
                    if let Some(named) = self.listing.get_mut(&Source::Clusters) {
                        named.insert(name);
                    }
                }
            },
            Seen::Gone(metadata) => self.cluster_gone(metadata.name.as_deref().unwrap_or_default()),
            Seen::ListEnds => {
                let named = self.listing.remove(&Source::Clusters).unwrap_or_default();
                let gone: Vec<String> = self
                    .members
                    .keys()
                    .filter(|name| !named.contains(*name))
                    .cloned()
                    .collect();
                for name in gone {
                    self.cluster_gone(&name);
                }
                self.list_ends(Source::Clusters);
            }
        }
    }

    fn cluster_is(&mut self, cluster: &Cluster) {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if let Some(named) = self.listing.get_mut(&Source::Clusters) {
            named.insert(name.clone());
        }
        self.fleet.apply(cluster);
        if let Some(accurate) = &self.questions.accurate {
            accurate.client.apply(cluster);
        }
        self.snapshot = None;
        let member = Member::new(cluster);
        if member.deleting() {
            self.leaving.insert(name.clone());
        } else {
            self.leaving.remove(&name);
        }
        let new = member.cluster.clone();
        let mut meaning = Meaning::of(self.members.get(&name), &member);
        if member.reports_otherwise(self.members.get(&name)) {
            self.departures.reported(&name);
            if let Some(assumptions) = &mut self.assumptions {
                // Shares are given up with a report: less room than before may still be more than assumed.
                assumptions.reported(&name);
                meaning.more_room = true;
            }
        }
        let old = self.members.insert(name, member);
        if meaning.reconcile
            && let Some(old) = old
        {
            self.reconcile_placed(&old.cluster, &new);
        }
        if meaning.may_fit || meaning.more_room {
            self.wake(&new, meaning);
        }
        if self.is_registered(EventKind::Cluster) {
            let event = Event::Cluster(Arc::new(cluster.clone()));
            self.wake_registered(&event, Instant::now());
        }
    }

    /// A Cluster is gone. Where no finalizer held it, nobody has seen it leaving, so what is placed on it is
    /// looked at now; its name counts as leaving until it comes back.
    fn cluster_gone(&mut self, name: &str) {
        self.fleet.remove(name);
        if let Some(accurate) = &self.questions.accurate {
            accurate.client.remove(name);
        }
        self.snapshot = None;
        self.members.remove(name);
        self.leaving.insert(name.to_owned());
        if !self.leading {
            return;
        }
        let now = Instant::now();
        if self.is_registered(EventKind::ClusterGone) {
            self.wake_registered(&Event::ClusterGone(name.to_owned()), now);
        }
        for (key, entry) in &self.bindings {
            let binding = &entry.binding;
            let is_target = binding.spec.clusters.iter().any(|c| c.name == name);
            if is_target && self.frameworks.in_charge(binding) {
                self.queue
                    .reconcile(key, self.frameworks.rank(binding), now);
                self.metrics.incoming(Incoming::ClusterChanged);
            }
        }
    }

    /// Looks again at the bindings that a changed cluster concerned before, or concerns now.
    fn reconcile_placed(&mut self, old: &Cluster, new: &Cluster) {
        if !self.leading {
            return;
        }
        let now = Instant::now();
        let (mut before, mut after) = (Concern::new(old), Concern::new(new));
        for (key, entry) in &self.bindings {
            let binding = &entry.binding;
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

    /// Wakes the waiting bindings that a changed cluster can help.
    fn wake(&mut self, cluster: &Cluster, meaning: Meaning) {
        let mut concern = Concern::new(cluster);
        let mut helped = Vec::new();
        let sleepers = self.queue.sleepers().map(|key| (key, true));
        let in_processing = self.queue.in_processing().map(|key| (key, false));
        for (key, asleep) in sleepers.chain(in_processing) {
            let Some(entry) = self.bindings.get(key) else {
                continue;
            };
            // What the condition says of a key that is being processed is out of date.
            let no_fit = asleep
                && stored(&entry.binding.status)
                    .is_some_and(|c| c.reason == Reason::NoClusterFit.as_str());
            let relevant = if no_fit {
                meaning.may_fit
            } else {
                meaning.may_fit || meaning.more_room
            };
            if relevant
                && entry
                    .binding
                    .spec
                    .placement
                    .as_ref()
                    .is_some_and(|p| concern.could_be_target(p))
            {
                helped.push(key.clone());
            }
        }
        let now = Instant::now();
        for key in helped {
            self.queue.wake(&key, now);
            self.metrics.incoming(Incoming::ClusterChanged);
        }
    }

    fn take_binding<K>(
        &mut self,
        source: Source,
        seen: Seen<K>,
        unread: fn(Box<Guarded<K>>) -> Unread,
    ) {
        match seen {
            Seen::ListBegins => {
                self.listing.insert(source, HashSet::new());
            }
            Seen::Present(object) => {
                let key = BindingKey::of(object.metadata());
                if let Some(named) = self.listing.get_mut(&source) {
                    named.insert(key.to_string());
                }
                self.binding_comes(&key, unread(object));
            }
            Seen::Gone(metadata) => self.binding_gone(&BindingKey::of(&metadata)),
            Seen::ListEnds => {
                let named = self.listing.remove(&source).unwrap_or_default();
                let namespaced = source == Source::Bindings;
                let gone: Vec<BindingKey> = self
                    .bindings
                    .keys()
                    .filter(|key| {
                        key.namespace.is_some() == namespaced && !named.contains(&key.to_string())
                    })
                    .cloned()
                    .collect();
                for key in gone {
                    self.binding_gone(&key);
                }
                self.list_ends(source);
            }
        }
    }

    /// A state of a binding has come. While a write of ours is under way it is most likely about that, and
    /// waits unread: the answer says more.
    fn binding_comes(&mut self, key: &BindingKey, unread: Unread) {
        if let Some(entry) = self.bindings.get_mut(key) {
            if unread.is_known_from(&entry.binding) {
                return;
            }
            if entry.writing {
                entry.unread = Some(unread);
                return;
            }
        }
        match unread.read() {
            Ok(binding) => self.binding_is(binding),
            Err(error) => self.malformed(key, unread.metadata(), &error.to_string()),
        }
    }

    /// A write of ours has ended: what came meanwhile is read, unless it was about that write.
    pub(super) fn catch_up(&mut self, key: &BindingKey) {
        let Some(entry) = self.bindings.get_mut(key) else {
            return;
        };
        entry.writing = false;
        if let Some(unread) = entry.unread.take() {
            self.binding_comes(key, unread);
        }
    }

    fn binding_is(&mut self, binding: Binding) {
        let key = binding.key.clone();
        let passes = self.frameworks.passes(&binding);
        let event = match self.bindings.get(&key) {
            None => passes.then_some(Incoming::BindingAdd),
            Some(entry) if !binding.at_least_as_new_as(&entry.binding) => return,
            Some(entry) if !passes => {
                if self.frameworks.passes(&entry.binding) {
                    self.queue.remove(&key);
                }
                None
            }
            Some(entry) if !self.frameworks.passes(&entry.binding) => Some(Incoming::BindingAdd),
            Some(entry) => {
                let generation = binding.generation();
                (generation != entry.binding.generation() && generation > entry.own_generation)
                    .then_some(Incoming::BindingUpdate)
            }
        };
        let rank = self.frameworks.rank(&binding);
        self.remember(binding, 0);
        let now = Instant::now();
        if let Some(event) = event
            && self.leading
        {
            self.queue.push(&key, rank, now);
            self.metrics.incoming(event);
        }
        let Some(binding) = self.bindings.get(&key).map(|entry| entry.binding.clone()) else {
            return;
        };
        self.void(&binding, now);
        if self.is_registered(EventKind::Binding) {
            self.wake_registered(&Event::Binding(binding), now);
        }
    }

    /// Keeps a binding, and the generation that a write of ours gave it.
    fn remember(&mut self, binding: Binding, own_generation: i64) {
        let key = binding.key.clone();
        let is_news = self
            .bindings
            .get(&key)
            .is_none_or(|entry| binding.at_least_as_new_as(&entry.binding));
        if is_news {
            self.followed(&binding);
        }
        let Some(entry) = self.bindings.get_mut(&key) else {
            if let Some(groups) = &mut self.groups {
                groups.replace(None, Some(&binding));
            }
            self.recall(&binding);
            let binding = Arc::new(binding);
            self.state.show(&binding);
            self.bindings.insert(
                key,
                Entry {
                    binding,
                    own_generation,
                    writing: false,
                    unread: None,
                },
            );
            return;
        };
        if entry.binding.metadata.uid == binding.metadata.uid {
            entry.own_generation = entry.own_generation.max(own_generation);
        } else {
            entry.own_generation = own_generation;
        }
        if !binding.at_least_as_new_as(&entry.binding) {
            return;
        }
        if let Some(groups) = &mut self.groups {
            groups.replace(Some(&entry.binding), Some(&binding));
        }
        let now = Instant::now();
        self.departures.observe(&entry.binding, Some(&binding), now);
        if let Some(assumptions) = &mut self.assumptions {
            assumptions.observe(&entry.binding, &binding, now);
        }
        entry.binding = Arc::new(binding);
        self.state.show(&entry.binding);
    }

    /// A binding that we see for the first time may have been placed just before we started.
    fn recall(&mut self, binding: &Binding) {
        let Some(assumptions) = &mut self.assumptions else {
            return;
        };
        let Some(scheduled) = &binding.status.last_scheduled_time else {
            return;
        };
        let age = jiff::Timestamp::now().duration_since(scheduled.0);
        let age = Duration::try_from(age).unwrap_or_default();
        assumptions.recall(binding, age, Instant::now());
    }

    fn binding_gone(&mut self, key: &BindingKey) {
        let old = self.bindings.remove(key);
        self.state.forget(key);
        if let Some(old) = &old {
            self.departures.observe(&old.binding, None, Instant::now());
        }
        if let Some(groups) = &mut self.groups {
            groups.replace(old.as_ref().map(|entry| &*entry.binding), None);
            groups.settled(key);
        }
        self.queue.remove(key);
        let now = Instant::now();
        self.unfollowed(key);
        self.promises.forget(key);
        self.searchers.forget(key);
        self.drop_parked(key, now);
        if let Some(old) = old.filter(|_| self.is_registered(EventKind::BindingGone)) {
            self.wake_registered(&Event::BindingGone(old.binding), now);
        }
        if let Some(assumptions) = &mut self.assumptions {
            // What never ran will not be reported as gone either.
            let freed = assumptions.gone(key);
            self.room_is_assumed_free(freed);
        }
    }

    /// Forgets assumptions that are too old.
    pub(super) fn expire_assumptions(&mut self, now: Instant) {
        if let Some(assumptions) = &mut self.assumptions {
            let freed = assumptions.expire(now);
            self.room_is_assumed_free(freed);
        }
    }

    /// Less is assumed of these clusters: what waits for room may fit, and no report will say so.
    fn room_is_assumed_free(&mut self, clusters: impl IntoIterator<Item = String>) {
        for name in clusters {
            if let Some(member) = self.members.get(&name) {
                let cluster = member.cluster.clone();
                let meaning = Meaning {
                    more_room: true,
                    ..Meaning::default()
                };
                self.wake(&cluster, meaning);
            }
        }
    }

    /// An object that a write gave back. If the watch has seen its deletion meanwhile, it stays deleted.
    pub(super) fn remember_if_present(&mut self, binding: Binding, own_generation: i64) {
        if self.bindings.contains_key(&binding.key) {
            self.remember(binding, own_generation);
        }
    }

    fn malformed(&mut self, key: &BindingKey, metadata: &ObjectMeta, error: &str) {
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
