//! The cache of failover: the observed bindings and clusters.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Instant;

use berth_api::{BindingKey, BindingKind, Cluster, ClusterResourceBinding, ResourceBinding};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;

use super::binding::BindingRecord;
use super::cluster::ClusterRecord;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

impl Source {
    pub(super) const ALL: [Self; 3] = [Self::Clusters, Self::Bindings, Self::ClusterBindings];

    /// Returns the API resource.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Bindings => ApiResource::erase::<ResourceBinding>(&()),
            Self::ClusterBindings => ApiResource::erase::<ClusterResourceBinding>(&()),
        }
    }
}

/// The observed bindings and clusters.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) bindings: HashMap<BindingKey, BindingRecord>,
    pub(super) clusters: HashMap<String, ClusterRecord>,
    listed: HashSet<Source>,
    /// The bindings that the current event affects.
    affected: Affected,
}

/// The bindings that an event affects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Affected {
    pub(super) changed: Vec<BindingKey>,
    pub(super) deleted: Vec<BindingKey>,
}

impl Cache {
    /// Reports whether all sources are listed. Before that, taints or bindings may be missing.
    pub(super) fn has_synced(&self) -> bool {
        self.listed.len() == Source::ALL.len()
    }

    /// Updates the cache. Returns the affected bindings.
    pub(super) fn handle_event(&mut self, source: Source, event: WatchEvent) -> Affected {
        self.observe(&source, event);
        mem::take(&mut self.affected)
    }

    /// Replaces a binding by a newer version, which a write returned.
    pub(super) fn put_written(&mut self, earlier: &BindingRecord, written: &DynamicObject) {
        // The written binding replaces the cached binding only if the watch has not delivered another version.
        let known = self.bindings.get_mut(&earlier.body.key);
        if let Some(known) = known.filter(|known| {
            known.body.metadata.resource_version == earlier.body.metadata.resource_version
        }) && let Ok(mut stored) = BindingRecord::read(written)
        {
            stored.record_changed_reports(Some(&*known), Instant::now());
            *known = stored;
        }
    }

    fn put_binding(&mut self, object: &DynamicObject) {
        let key = BindingKey::of(&object.metadata);
        match BindingRecord::read(object) {
            Ok(mut binding) => {
                let earlier = self.bindings.get(&key);
                // A report in the first list may be old.
                if earlier.is_some() || self.has_synced() {
                    binding.record_changed_reports(earlier, Instant::now());
                }
                self.bindings.insert(key.clone(), binding);
                self.affected.changed.push(key);
            }
            Err(error) => {
                tracing::warn!(binding = %key, %error, "cannot read a binding: it is ignored");
                self.remove_binding(key);
            }
        }
    }

    fn remove_binding(&mut self, key: BindingKey) {
        self.bindings.remove(&key);
        self.affected.deleted.push(key);
    }

    fn put_cluster(&mut self, object: &DynamicObject) {
        let name = object.name_any();
        let cluster = serde_json::to_value(object).and_then(serde_json::from_value::<Cluster>);
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot read a Cluster: it is ignored");
                return self.remove_cluster(&name);
            }
        };
        let earlier = self.clusters.get(&name);
        let record = ClusterRecord::new(cluster, earlier, Timestamp::now(), Instant::now());
        // The free resources change with each status. A binding that waits for them is examined again after a while.
        let has_changed = earlier.is_none_or(|earlier| record.differs_from(earlier));
        self.clusters.insert(name.clone(), record);
        if has_changed {
            self.affect_bindings_of(&name);
        }
    }

    fn remove_cluster(&mut self, name: &str) {
        if self.clusters.remove(name).is_some() {
            self.affect_bindings_of(name);
        }
    }

    /// Adds the bindings that are placed on a cluster, are being evicted from it or may return to it to the affected
    /// bindings.
    fn affect_bindings_of(&mut self, cluster: &str) {
        let affected = self.bindings.values();
        let affected = affected.filter(|binding| {
            binding.is_placed_on(cluster)
                || binding.has_task_for(cluster)
                || binding.may_return_to(cluster)
        });
        let keys = affected.map(|binding| binding.body.key.clone());
        self.affected.changed.extend(keys);
    }
}

