//! How observations change the state, and what has to be looked at because of them.

use std::collections::HashSet;
use std::sync::Arc;

use berth_api::override_policy::OverrideSpec;
use berth_api::{Cluster, Work};
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

use super::index::WorkKey;
use super::owner::{Job, Owner, Source};
use crate::binding::record::Binding;
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::execution::member::Message;
use crate::informer::Observation;
use crate::overrides::OverrideKind;
use crate::overrides::OverridePolicy;

impl Owner {
    pub(super) fn take_in(&mut self, source: Source, observation: Observation) {
        match observation {
            Observation::Listed(listing) => {
                for (namespace, name) in self.known(source) {
                    if !listing.contains(&namespace, &name) {
                        self.gone(source, &namespace, &name);
                    }
                }
                if self.listed.insert(source) && source == Source::Clusters {
                    self.introduce_members();
                }
            }
            Observation::Applied(object) => self.applied(source, *object),
            Observation::Deleted(object) => {
                let (namespace, name) = names(&object);
                self.gone(source, &namespace, &name);
            }
            Observation::Unserved => {}
        }
    }

    /// What is known of a source, by namespace and name.
    fn known(&self, source: Source) -> Vec<(String, String)> {
        let none = String::new;
        match source {
            Source::Bindings(kind) => {
                let keys = self.index.binding_keys();
                let of_kind = keys.filter(|key| kind == BindingKind::of(key));
                of_kind
                    .map(|key| (key.namespace.clone(), key.name.clone()))
                    .collect()
            }
            Source::Works => {
                let works = self.index.works();
                works
                    .map(|(key, _)| {
                        let namespace = berth_api::names::execution_namespace(&key.cluster);
                        (namespace, key.name.clone())
                    })
                    .collect()
            }
            Source::Clusters => {
                let names = self.index.clusters.keys();
                names.map(|name| (none(), name.clone())).collect()
            }
            Source::Overrides(kind) => self.index.override_names(kind),
        }
    }

    fn applied(&mut self, source: Source, object: DynamicObject) {
        match source {
            Source::Bindings(_) => self.take_binding(&object),
            Source::Works => self.take_work(object),
            Source::Clusters => self.take_cluster(object),
            Source::Overrides(kind) => self.take_override(kind, &object),
        }
    }

