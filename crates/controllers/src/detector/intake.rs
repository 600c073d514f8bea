//! How observations change the state, and what has to be looked at because of them.

use std::collections::HashSet;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::binding_change::are_decided_otherwise;
use super::claim::{PolicyKey, PolicyKind};
use super::decision::Cause;
use super::happenings;
use super::observation::{Message, Source};
use super::owner::Owner;
use super::policy::{Policy, PolicyRecord, Standing};
use super::template::Template;
use crate::binding_key::BindingKey;
use crate::binding_key::BindingKind;
use crate::informer::{Listing, Observation};
use crate::resource_selector::Objects;
use crate::resource_type::{ResourceType, TemplateKey};
use crate::server_objects::is_made_by_server;

impl Owner {
    pub(super) fn take_in(&mut self, message: Message) {
        match message {
            Message::Served(types) => self.serve(types),
            Message::Observed(source, observation) => self.observe(source, observation),
        }
    }

    /// Watches what is served and is to be propagated, and forgets what is served no longer.
    fn serve(&mut self, served: Vec<ResourceType>) {
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
                let skipped = &self.options.skipped_apis;
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
            let source = Source::Templates(Arc::clone(&resource));
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
            Source::Bindings(_) => self.binding_applied(object),
            Source::Overrides(kind) => {
                let namespace = object.namespace().unwrap_or_default();
                if self
                    .index
                    .put_override((*kind, namespace, object.name_any()))
                {
                    self.overrides_came();
                }
            }
        }
    }

    fn delete(&mut self, source: &Source, namespace: &str, name: &str) {
        match source {
            Source::Templates(resource) => self.template_deleted(&resource.key(namespace, name)),
            Source::Policies(kind) => self.policy_deleted(&PolicyKey {
                kind: *kind,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            Source::Bindings(_) => self.binding_deleted(&BindingKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            Source::Overrides(kind) => {
                let key = (*kind, namespace.to_owned(), name.to_owned());
                self.index.remove_override(&key);
            }
        }
    }

    /// Objects that were known and did not turn up in a new list have been deleted meanwhile.
    fn forget_unlisted(&mut self, source: &Source, seen: &Listing) {
        let known: Vec<(String, String)> = match source {
            Source::Templates(resource) => self
                .index
                .template_keys()
                .filter(|key| key.resource == *resource)
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Policies(kind) => self
                .index
                .policies()
                .filter(|record| record.key.kind == *kind)
                .map(|record| (record.key.namespace.clone(), record.key.name.clone()))
                .collect(),
            Source::Bindings(kind) => self
                .index
                .binding_keys()
                .filter(|key| BindingKind::of(key) == *kind)
                .map(|key| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Overrides(kind) => self
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

    fn template_applied(&mut self, resource: &Arc<ResourceType>, object: DynamicObject) {
        let namespace = object.namespace().unwrap_or_default();
        let api = &resource.api;
        let made_by_server =
            is_made_by_server(&api.group, &api.kind, &namespace, &object.name_any());
        if made_by_server || self.options.skips_namespace(&namespace) {
            return;
        }
        let is_priority_class = resource.api.kind == "PriorityClass";
        let template = Arc::new(Template::from_object(resource, object));
        let old = self.index.put_template(&template);
        if let Some(old) = &old {
            self.claim_may_have_ended(old);
        }
        if let Some(cause) = self.cause_of_change(old.as_deref(), &template) {
            self.enqueue(template.key.clone(), cause);
        }
        if is_priority_class {
            for key in self.waiting.take_for_priority_class() {
                self.enqueue(key, Cause::user());
            }
        }
    }

    /// Why a template that came or changed is looked at; nothing where the change does not count.
    fn cause_of_change(&self, old: Option<&Template>, new: &Template) -> Option<Cause> {
        let Some(old) = old.filter(|old| old.uid == new.uid) else {
            return Some(Cause::user());
        };
        if old.fingerprints.all == new.fingerprints.all {
            return None;
        }
        let held_lazily = new
            .claim
            .as_ref()
            .and_then(|claim| self.index.policy(&claim.policy)?.ready())
            .is_some_and(|policy| policy.is_lazy());
        Some(Cause {
            by_user: !held_lazily || old.fingerprints.by_user != new.fingerprints.by_user,
            ..Cause::default()
        })
    }

    fn template_deleted(&mut self, key: &TemplateKey) {
        self.waiting.forget(key);
        if let Some(old) = self.index.remove_template(key) {
            self.claim_may_have_ended(&old);
        }
    }

    /// A policy that is being deleted goes when its last claim has ended.
    fn claim_may_have_ended(&mut self, old: &Template) {
        if let Some(claim) = &old.claim
            && let Some(record) = self.index.policy(&claim.policy)
            && matches!(record.standing, Standing::Leaving)
        {
            self.enqueue_policy(claim.policy.clone());
        }
    }

    fn policy_applied(&mut self, kind: PolicyKind, object: &DynamicObject) {
        let record = Arc::new(PolicyRecord::from_object(kind, object));
        let old = self.index.put_policy(Arc::clone(&record));
        if old.as_ref().is_some_and(|old| is_unchanged(old, &record)) {
            return;
        }
        if let Standing::Refused(reason) = &record.standing {
            self.writer
                .events
                .record(happenings::refused(&record, reason));
        }
        for fault in &record.faults {
            self.writer
                .events
                .record(happenings::faulty_selector(&record, fault));
        }
        if matches!(record.standing, Standing::Leaving) {
            self.let_go_of_claims(&record.key);
        }
        self.enqueue_policy(record.key.clone());
        if self.options.gates.policy_preemption
            && let Some(old) = old.as_ref().and_then(|old| old.ready())
            && let Some(new) = record.ready()
        {
            self.call_challengers(old.priority(), new);
        }
    }

    fn policy_deleted(&mut self, key: &PolicyKey) {
        if self.index.remove_policy(key).is_some() {
            self.let_go_of_claims(key);
        }
    }

    fn let_go_of_claims(&mut self, policy: &PolicyKey) {
        let claimed: Vec<TemplateKey> = self.index.claimed_by(policy).cloned().collect();
        for key in claimed {
            let cause = Cause {
                policy_changed: true,
                ..Cause::default()
            };
            self.enqueue(key, cause);
        }
    }

    /// What a policy's coming or change means for templates: those it holds, those that wait, and those
    /// that it may take from others.
    pub(super) fn spread_change(&mut self, policy: &Policy) {
        let by_user = !policy.is_lazy();
        let held: Vec<TemplateKey> = self.index.claimed_by(&policy.key).cloned().collect();
        for key in held {
            let cause = Cause {
                by_user,
                policy_changed: true,
                ..Cause::default()
            };
            self.enqueue(key, cause);
        }
        let index = &self.index;
        let selected = |key: &&TemplateKey| index.template(key).is_some_and(|t| policy.selects(t));
        let waiting: Vec<TemplateKey> = self
            .waiting
            .of_kinds_of(policy)
            .filter(selected)
            .cloned()
            .collect();
        for key in waiting {
            let cause = Cause {
                by_user,
                ..Cause::default()
            };
            self.enqueue(key, cause);
        }
        // Which policy wins a template that waits for overrides may have changed.
        self.overrides_came();
        if self.options.gates.policy_preemption && policy.preempts() {
            self.challenge(policy);
        }
    }

    fn challenge(&mut self, policy: &Policy) {
        for selector in &policy.selectors {
            let Objects::Named(name) = &selector.objects else {
                continue;
            };
            let kinds = self.types.keys().filter(|kind| {
                kind.api.api_version == selector.api_version && kind.api.kind == selector.kind
            });
            let keys: Vec<TemplateKey> = kinds
                .map(|kind| kind.key(&selector.namespace, name))
                .collect();
            for key in keys {
                let cause = Cause {
                    by_user: !policy.is_lazy(),
                    policy_changed: false,
                    challengers: vec![policy.key.clone()],
                };
                self.enqueue(key, cause);
            }
        }
    }

    /// When the priority of a policy falls, those between the old and the new one may take its templates.
    fn call_challengers(&mut self, old_priority: i32, policy: &Policy) {
        let key = &policy.key;
        let mut between: Vec<(i32, PolicyKey)> = self
            .index
            .ready_policies(key.kind, &key.namespace)
            .filter(|other| {
                other.preempts()
                    && other.priority() > policy.priority()
                    && other.priority() < old_priority
            })
            .map(|other| (other.priority(), other.key.clone()))
            .collect();
        between.sort_by(|a, b| b.cmp(a));
        for (_, key) in between {
            self.enqueue_policy(key);
        }
    }

    fn overrides_came(&mut self) {
        for (key, cause) in self.waiting.take_for_overrides() {
            self.enqueue(key, cause);
        }
    }

    fn look_at_leaving_policies(&mut self) {
        let leaving: Vec<PolicyKey> = self
            .index
            .policies()
            .filter(|record| matches!(record.standing, Standing::Leaving))
            .map(|record| record.key.clone())
            .collect();
        for key in leaving {
            self.enqueue_policy(key);
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
            && self.index.claimed_by(&policy.key).next().is_none()
    }

    fn binding_applied(&mut self, mut object: DynamicObject) {
        if let Some(fields) = object.data.as_object_mut() {
            fields.remove("status");
        }
        let key = BindingKey {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        };
        // A write of a process before this one may arrive late, and undo what was decided since. Nor does our own write
        // count as known: work that is going on may have found nothing to write to the version before it.
        if self.is_news(&key, &object)
            && let Some(template) = self.template_of(&key, &object)
        {
            self.enqueue(template, Cause::default());
        }
        self.index.put_binding(key, object);
    }

    /// Whether a binding has changed where the detector writes.
    fn is_news(&self, key: &BindingKey, new: &DynamicObject) -> bool {
        let Some(old) = self.index.binding(key) else {
            return true;
        };
        old.metadata.labels != new.metadata.labels || are_decided_otherwise(old, new)
    }

    /// The template of a binding, if it is there.
    fn template_of(&self, key: &BindingKey, binding: &DynamicObject) -> Option<TemplateKey> {
        let resource = binding.data.get("spec")?.get("resource")?;
        let text = |field: &str| resource.get(field)?.as_str();
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let mut kinds = self.types.keys();
        let kind =
            kinds.find(|known| known.api.api_version == api_version && known.api.kind == kind)?;
        let template = kind.key(&key.namespace, text("name")?);
        self.index.template(&template).is_some().then_some(template)
    }

    /// A binding that was deleted under its template is made again, and a template whose binding belonged
    /// to an older one of its name gets its own.
    fn binding_deleted(&mut self, key: &BindingKey) {
        let Some(binding) = self.index.binding(key).cloned() else {
            return;
        };
        self.index.remove_binding(key);
        if let Some(template) = self.template_of(key, &binding) {
            self.enqueue(template, Cause::default());
        }
    }
}

/// Edits of a policy's metadata change nothing, unless they complete it or bindings get what they say.
fn is_unchanged(old: &PolicyRecord, new: &PolicyRecord) -> bool {
    old.uid == new.uid
        && old.generation == new.generation
        && std::mem::discriminant(&old.standing) == std::mem::discriminant(&new.standing)
        && preemptible(old) == preemptible(new)
}

fn preemptible(policy: &PolicyRecord) -> Option<&str> {
    match &policy.standing {
        Standing::Ready(policy) => policy.preemptible.as_deref(),
        _ => None,
    }
}
