//! The cache of failover: the observed bindings and clusters.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::time::Instant;

use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;

use super::binding::Binding;
use super::cluster::ClusterRecord;
use crate::binding_key::BindingKey;
use crate::reconciler::informer::{Listing, WatchEvent};

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
    pub(super) bindings: HashMap<BindingKey, Binding>,
    pub(super) clusters: HashMap<String, ClusterRecord>,
    listed: HashSet<Source>,
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
        match event {
            WatchEvent::Listed(listing) => {
                let had_synced = self.has_synced();
                self.listed.insert(source);
                let mut affected = self.retain(source, &listing);
                if !had_synced && self.has_synced() {
                    affected.changed = self.bindings.keys().cloned().collect();
                }
                affected
            }
            WatchEvent::Applied(object) => self.handle_applied(source, &object),
            WatchEvent::Deleted(object) => self.handle_deleted(source, &BindingKey::of(&object)),
            WatchEvent::Unserved => Affected::default(),
        }
    }

    fn handle_applied(&mut self, source: Source, object: &DynamicObject) -> Affected {
        if source == Source::Clusters {
            return self.put_cluster(object);
        }
        let key = BindingKey::of(object);
        match Binding::read(object) {
            Ok(mut binding) => {
                let earlier = self.bindings.get(&key);
                // A report in the first list may be old.
                if earlier.is_some() || self.has_synced() {
                    binding.record_changed_reports(earlier, Instant::now());
                }
                self.bindings.insert(key.clone(), binding);
                Affected {
                    changed: vec![key],
                    deleted: Vec::new(),
                }
            }
            Err(error) => {
                tracing::warn!(binding = key.name, %error, "cannot read a binding: it is ignored");
                self.handle_deleted(source, &key)
            }
        }
    }

    /// Replaces a binding by a newer version, which a write returned.
    pub(super) fn put_written(&mut self, earlier: &Binding, written: &DynamicObject) {
        // The written binding replaces the cached binding only if the watch has not delivered another version.
        let known = self.bindings.get_mut(&earlier.key);
        if let Some(known) = known.filter(|known| known.version == earlier.version)
            && let Ok(mut stored) = Binding::read(written)
        {
            stored.record_changed_reports(Some(&*known), Instant::now());
            *known = stored;
        }
    }

    fn put_cluster(&mut self, object: &DynamicObject) -> Affected {
        let name = object.name_any();
        let cluster = serde_json::to_value(object).and_then(serde_json::from_value::<Cluster>);
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot read a Cluster: it is ignored");
                return self.remove_clusters(|removed| *removed == name);
            }
        };
        let earlier = self.clusters.get(&name);
        let record = ClusterRecord::new(cluster, earlier, Timestamp::now(), Instant::now());
        if earlier == Some(&record) {
            return Affected::default();
        }
        self.clusters.insert(name.clone(), record);
        self.affected_by(&[name])
    }

    fn remove_clusters(&mut self, mut is_removed: impl FnMut(&String) -> bool) -> Affected {
        let removed = self.clusters.extract_if(|name, _| is_removed(name));
        let removed: Vec<String> = removed.map(|(name, _)| name).collect();
        self.affected_by(&removed)
    }

    /// Returns the bindings that are placed on one of these clusters or are being evicted from it.
    fn affected_by(&self, clusters: &[String]) -> Affected {
        let affected = self.bindings.values().filter(|binding| {
            let mut clusters = clusters.iter();
            clusters.any(|name| binding.is_placed_on(name) || binding.has_task_for(name))
        });
        Affected {
            changed: affected.map(|binding| binding.key.clone()).collect(),
            deleted: Vec::new(),
        }
    }

    fn handle_deleted(&mut self, source: Source, key: &BindingKey) -> Affected {
        if source == Source::Clusters {
            return self.remove_clusters(|name| *name == key.name);
        }
        self.bindings.remove(key);
        Affected {
            changed: Vec::new(),
            deleted: vec![key.clone()],
        }
    }

    /// Removes the objects of a source that a list does not contain.
    fn retain(&mut self, source: Source, listing: &Listing) -> Affected {
        if source == Source::Clusters {
            return self.remove_clusters(|name| !listing.contains("", name));
        }
        let namespaced = source == Source::Bindings;
        let (kept, deleted) = mem::take(&mut self.bindings)
            .into_iter()
            .partition::<HashMap<_, _>, _>(|(key, _)| {
                key.namespace.is_empty() == namespaced
                    || listing.contains(&key.namespace, &key.name)
            });
        self.bindings = kept;
        Affected {
            changed: Vec::new(),
            deleted: deleted.into_keys().collect(),
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
        keys.iter().map(|key| key.name.as_str()).collect()
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
