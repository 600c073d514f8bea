//! The handlers of the detector's events. They apply watch events to the state, and start and stop the informers for
//! the discovered resource types.

use std::collections::HashSet;
use std::sync::Arc;

use berth_api::BindingKey;
use berth_component_base::list_watch::Listing;
use kube::ResourceExt;
use kube::api::DynamicObject;

use super::claim::{Claim, PolicyKey, PolicyKind};
use super::policy::{PolicyRecord, PolicyState};
use super::reconciler::{Detector, Event, Source};
use super::recorded_events;
use super::template::Template;
use crate::reconciler::Inputs;
use crate::reconciler::informer::WatchEvent;
use crate::reconciler::observe::{ObjectName, Observe, cluster_scoped};
use crate::resource_type::ResourceType;

impl Detector {
    /// Starts informers for new resource types that are not skipped. Stops the informers for types that are no longer
    /// served, and removes the templates of these types.
    pub(super) fn handle_discovery(
        &mut self,
        served: Vec<ResourceType>,
        inputs: &mut Inputs<Event>,
    ) {
        self.unserved.serve(&served);
        for resource in &served {
            let api = &resource.api;
            let kind = match (api.group.as_str(), api.plural.as_str()) {
                ("policy.karmada.io", "overridepolicies") => PolicyKind::Namespaced,
                ("policy.karmada.io", "clusteroverridepolicies") => PolicyKind::Cluster,
                _ => continue,
            };
            self.watch(Source::Overrides(kind), api, inputs);
        }
        let wanted: HashSet<Arc<ResourceType>> = served
            .into_iter()
            .filter(|resource| {
                let api = &resource.api;
                let skipped = &self.state.options.skipped_apis;
                !skipped.contains(&api.group, &api.version, &api.kind)
            })
            .map(Arc::new)
            .collect();
        let removed: Vec<Arc<ResourceType>> = self
            .types
            .keys()
            .filter(|known| !wanted.contains(*known))
            .cloned()
            .collect();
        for resource in removed {
            if let Some(stop) = self.types.remove(&resource) {
                stop.cancel();
            }
            self.state.types.remove(&resource);
            let source = Source::Templates(resource);
            self.listed.remove(&source);
            self.remove_unlisted(&source, &Listing::default());
        }
        for resource in wanted {
            if !self.types.contains_key(&resource) {
                self.watch_templates(resource, inputs);
            }
        }
        self.is_discovered = true;
        self.enqueue_terminating_policies();
    }

    pub(super) fn handle_watch_event(&mut self, source: Source, event: WatchEvent) {
        // The informer that sent this event may be stopped by now.
        if let Source::Templates(resource) = &source
            && !self.types.contains_key(resource)
        {
            return;
        }
        if let Source::Interpreter(kind) = source {
            let changed = self.customizations.handle(kind, event);
            if !changed.is_empty() {
                self.state
                    .enqueue_kinds(|api_version, kind| changed.contains(api_version, kind));
            }
            return;
        }
        self.observe(&source, event);
    }

    fn enqueue_terminating_policies(&mut self) {
        let terminating: Vec<PolicyKey> = self
            .state
            .index
            .policies()
            .filter(|record| matches!(record.state, PolicyState::Terminating))
            .map(|record| record.key.clone())
            .collect();
        for key in terminating {
            self.state.enqueue_policy(key);
        }
    }

    /// Reports whether a policy has no claims left. This is certain only when all templates of its kinds are listed.
    /// Kinds that are skipped or not served have no templates.
    pub(super) fn has_released_all(&self, policy: &PolicyRecord) -> bool {
        let is_selected = |kind: &ResourceType| {
            let mut kinds = policy.kinds.iter();
            kinds.any(|(version, name)| kind.is_version_of(version, name))
        };
        let mut kinds = self.types.keys().filter(|kind| is_selected(kind));
        self.is_discovered
            && kinds.all(|kind| self.listed.contains(&Source::Templates(Arc::clone(kind))))
            && self.state.index.claimed_by(&policy.key).next().is_none()
    }

