//! From what is watched to what is known: bindings, and the taints of clusters that evict.

use std::collections::{HashMap, HashSet};
use std::mem;

use berth_api::cluster::ClusterSpec;
use berth_api::{Cluster, ClusterResourceBinding, ResourceBinding};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde::Deserialize as _;

use super::binding::Bound;
use super::toleration::EvictingTaint;
use crate::binding_key::BindingKey;
use crate::informer::{Listing, Observation};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Clusters,
    Bindings,
    ClusterBindings,
}

impl Source {
    pub(super) const ALL: [Self; 3] = [Self::Clusters, Self::Bindings, Self::ClusterBindings];

    /// The API of its objects.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Bindings => ApiResource::erase::<ResourceBinding>(&()),
            Self::ClusterBindings => ApiResource::erase::<ClusterResourceBinding>(&()),
        }
    }
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) bindings: HashMap<BindingKey, Bound>,
    /// Of clusters that have any.
    pub(super) taints: HashMap<String, Vec<EvictingTaint>>,
    listed: HashSet<Source>,
}

/// Whom a change concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Concerned {
    pub(super) changed: Vec<BindingKey>,
    pub(super) gone: Vec<BindingKey>,
}

impl Known {
    /// Whether all sources were listed: before that a cluster without taints may be one that was not seen yet.
    pub(super) fn is_complete(&self) -> bool {
        self.listed.len() == Source::ALL.len()
    }

    /// Takes in what was observed.
    pub(super) fn observe(&mut self, source: Source, observation: Observation) -> Concerned {
        match observation {
            Observation::Listed(there) => {
                let was_complete = self.is_complete();
                self.listed.insert(source);
                let mut concerned = self.keep(source, &there);
                if !was_complete && self.is_complete() {
                    concerned.changed = self.bindings.keys().cloned().collect();
                }
                concerned
            }
            Observation::Applied(object) => self.applied(source, &object),
            Observation::Deleted(object) => self.deleted(source, &key_of(&object)),
            Observation::Unserved => Concerned::default(),
        }
    }

    fn applied(&mut self, source: Source, object: &DynamicObject) -> Concerned {
        if source == Source::Clusters {
            return self.cluster(object);
        }
        let key = key_of(object);
        match Bound::read(object) {
            Ok(binding) => {
                self.bindings.insert(key.clone(), binding);
                Concerned {
                    changed: vec![key],
                    gone: Vec::new(),
                }
            }
            Err(error) => {
                tracing::warn!(binding = key.name, %error, "cannot read a binding: it is left alone");
                self.deleted(source, &key)
            }
        }
    }

    fn cluster(&mut self, object: &DynamicObject) -> Concerned {
        let name = object.name_any();
        let taints = match ClusterSpec::deserialize(&object.data["spec"]) {
            Ok(spec) => spec.taints,
            Err(error) => {
                tracing::warn!(cluster = name, %error, "cannot read a cluster: its taints are ignored");
                Vec::new()
            }
        };
        let seen = Timestamp::now();
        let earlier = self.taints.remove(&name).unwrap_or_default();
        let mut evicting = Vec::new();
        for taint in &taints {
            let Some(new) = EvictingTaint::new(taint, seen) else {
                continue;
            };
            let known = earlier.iter().find(|old| old.is_like(&new));
            evicting.push(match known {
                Some(old) if taint.time_added.is_none() => new.known_since(old.since()),
                _ => new,
            });
        }
        if evicting == earlier {
            if !evicting.is_empty() {
                self.taints.insert(name, evicting);
            }
            return Concerned::default();
        }
        if !evicting.is_empty() {
            self.taints.insert(name.clone(), evicting);
        }
        let there = self
            .bindings
            .values()
            .filter(|binding| binding.is_on(&name));
        Concerned {
            changed: there.map(|binding| binding.key.clone()).collect(),
            gone: Vec::new(),
        }
    }

    fn deleted(&mut self, source: Source, key: &BindingKey) -> Concerned {
        if source == Source::Clusters {
            self.taints.remove(&key.name);
            return Concerned::default();
        }
        self.bindings.remove(key);
        Concerned {
            changed: Vec::new(),
            gone: vec![key.clone()],
        }
    }

    /// Forgets what a list did not have.
    fn keep(&mut self, source: Source, there: &Listing) -> Concerned {
        if source == Source::Clusters {
            self.taints.retain(|name, _| there.contains("", name));
            return Concerned::default();
        }
        let namespaced = source == Source::Bindings;
        let (kept, gone) = mem::take(&mut self.bindings)
            .into_iter()
            .partition::<HashMap<_, _>, _>(|(key, _)| {
                key.namespace.is_empty() == namespaced || there.contains(&key.namespace, &key.name)
            });
        self.bindings = kept;
        Concerned {
            changed: Vec::new(),
            gone: gone.into_keys().collect(),
        }
    }
}

fn key_of(object: &DynamicObject) -> BindingKey {
    BindingKey {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
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

    fn listed(known: &mut Known, source: Source, objects: Vec<DynamicObject>) -> Concerned {
        let listing = objects.iter().collect();
        for object in objects {
            known.observe(source, Observation::Applied(Box::new(object)));
        }
        known.observe(source, Observation::Listed(listing))
    }

    #[test]
    fn a_taint_that_evicts_concerns_who_is_there() {
        let mut known = Known::default();
        listed(&mut known, Source::Clusters, vec![]);
        listed(&mut known, Source::ClusterBindings, vec![]);
        let bindings = vec![
            object(Some("n"), "a", &on("m1")),
            object(Some("n"), "b", &on("m2")),
        ];
        let first = listed(&mut known, Source::Bindings, bindings);
        assert_eq!(first.changed.len(), 2, "all of it is known now");
        for (effect, concerned) in [
            ("NoSchedule", &[][..]),
            ("NoExecute", &["a"]),
            ("NoExecute", &[]),
            ("NoSchedule", &["a"]),
        ] {
            let change = known.observe(
                Source::Clusters,
                Observation::Applied(Box::new(tainted(effect))),
            );
            assert_eq!(names(&change.changed), concerned, "{effect}");
        }
    }

    #[test]
    fn what_a_new_list_does_not_have_is_gone() {
        let mut known = Known::default();
        listed(&mut known, Source::Clusters, vec![tainted("NoExecute")]);
        listed(
            &mut known,
            Source::ClusterBindings,
            vec![object(None, "whole", &on("m1"))],
        );
        listed(
            &mut known,
            Source::Bindings,
            vec![object(Some("n"), "a", &on("m1"))],
        );
        let again = listed(&mut known, Source::Bindings, vec![]);
        assert_eq!(names(&again.gone), ["a"]);
        assert_eq!(known.bindings.len(), 1, "the other kind stays");
        listed(&mut known, Source::Clusters, vec![]);
        assert!(known.taints.is_empty());
    }
}
