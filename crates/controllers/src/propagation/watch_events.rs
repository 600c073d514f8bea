//! The handlers of watch events: they update the index, and queue the affected bindings and members.

use std::collections::{BTreeMap, HashSet};
use std::mem::discriminant;
use std::sync::Arc;

use berth_api::binding::ObjectReference;
use berth_api::override_policy::OverrideSpec;
use berth_api::well_known::APPLIED_PLACEMENT;
use berth_api::{Binding, BindingKey, Cluster, Work, condition};
use berth_diagnosis::ClusterState;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;

use super::binding::decode;
use super::binding::targets::awaits_deletions;
use super::execution::member::Message;
use super::execution::work_status::has_failed;
use super::index::WorkKey;
use super::reconciler::{Job, Propagator, Source};
use crate::interpreter_configuration::ConfigurationKind;
use crate::overrides::{OverrideKind, OverridePolicy};
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};

/// Returns the metadata on whose change the Works of a binding are written again.
fn synced_fields(binding: &Binding) -> (&str, i64, bool, &str, &[String]) {
    (
        binding.uid(),
        binding.generation(),
        binding.deleting(),
        binding.permanent_id(),
        binding.finalizers(),
    )
}

impl Propagator {
    pub(super) fn handle_watch_event(&mut self, source: Source, event: WatchEvent) {
        if let Source::Interpreter(kind) = source {
            self.handle_customization(kind, event);
            return;
        }
        self.observe(&source, event);
    }

    /// Loads customizations or webhooks, and queues the bindings of the affected kinds. A member interprets an object
    /// of these kinds again at the next event of the object.
    fn handle_customization(&mut self, kind: ConfigurationKind, event: WatchEvent) {
        let changed = self.customizations.handle(kind, event);
        if self.customizations.has_synced() {
            let sources = ConfigurationKind::ALL.map(Source::Interpreter);
            self.listed.extend(sources);
        }
        if changed.is_empty() {
            return;
        }
        let affected = self.index.binding_keys().filter(|key| {
            let resource = self
                .index
                .binding(key)
                .map(|binding| &binding.spec.resource);
            resource.is_some_and(|resource| changed.contains(&resource.api_version, &resource.kind))
        });
        for key in affected.cloned().collect::<Vec<_>>() {
            self.enqueue(Job::Sync(key.clone()));
            self.enqueue(Job::Status(key));
        }
    }

    fn handle_binding(&mut self, object: &DynamicObject) {
        let binding = match decode(object) {
            Ok(binding) => Arc::new(binding),
            Err(error) => {
                let (namespace, name) = names(object);
                tracing::warn!(namespace, name, %error, "cannot decode a binding");
                return;
            }
        };
        let key = binding.key.clone();
        let annotations = object.metadata.annotations.as_ref();
        let placement = annotations.and_then(|all| all.get(APPLIED_PLACEMENT));
        let placement = placement.map(String::as_str).unwrap_or_default();
        let old = self.index.insert_binding(Arc::clone(&binding), placement);
        self.count_health(&binding);
        let changed = old
            .as_ref()
            .is_none_or(|old| synced_fields(old) != synced_fields(&binding));
        let old_binding = old.as_deref();
        if changed && old_binding.is_some_and(|old| awaits_scheduler(old, &binding)) {
            self.enqueue_settled_sync(key.clone());
        } else if changed
            || is_observed(&binding) && old_binding.is_some_and(|old| !is_observed(old))
        {
            self.enqueue(Job::Sync(key.clone()));
        }
        let scheduled = |binding: &Binding| binding.status.last_scheduled_time.is_some();
        let newly_scheduled = scheduled(&binding) && !old.as_deref().is_some_and(scheduled);
        let has_status = !binding.deleting()
            && (scheduled(&binding) || !self.index.works_of(&binding).is_empty());
        // The scheduler writes all conditions, and may not have seen the newest ones.
        let is_overwritten = self
            .migration(&key)
            .differs_from(&binding.status.conditions)
            || self.is_health_overwritten(&binding);
        let is_scheduled = |binding: &Binding| {
            let scheduled = condition::scheduled(&binding.status.conditions);
            scheduled.is_some_and(|scheduled| scheduled.status == "True")
        };
        // The condition `Healthy` of a binding without clusters depends on the scheduler's result.
        let is_decided = old
            .as_ref()
            .is_some_and(|old| is_scheduled(old) != is_scheduled(&binding));
        if has_status && (changed || newly_scheduled || is_decided || is_overwritten) {
            self.enqueue_settled_status(key);
        }
    }