impl Observe for Cache {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        match source {
            Source::Clusters => self.put_cluster(&object),
            Source::Bindings | Source::ClusterBindings => self.put_binding(&object),
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Clusters => self.remove_cluster(name),
            Source::Bindings | Source::ClusterBindings => {
                self.remove_binding(BindingKey::new(namespace, name));
            }
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        let kind = match source {
            Source::Clusters => return cluster_scoped(self.clusters.keys()),
            Source::Bindings => BindingKind::Namespaced,
            Source::ClusterBindings => BindingKind::Cluster,
        };
        let keys = self.bindings.keys();
        keys.filter(|key| key.kind() == kind)
            .map(|key| (key.namespace_or_empty().to_owned(), key.name.to_string()))
            .collect()
    }

    fn listed(&mut self, source: &Source) {
        let had_synced = self.has_synced();
        self.listed.insert(*source);
        if !had_synced && self.has_synced() {
            self.affected.changed = self.bindings.keys().cloned().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(namespace: Option<&str>, name: &str, spec: &Value) -> DynamicObject {
        let object = json!({
            "metadata": { "name": name, "namespace": namespace }, "spec": spec });
        serde_json::from_value(object).unwrap()
    }

    fn on(cluster: &str) -> Value {
        json!({ "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "a" },
            "clusters": [{ "name": cluster }] })
    }

    fn tainted(effect: &str) -> DynamicObject {
        object(
            None,
            "m1",
            &json!({ "syncMode": "Push", "taints": [{ "key": "down", "effect": effect }] }),
        )
    }

    fn names(keys: &[BindingKey]) -> Vec<&str> {
        keys.iter().map(|key| &*key.name).collect()
    }

    fn list(cache: &mut Cache, source: Source, objects: Vec<DynamicObject>) -> Affected {
        let listing = objects.iter().collect();
        for object in objects {
            cache.handle_event(source, WatchEvent::Applied(Box::new(object)));
        }
        cache.handle_event(source, WatchEvent::Listed(listing))
    }

    #[test]
    fn an_evicting_taint_affects_the_bindings_on_the_cluster() {
        let mut cache = Cache::default();
        list(&mut cache, Source::Clusters, vec![]);
        list(&mut cache, Source::ClusterBindings, vec![]);
        let bindings = vec![
            object(Some("n"), "a", &on("m1")),
            object(Some("n"), "b", &on("m2")),
        ];
        let first = list(&mut cache, Source::Bindings, bindings);
        assert_eq!(
            first.changed.len(),
            2,
            "the last missing list affects all bindings"
        );
        for (effect, affected) in [
            ("NoSchedule", &["a"][..]),
            ("NoSchedule", &[]),
            ("NoExecute", &["a"]),
            ("NoExecute", &[]),
            ("NoSchedule", &["a"]),
        ] {
            let change = cache.handle_event(
                Source::Clusters,
                WatchEvent::Applied(Box::new(tainted(effect))),
            );
            assert_eq!(names(&change.changed), affected, "{effect}");
        }
    }

    #[test]
    fn objects_missing_from_a_list_are_deleted() {
        let mut cache = Cache::default();
        list(&mut cache, Source::Clusters, vec![tainted("NoExecute")]);
        list(
            &mut cache,
            Source::ClusterBindings,
            vec![object(None, "whole", &on("m1"))],
        );
        list(
            &mut cache,
            Source::Bindings,
            vec![object(Some("n"), "a", &on("m1"))],
        );
        let again = list(&mut cache, Source::Bindings, vec![]);
        assert_eq!(names(&again.deleted), ["a"]);
        assert_eq!(
            cache.bindings.len(),
            1,
            "the ClusterResourceBinding is kept"
        );
        list(&mut cache, Source::Clusters, vec![]);
        assert!(cache.clusters.is_empty());
    }
}