    fn gone(&mut self, source: Source, namespace: &str, name: &str) {
        match source {
            Source::Bindings(_) => self.index.forget_binding(&BindingKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            Source::Works => self.forget_work(namespace, name),
            Source::Clusters => {
                self.index.clusters.remove(name);
                self.tell(name, Message::Cluster(None));
            }
            Source::Overrides(kind) => {
                let old = self.index.set_override(kind, namespace, name, None);
                self.look_at_selected(kind, namespace, old.into_iter().collect());
            }
        }
    }

    fn take_binding(&mut self, object: &DynamicObject) {
        let binding = match Binding::from_object(object) {
            Ok(binding) => Arc::new(binding),
            Err(error) => {
                let (namespace, name) = names(object);
                tracing::warn!(namespace, name, %error, "a binding cannot be read");
                return;
            }
        };
        let key = binding.key.clone();
        let old = self.index.keep_binding(Arc::clone(&binding));
        let outline = |binding: &Binding| {
            (
                binding.uid.clone(),
                binding.generation,
                binding.deleting,
                binding.id.clone(),
                binding.finalizers.clone(),
            )
        };
        let changed = old
            .as_ref()
            .is_none_or(|old| outline(old) != outline(&binding));
        if changed {
            self.enqueue(Job::Sync(key.clone()));
        }
        let scheduled = |binding: &Binding| binding.status.last_scheduled_time.is_some();
        let newly = scheduled(&binding) && !old.is_some_and(|old| scheduled(&old));
        let told =
            !binding.deleting && (scheduled(&binding) || !self.index.works_of(&binding).is_empty());
        if told && (changed || newly) {
            self.enqueue(Job::Status(key));
        }
    }

    fn take_work(&mut self, object: DynamicObject) {
        if let Some((work, key)) = read_work(object) {
            self.keep_work(key, Arc::new(work), Origin::Watch);
        }
    }

    /// Takes over a Work as the server has answered a write of ours.
    pub(super) fn keep_answer(&mut self, work: Work, gone: &HashSet<WorkKey>) {
        let meta = &work.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let key = WorkKey::new(namespace, meta.name.as_deref().unwrap_or_default());
        if let Some(key) = key
            && !gone.contains(&key)
        {
            self.keep_work(key, Arc::new(work), Origin::Answer);
        }
    }

    fn keep_work(&mut self, key: WorkKey, work: Arc<Work>, origin: Origin) {
        let old = self.index.work(&key).cloned();
        let known = old.as_deref().and_then(version);
        if known.is_some() && version(&work) <= known {
            return;
        }
        self.index.keep_work(key.clone(), Arc::clone(&work));
        let deleting = |work: &Work| work.metadata.deletion_timestamp.is_some();
        let generation = |work: &Work| work.metadata.generation;
        let outline = |work: &Work| (work.status.clone(), deleting(work), generation(work));
        let old = old.as_ref();
        let changed = old.is_none_or(|old| outline(old) != outline(&work));
        if changed && let Some(binding) = self.index.binding_of(&work).cloned() {
            let respecified = old.is_none_or(|old| generation(old) != generation(&work));
            if origin == Origin::Watch && respecified && !deleting(&work) {
                let version = work.metadata.resource_version.clone();
                self.question(binding.clone(), version.unwrap_or_default());
            }
            self.reported(binding);
        }
        if self.listed.contains(&Source::Clusters) {
            self.tell(&key.cluster, Message::Work(work));
        }
    }

    fn forget_work(&mut self, namespace: &str, name: &str) {
        let Some(key) = WorkKey::new(namespace, name) else {
            return;
        };
        let Some(work) = self.index.forget_work(&key) else {
            return;
        };
        if let Some(binding) = self.index.binding_of(&work).cloned() {
            self.went(&binding, key.clone());
            // It may have been waited for, or somebody may have deleted what is still wanted.
            self.enqueue(Job::Sync(binding.clone()));
            self.enqueue(Job::Status(binding));
        }
        if self.listed.contains(&Source::Clusters) {
            self.tell(&key.cluster, Message::WorkGone(key.name));
        }
    }

    fn take_cluster(&mut self, object: DynamicObject) {
        let Some(cluster) = read::<Cluster>(object) else {
            return;
        };
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let cluster = Arc::new(cluster);
        let clusters = &mut self.index.clusters;
        let old = clusters.insert(name.clone(), Arc::clone(&cluster));
        // What overrides and targets look at.
        let outline = |cluster: &Cluster| {
            let spec = &cluster.spec;
            (
                cluster.metadata.labels.clone(),
                spec.provider.clone(),
                spec.region.clone(),
                spec.zones.clone(),
            )
        };
        let to_look = match &old {
            None => self.listed.contains(&Source::Clusters),
            Some(old) => self.index.has_overrides() && outline(old) != outline(&cluster),
        };
        if to_look {
            for binding in self.index.targeting(&name) {
                self.enqueue(Job::Sync(binding));
            }
        }
        if self.listed.contains(&Source::Clusters) {
            self.tell(&name, Message::Cluster(Some(cluster)));
        }
    }

    /// Now it is known which clusters there are: a Work of another one belongs to a cluster that is gone.
    fn introduce_members(&mut self) {
        let clusters: Vec<(String, Arc<Cluster>)> = self
            .index
            .clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), Arc::clone(cluster)))
            .collect();
        for (name, cluster) in clusters {
            self.tell(&name, Message::Cluster(Some(cluster)));
        }
        let works: Vec<(String, Arc<Work>)> = self
            .index
            .works()
            .map(|(key, work)| (key.cluster.clone(), Arc::clone(work)))
            .collect();
        for (cluster, work) in works {
            self.tell(&cluster, Message::Work(work));
        }
    }

    fn take_override(&mut self, kind: OverrideKind, object: &DynamicObject) {
        let (namespace, name) = names(object);
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let spec: OverrideSpec = match serde_json::from_value(spec) {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(namespace, name, %error, "an override policy cannot be read");
                return;
            }
        };
        let policy = Arc::new(OverridePolicy::new(&name, &spec));
        let new = Some(Arc::clone(&policy));
        let old = self.index.set_override(kind, &namespace, &name, new);
        let both = old.into_iter().chain([policy]).collect();
        self.look_at_selected(kind, &namespace, both);
    }

    fn look_at_selected(
        &mut self,
        kind: OverrideKind,
        namespace: &str,
        policies: Vec<Arc<OverridePolicy>>,
    ) {
        for binding in self.index.selected_by(kind, namespace, &policies) {
            self.enqueue(Job::Sync(binding));
        }
    }
}

/// How we know of a Work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A watch has told of it, whoever wrote it.
    Watch,
    /// We wrote it.
    Answer,
}

/// Versions are numbers that grow; of something else, what comes later counts.
fn version(work: &Work) -> Option<u64> {
    work.metadata.resource_version.as_deref()?.parse().ok()
}

fn names(object: &DynamicObject) -> (String, String) {
    let meta = &object.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

fn read_work(object: DynamicObject) -> Option<(Work, WorkKey)> {
    let (namespace, name) = names(&object);
    // Elsewhere a Work means nothing.
    let key = WorkKey::new(&namespace, &name)?;
    Some((read(object)?, key))
}

fn read<K: DeserializeOwned>(object: DynamicObject) -> Option<K> {
    let (namespace, name) = names(&object);
    let read = serde_json::to_value(object).and_then(serde_json::from_value);
    match read {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::warn!(namespace, name, %error, "an object cannot be read");
            None
        }
    }
}
