//! The cache of failover: the observed bindings, and the `NoExecute` taints of clusters.

use std::collections::{HashMap, HashSet};
use std::mem;

use berth_api::cluster::ClusterSpec;
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde::Deserialize as _;

use super::binding::Binding;
use super::toleration::EvictingTaint;
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

/// The observed bindings and taints.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub(super) bindings: HashMap<BindingKey, Binding>,
    /// The `NoExecute` taints by cluster. Clusters without such taints are omitted.
    pub(super) taints: HashMap<String, Vec<EvictingTaint>>,
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
            Ok(binding) => {
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

    fn put_cluster(&mut self, object: &DynamicObject) -> Affected {
        let name = object.name_any();
        let taints = match ClusterSpec::deserialize(&object.data["spec"]) {
            Ok(spec) => spec.taints,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot read a Cluster: its taints are ignored");
                Vec::new()
            }
        };
        let now = Timestamp::now();
        let earlier = self.taints.remove(&name).unwrap_or_default();
        let mut evicting = Vec::new();
        for taint in &taints {
            let Some(new) = EvictingTaint::new(taint, now) else {
                continue;
            };
            let known = earlier.iter().find(|old| old.is_same(&new));
            evicting.push(match known {
                Some(old) if taint.time_added.is_none() => new.with_since(old.since()),
                _ => new,
            });
        }
        if evicting == earlier {
            if !evicting.is_empty() {
                self.taints.insert(name, evicting);
            }
            return Affected::default();
        }
        if !evicting.is_empty() {
            self.taints.insert(name.clone(), evicting);
        }
        let placed = self
            .bindings
            .values()
            .filter(|binding| binding.is_placed_on(&name));
        Affected {
            changed: placed.map(|binding| binding.key.clone()).collect(),
            deleted: Vec::new(),
        }
    }

    fn handle_deleted(&mut self, source: Source, key: &BindingKey) -> Affected {
        if source == Source::Clusters {
            self.taints.remove(&key.name);
            return Affected::default();
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
            self.taints.retain(|name, _| listing.contains("", name));
            return Affected::default();
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
            ("NoSchedule", &[][..]),
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
        assert!(cache.taints.is_empty());
    }
}