    /// Stores a Work from the response to a write of this process, unless a watch event has since reported the deletion
    /// of the Work.
    pub(super) fn store_written_work(&mut self, work: Work, deleted: &HashSet<WorkKey>) {
        let meta = &work.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let key = WorkKey::new(namespace, meta.name.as_deref().unwrap_or_default());
        if let Some(key) = key
            && !deleted.contains(&key)
        {
            self.store_work(key, Arc::new(work), Origin::Response);
        }
    }

    fn store_work(&mut self, key: WorkKey, work: Arc<Work>, origin: Origin) {
        let old = self.index.work(&key).cloned();
        let old_version = old.as_deref().and_then(version);
        if old_version.is_some() && version(&work) <= old_version {
            return;
        }
        self.index.insert_work(key.clone(), Arc::clone(&work));
        let deleting = |work: &Work| work.metadata.deletion_timestamp.is_some();
        let generation = |work: &Work| work.metadata.generation;
        let relevant = |work: &Work| (work.status.clone(), deleting(work), generation(work));
        let old = old.as_ref();
        let changed = old.is_none_or(|old| relevant(old) != relevant(&work));
        if changed && let Some(binding) = self.index.binding_of_work(&work).cloned() {
            let spec_changed = old.is_none_or(|old| generation(old) != generation(&work));
            if origin == Origin::Watch && spec_changed && !deleting(&work) {
                let version = work.metadata.resource_version.clone();
                self.check_spec_change(binding.clone(), version.unwrap_or_default());
            }
            self.check_wait(&binding);
            if deleting(&work) {
                self.check_followers(&key.cluster);
            }
            // A failure is not delayed, because a user may have to act on it.
            if has_failed(&work) && old.is_none_or(|old| !has_failed(old)) {
                self.enqueue(Job::Status(binding));
            } else {
                self.enqueue_settled_status(binding);
            }
        }
        if self.listed.contains(&Source::Clusters) {
            self.send_to_member(&key.cluster, Message::Work(work));
        }
    }

    fn handle_deleted_work(&mut self, namespace: &str, name: &str) {
        let Some(key) = WorkKey::new(namespace, name) else {
            return;
        };
        let Some(work) = self.index.remove_work(&key) else {
            return;
        };
        if let Some(binding) = self.index.binding_of_work(&work).cloned() {
            self.note_deleted_work(&binding, key.clone());
            // The sync of the binding may have waited for this deletion, or may have to create the Work again.
            self.check_followers(&key.cluster);
            self.enqueue(Job::Sync(binding.clone()));
            self.enqueue(Job::Status(binding));
        }
        if self.listed.contains(&Source::Clusters) {
            self.send_to_member(&key.cluster, Message::WorkGone(key.name));
        }
    }

    fn handle_cluster(&mut self, object: DynamicObject) {
        let Some(cluster) = parse::<Cluster>(object) else {
            return;
        };
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let cluster = Arc::new(cluster);
        let clusters = &mut self.index.clusters;
        let old = clusters.insert(name.clone(), Arc::clone(&cluster));
        // Override policies match on these fields.
        let matched_fields = |cluster: &Cluster| {
            let spec = &cluster.spec;
            (
                cluster.metadata.labels.clone(),
                spec.provider.clone(),
                spec.region.clone(),
                spec.zones.clone(),
            )
        };
        let affects_works = match &old {
            None => self.listed.contains(&Source::Clusters),
            Some(old) => {
                self.index.has_overrides() && matched_fields(old) != matched_fields(&cluster)
            }
        };
        if affects_works {
            for binding in self.index.bindings_targeting(&name) {
                self.enqueue(Job::Sync(binding));
            }
        }
        if old
            .as_ref()
            .is_some_and(|old| waits_on(old) != waits_on(&cluster))
        {
            self.check_waits();
        }
        let state = |cluster: Option<&Cluster>| discriminant(&ClusterState::of(cluster));
        let has_changed = state(old.as_deref()) != state(Some(&cluster));
        if self.listed.contains(&Source::Clusters) && has_changed {
            self.check_statuses(&name);
        }
        if old.is_some_and(|old| awaits_deletions(&old) && !awaits_deletions(&cluster)) {
            for binding in self.index.deleted_bindings_in(&name) {
                self.enqueue(Job::Sync(binding));
            }
        }
        if self.listed.contains(&Source::Clusters) {
            self.send_to_member(&name, Message::Cluster(Some(cluster)));
        }
    }