    fn template_applied(&mut self, resource: &Arc<ResourceType>, object: DynamicObject) {
        let key = resource.key(&object.namespace().unwrap_or_default(), &object.name_any());
        if self.state.skips(&key) {
            return;
        }
        // Only claimed templates are propagated.
        let claim = Claim::read(&key.namespace, object.labels(), object.annotations());
        if claim.is_some() {
            let (api_version, kind) = (key.api_version(), key.kind());
            self.templates.store(api_version, kind, object.clone());
        }
        self.state
            .template_applied(Template::from_object(resource, object));
    }

    fn policy_applied(&mut self, kind: PolicyKind, object: &DynamicObject) {
        let record = Arc::new(PolicyRecord::from_object(kind, object));
        if !self.state.policy_applied(&record) {
            return;
        }
        let recorder = &self.writer.events;
        if let PolicyState::Invalid(reason) = &record.state {
            recorder.record(recorded_events::invalid_policy(&record, reason));
        }
        for fault in &record.invalid_selectors {
            recorder.record(recorded_events::invalid_selector(&record, fault));
        }
        self.unserved.policy_changed(&record);
        self.findings.policy_changed(&record);
    }

    /// Records an event for each new finding about a changed policy.
    pub(super) fn report_findings(&mut self) {
        let state = &self.state;
        for (policy, finding) in self.findings.check(&state.index, &state.types) {
            self.writer
                .events
                .record(recorded_events::finding(&policy, &finding));
        }
    }

    /// Records an event for each policy that selects an unserved API, unless the event was already recorded.
    pub(super) fn report_unserved_apis(&mut self) {
        for (policy, fault) in self.unserved.check(self.state.index.policies()) {
            self.writer
                .events
                .record(recorded_events::unserved_api(policy, &fault));
        }
    }
}

impl Observe for Detector {
    type Source = Source;

    fn applied(&mut self, source: &Source, object: DynamicObject) {
        match source {
            Source::Templates(resource) => self.template_applied(resource, object),
            Source::Policies(kind) => self.policy_applied(*kind, &object),
            Source::Bindings(_) => self.state.binding_applied(object),
            Source::Overrides(kind) => {
                self.state.override_applied(PolicyKey {
                    kind: *kind,
                    namespace: object.namespace().unwrap_or_default(),
                    name: object.name_any(),
                });
            }
            Source::Clusters => {
                self.findings.clusters.insert(object.name_any());
            }
            Source::Interpreter(_) => {}
        }
    }

    fn removed(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Templates(resource) => {
                let key = resource.key(namespace, name);
                let (api_version, kind) = (key.api_version(), key.kind());
                self.templates.remove(api_version, kind, namespace, name);
                self.state.template_deleted(&key);
            }
            Source::Policies(kind) => {
                let key = PolicyKey {
                    kind: *kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.unserved.forget(&key);
                self.findings.forget(&key);
                self.state.policy_deleted(&key);
            }
            Source::Bindings(_) => self
                .state
                .binding_deleted(&BindingKey::new(namespace, name)),
            Source::Overrides(kind) => {
                self.state.index.remove_override(&PolicyKey {
                    kind: *kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                });
            }
            Source::Clusters => {
                self.findings.clusters.remove(name);
            }
            Source::Interpreter(_) => {}
        }
    }

    fn names(&self, source: &Source) -> Vec<ObjectName> {
        match source {
            Source::Templates(resource) => self
                .state
                .index
                .template_keys()
                .filter(|key| key.resource == *resource)
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Policies(kind) => self
                .state
                .index
                .policies()
                .filter(|record| record.key.kind == *kind)
                .map(|record| (record.key.namespace.clone(), record.key.name.clone()))
                .collect(),
            Source::Bindings(kind) => self
                .state
                .index
                .binding_keys()
                .filter(|key| key.kind() == *kind)
                .map(|key| (key.namespace_or_empty().to_owned(), key.name.to_string()))
                .collect(),
            Source::Overrides(kind) => self
                .state
                .index
                .overrides(*kind)
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Clusters => cluster_scoped(&self.findings.clusters),
            Source::Interpreter(_) => Vec::new(),
        }
    }

    fn listed(&mut self, source: &Source) {
        self.listed.insert(source.clone());
        self.enqueue_terminating_policies();
    }
}

#[cfg(test)]
mod tests;
