//! Hands observations to the state, and watches what the server serves.

use std::collections::HashSet;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::claim::{PolicyKey, PolicyKind};
use super::happenings;
use super::observation::{Message, Source};
use super::owner::Owner;
use super::policy::{PolicyRecord, Standing};
use super::template::Template;
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::informer::{Listing, Observation};
use crate::resource_type::ResourceType;

impl Owner {
    pub(super) fn take_in(&mut self, message: Message) {
        match message {
            Message::Served(types) => self.serve(types),
            Message::Observed(source, observation) => self.observe(source, observation),
        }
    }

    /// Watches what is served and is to be propagated, and forgets what is served no longer.
    fn serve(&mut self, served: Vec<ResourceType>) {
        self.unserved.serve(&served);
        for resource in &served {
            let api = &resource.api;
            let kind = match (api.group.as_str(), api.plural.as_str()) {
                ("policy.karmada.io", "overridepolicies") => PolicyKind::Namespaced,
                ("policy.karmada.io", "clusteroverridepolicies") => PolicyKind::Cluster,
                _ => continue,
            };
            self.watch(Source::Overrides(kind), api.clone());
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
        let gone: Vec<Arc<ResourceType>> = self
            .types
            .keys()
            .filter(|known| !wanted.contains(*known))
            .cloned()
            .collect();
        for resource in gone {
            if let Some(end) = self.types.remove(&resource) {
                end.cancel();
            }
            self.state.types.remove(&resource);
            let source = Source::Templates(resource);
            self.listed.remove(&source);
            self.forget_unlisted(&source, &Listing::default());
        }
        for resource in wanted {
            if !self.types.contains_key(&resource) {
                self.watch_templates(resource);
            }
        }
        self.discovered = true;
        self.look_at_leaving_policies();
    }

    fn observe(&mut self, source: Source, observation: Observation) {
        // An informer that was ended may have sent something before.
        if let Source::Templates(resource) = &source
            && !self.types.contains_key(resource)
        {
            return;
        }
        match observation {
            Observation::Listed(listing) => {
                self.forget_unlisted(&source, &listing);
                self.listed.insert(source);
                self.look_at_leaving_policies();
            }
            Observation::Applied(object) => self.apply(&source, *object),
            Observation::Deleted(object) => {
                let namespace = object.namespace().unwrap_or_default();
                self.delete(&source, &namespace, &object.name_any());
            }
            // It may be served again in a moment, and nothing leaves a member for less than a deletion.
            Observation::Unserved => {}
        }
    }

    fn apply(&mut self, source: &Source, object: DynamicObject) {
        match source {
            Source::Templates(resource) => self.template_applied(resource, object),
            Source::Policies(kind) => self.policy_applied(*kind, &object),
            Source::Bindings(_) => self.state.binding_applied(object),
            Source::Overrides(kind) => {
                let namespace = object.namespace().unwrap_or_default();
                self.state
                    .override_applied((*kind, namespace, object.name_any()));
            }
        }
    }

    fn delete(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Templates(resource) => {
                self.state.template_deleted(&resource.key(namespace, name));
            }
            Source::Policies(kind) => {
                let key = PolicyKey {
                    kind: *kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.unserved.forget(&key);
                self.state.policy_deleted(&key);
            }
            Source::Bindings(_) => self.state.binding_deleted(&BindingKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            Source::Overrides(kind) => {
                let key = (*kind, namespace.to_owned(), name.to_owned());
                self.state.index.remove_override(&key);
            }
        }
    }

    /// Objects that were known and did not turn up in a new list have been deleted meanwhile.
    fn forget_unlisted(&mut self, source: &Source, seen: &Listing) {
        let known: Vec<(String, String)> = match source {
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
                .filter(|key| BindingKind::of(key) == *kind)
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Overrides(kind) => self
                .state
                .index
                .overrides(*kind)
                .map(|(_, namespace, name)| (namespace.clone(), name.clone()))
                .collect(),
        };
        for (namespace, name) in known {
            if !seen.contains(&namespace, &name) {
                self.delete(source, &namespace, &name);
            }
        }
    }

    fn look_at_leaving_policies(&mut self) {
        let leaving: Vec<PolicyKey> = self
            .state
            .index
            .policies()
            .filter(|record| matches!(record.standing, Standing::Leaving))
            .map(|record| record.key.clone())
            .collect();
        for key in leaving {
            self.state.enqueue_policy(key);
        }
    }

    /// Whether a policy may go: all objects of its kinds were seen, and nothing is claimed. Kinds that are
    /// not served, or not propagated, hold it up no more than others that it does not name.
    pub(super) fn nothing_claimed_by(&self, policy: &PolicyRecord) -> bool {
        let names = |kind: &ResourceType| {
            let mut kinds = policy.kinds.iter();
            kinds.any(|(version, name)| *version == kind.api.api_version && *name == kind.api.kind)
        };
        let mut kinds = self.types.keys().filter(|kind| names(kind));
        self.discovered
            && kinds.all(|kind| self.listed.contains(&Source::Templates(Arc::clone(kind))))
            && self.state.index.claimed_by(&policy.key).next().is_none()
    }

    fn template_applied(&mut self, resource: &Arc<ResourceType>, object: DynamicObject) {
        let key = resource.key(&object.namespace().unwrap_or_default(), &object.name_any());
        if !self.state.skips(&key) {
            self.state
                .template_applied(Template::from_object(resource, object));
        }
    }

    fn policy_applied(&mut self, kind: PolicyKind, object: &DynamicObject) {
        let record = Arc::new(PolicyRecord::from_object(kind, object));
        if !self.state.policy_applied(&record) {
            return;
        }
        let events = &self.writer.events;
        if let Standing::Refused(reason) = &record.standing {
            events.record(happenings::refused(&record, reason));
        }
        for fault in &record.faults {
            events.record(happenings::faulty_selector(&record, fault));
        }
        self.unserved.policy_changed(&record);
    }

    /// Records an event for each policy that names an API which is not served, unless it has been recorded.
    pub(super) fn report_unserved_apis(&mut self) {
        for (policy, fault) in self.unserved.check(self.state.index.policies()) {
            self.writer
                .events
                .record(happenings::unserved_api(policy, &fault));
        }
    }
}