    /// Enqueues the status of the bindings with a copy in a cluster, because the readiness of the cluster tells whether its
    /// reports are current.
    fn check_statuses(&mut self, cluster: &str) {
        for binding in self.index.bindings_in(cluster) {
            self.count_health_again(&binding);
            self.enqueue_settled_status(binding);
        }
    }

    /// Starts the members' tasks once all clusters are listed. From then on, a Work of an unlisted cluster belongs to a
    /// deleted cluster.
    fn start_members(&mut self) {
        let clusters: Vec<(String, Arc<Cluster>)> = self
            .index
            .clusters
            .iter()
            .map(|(name, cluster)| (name.clone(), Arc::clone(cluster)))
            .collect();
        for (name, cluster) in clusters {
            self.send_to_member(&name, Message::Cluster(Some(cluster)));
        }
        let works: Vec<(String, Arc<Work>)> = self
            .index
            .works()
            .map(|(key, work)| (key.cluster.clone(), Arc::clone(work)))
            .collect();
        for (cluster, work) in works {
            self.send_to_member(&cluster, Message::Work(work));
        }
    }

    fn handle_override_policy(&mut self, kind: OverrideKind, object: &DynamicObject) {
        let (namespace, name) = names(object);
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let spec: OverrideSpec = match serde_json::from_value(spec) {
            Ok(spec) => spec,
            Err(error) => {
                tracing::warn!(namespace, name, %error, "cannot decode an override policy");
                return;
            }
        };
        let policy = Arc::new(OverridePolicy::new(&name, &spec));
        let new = Some(Arc::clone(&policy));
        let old = self.index.set_override_policy(kind, &namespace, &name, new);
        let both = old.into_iter().chain([policy]).collect();
        self.enqueue_selected(kind, &namespace, both);
    }

    fn enqueue_selected(
        &mut self,
        kind: OverrideKind,
        namespace: &str,
        policies: Vec<Arc<OverridePolicy>>,
    ) {
        for binding in self.index.bindings_selected_by(kind, namespace, &policies) {
            self.enqueue(Job::Sync(binding));
        }
    }
}

impl Observe for Propagator {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        match source {
            Source::Bindings(_) => self.handle_binding(&object),
            Source::Works => {
                if let Some((work, key)) = parse_work(object) {
                    self.store_work(key, Arc::new(work), Origin::Watch);
                }
            }
            Source::Clusters => self.handle_cluster(object),
            Source::Overrides(kind) => self.handle_override_policy(*kind, &object),
            Source::Interpreter(_) => {}
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Bindings(_) => {
                let key = BindingKey::new(namespace, name);
                self.forget_sync(&key);
                self.index.remove_binding(&key);
                self.monitor.forget_binding(&key);
            }
            Source::Works => self.handle_deleted_work(namespace, name),
            Source::Clusters => {
                self.index.clusters.remove(name);
                self.check_statuses(name);
                for binding in self.index.deleted_bindings_in(name) {
                    self.enqueue(Job::Sync(binding));
                }
                self.send_to_member(name, Message::Cluster(None));
            }
            Source::Overrides(kind) => {
                let old = self.index.set_override_policy(*kind, namespace, name, None);
                self.enqueue_selected(*kind, namespace, old.into_iter().collect());
            }
            Source::Interpreter(_) => {}
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Bindings(kind) => {
                let keys = self.index.binding_keys();
                let of_kind = keys.filter(|key| *kind == key.kind());
                of_kind
                    .map(|key| (key.namespace_or_empty().to_owned(), key.name.to_string()))
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
            Source::Clusters => cluster_scoped(self.index.clusters.keys()),
            Source::Overrides(kind) => self.index.override_names(*kind),
            Source::Interpreter(_) => Vec::new(),
        }
    }

    fn listed(&mut self, source: &Source) {
        if self.listed.insert(*source) && *source == Source::Clusters {
            self.start_members();
            self.count_all_health();
        }
    }
}

/// Reports whether the scheduler has processed the present generation of a binding.
fn is_observed(binding: &Binding) -> bool {
    binding.status.scheduler_observed_generation == Some(binding.generation())
}

/// Reports whether a binding differs from its former version only in the template, so that the scheduler's decision
/// follows at once. One sync then writes the change of the template together with the new replicas.
fn awaits_scheduler(old: &Binding, new: &Binding) -> bool {
    let without_template = |binding: &Binding| {
        let mut spec = binding.spec.clone();
        spec.resource = ObjectReference::default();
        spec.replicas = 0;
        spec
    };
    is_observed(old)
        && !is_observed(new)
        && !new.deleting()
        && !new.spec.clusters.is_empty()
        && without_template(old) == without_template(new)
}

/// The source of a Work's new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A watch event. Any client may have sent the write.
    Watch,
    /// The response to a write of this process.
    Response,
}

/// Parses the resource version. Returns `None` if the version is not a number. A stored Work with such a version never
/// blocks an update.
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

/// Decodes a Work. Returns `None` for a Work outside the execution namespaces.
fn parse_work(object: DynamicObject) -> Option<(Work, WorkKey)> {
    let (namespace, name) = names(&object);
    let key = WorkKey::new(&namespace, &name)?;
    Some((parse(object)?, key))
}

fn parse<K: DeserializeOwned>(object: DynamicObject) -> Option<K> {
    let (namespace, name) = names(&object);
    let parsed = serde_json::to_value(object).and_then(serde_json::from_value);
    match parsed {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            tracing::warn!(namespace, name, %error, "cannot decode an object");
            None
        }
    }
}

/// Returns the fields of a Cluster on which old copies that wait depend.
fn waits_on(cluster: &Cluster) -> (bool, Option<&BTreeMap<String, String>>) {
    (awaits_deletions(cluster), cluster.metadata.labels.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(generation: i64, observed: i64, spec: Value) -> Binding {
        let mut object = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": { "name": "web", "namespace": "n", "generation": generation },
            "spec": {
                "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "resourceVersion": "1" },
                "replicas": 2, "clusters": [{ "name": "m1", "replicas": 2 }] },
            "status": { "schedulerObservedGeneration": observed },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        decode(&serde_json::from_value(object).unwrap()).unwrap()
    }

    #[test]
    fn only_changes_of_the_template_await_the_scheduler() {
        let old = binding(1, 1, json!({}));
        let resource = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "resourceVersion": "2" });
        for (observed, spec, expected) in [
            (1, json!({ "resource": resource, "replicas": 3 }), true),
            (1, json!({ "resource": resource }), true),
            (2, json!({ "resource": resource }), false),
            (
                1,
                json!({ "clusters": [{ "name": "m2", "replicas": 2 }] }),
                false,
            ),
            (1, json!({ "clusters": [] }), false),
            (1, json!({ "suspension": { "dispatching": true } }), false),
            (1, json!({ "conflictResolution": "Overwrite" }), false),
        ] {
            let new = binding(2, observed, spec.clone());
            assert_eq!(awaits_scheduler(&old, &new), expected, "{observed} {spec}");
        }
        // The decision about the former generation is still to come, and may concern this one, too.
        let unobserved = binding(1, 0, json!({}));
        assert!(!awaits_scheduler(
            &unobserved,
            &binding(2, 0, json!({ "replicas": 3 }))
        ));
    }
}
