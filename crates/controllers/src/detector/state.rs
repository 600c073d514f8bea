//! The state of the detector: the index of the observed objects, and the queue of templates and policies to examine.
//!
//! A running detector fills the state from informers, and writes the decisions to a server. A simulation fills the
//! state from manifests, and applies the decisions to copies of the objects. This module must not depend on clients,
//! background tasks or the event recorder.

use std::collections::{BTreeSet, HashSet};
use std::fmt::{self, Display as _};
use std::sync::Arc;

use berth_api::BindingKey;
use kube::api::DynamicObject;

use super::binding_patch::differ_in_detector_fields;
use super::claim::PolicyKey;
use super::decision::{Cause, Plan, decide};
use super::index::Index;
use super::options::DetectorOptions;
use super::policy::{Policy, PolicyRecord, PolicyState};
use super::policy_change;
use super::policy_findings::{self, Finding};
use super::template::Template;
use super::waiting_templates::WaitingTemplates;
use crate::monitor::queue_meter::QueueMeter;
use crate::reconciler::log_key::LogKey;
use crate::reconciler::work_queue::{Priority, WorkQueue};
use crate::resource_type::{ResourceType, TemplateKey};
use crate::self_created_objects::is_made_by_server;

/// The key of a queued object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QueueKey {
    /// A template.
    Template(TemplateKey),
    /// A policy.
    Policy(PolicyKey),
}

impl LogKey for QueueKey {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(key) => key.fmt(f),
            Self::Policy(key) => key.fmt(f),
        }
    }
}

/// An item of the queue. The caller calls [`State::finish`] after it has processed the item.
#[derive(Clone, Debug)]
pub enum QueueItem {
    /// A template with a decision.
    Template {
        /// The template.
        template: Arc<Template>,
        /// The cause of the decision.
        cause: Cause,
        /// The decision.
        plan: Plan,
    },
    /// A policy that cannot be applied: it is incomplete, invalid or being deleted.
    Policy(Arc<PolicyRecord>),
}

impl QueueItem {
    /// Returns the key of the item.
    pub fn key(&self) -> QueueKey {
        match self {
            Self::Template { template, .. } => QueueKey::Template(template.key.clone()),
            Self::Policy(record) => QueueKey::Policy(record.key.clone()),
        }
    }
}

/// The observed objects and the queue.
#[derive(Debug)]
pub struct State {
    pub(super) options: DetectorOptions,
    pub(super) index: Index,
    pub(super) queue: WorkQueue<QueueKey, Cause>,
    /// The resource types of templates.
    pub(super) types: HashSet<Arc<ResourceType>>,
    waiting: WaitingTemplates,
    /// Bindings that were deleted while a write for their template was running. The response must not restore them.
    deleted_during_write: HashSet<BindingKey>,
}

impl State {
    /// Returns an empty state.
    pub fn new(options: DetectorOptions) -> Self {
        Self {
            options,
            index: Index::default(),
            queue: WorkQueue::default(),
            types: HashSet::new(),
            waiting: WaitingTemplates::default(),
            deleted_during_write: HashSet::new(),
        }
    }

    /// Sets the meter that measures the queue.
    pub(super) fn measure(&mut self, meter: QueueMeter) {
        self.queue = std::mem::take(&mut self.queue).metered(meter);
    }

    /// Returns the observed objects.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the options.
    pub fn options(&self) -> &DetectorOptions {
        &self.options
    }

    /// Returns the findings about a policy. `clusters` are the names of all clusters.
    pub fn findings(&self, policy: &Policy, clusters: &BTreeSet<String>) -> BTreeSet<Finding> {
        policy_findings::findings(policy, &self.index, &self.types, clusters)
    }

    /// Reports whether an object is never propagated.
    pub fn skips(&self, key: &TemplateKey) -> bool {
        let api = &key.resource.api;
        is_made_by_server(&api.group, &api.kind, &key.namespace, &key.name)
            || self
                .options
                .skipped_apis
                .contains(&api.group, &api.version, &api.kind)
            || self.options.skips_namespace(&key.namespace)
            || (api.group.is_empty()
                && api.kind == "Namespace"
                && self.options.skips_namespace(&key.name))
    }

    /// Adds a resource type of templates that the server serves.
    pub fn serve(&mut self, resource: Arc<ResourceType>) {
        self.types.insert(resource);
    }

    /// Stores a policy without queueing the templates that it affects.
    pub fn seed_policy(&mut self, record: PolicyRecord) {
        self.index.put_policy(Arc::new(record));
    }

    /// Stores a template without queueing it. If the template needs a policy or override policies, it waits for them.
    pub fn seed_template(&mut self, template: Template) {
        let template = Arc::new(template);
        self.index.put_template(&template);
        match self.plan(&template, &Cause::default()) {
            Plan::AwaitOverrides => {
                self.waiting
                    .await_overrides(template.key.clone(), Cause::user());
            }
            // The plan is `Apply` if a policy was created while no detector was running. The template then waits for an
            // event about this policy.
            Plan::AwaitPolicy | Plan::Apply(_) if template.claim.is_none() => {
                self.waiting.await_policy(template.key.clone());
            }
            _ => {}
        }
    }

    /// Decides about a template without changing the state.
    pub fn plan(&self, template: &Template, cause: &Cause) -> Plan {
        decide(template, &self.index, cause, self.options.gates)
    }

    /// Removes keys from the queue until a key needs an action of the caller. Returns the item of this key.
    pub fn next_item(&mut self) -> Option<QueueItem> {
        while let Some((key, cause)) = self.queue.next() {
            let item = match &key {
                QueueKey::Template(key) => self.decide_template(key, cause),
                QueueKey::Policy(key) => self.examine_policy(key),
            };
            if item.is_some() {
                return item;
            }
            self.queue.finish(&key);
        }
        None
    }

    /// Ends the processing of a key without a retry.
    pub fn finish(&mut self, key: &QueueKey) {
        self.queue.finish(key);
    }

    fn decide_template(&mut self, key: &TemplateKey, cause: Cause) -> Option<QueueItem> {
        self.waiting.remove(key);
        let template = self.index.template(key).cloned()?;
        let plan = self.plan(&template, &cause);
        match &plan {
            Plan::AwaitPolicy => self.waiting.await_policy(key.clone()),
            Plan::AwaitOverrides => self.waiting.await_overrides(key.clone(), cause.clone()),
            Plan::None | Plan::Release(_) | Plan::Apply(_) => {}
        }
        Some(QueueItem::Template {
            template,
            cause,
            plan,
        })
    }

    /// Queues the templates that a ready policy affects. A policy that is not ready is returned for the caller to
    /// process.
    fn examine_policy(&mut self, key: &PolicyKey) -> Option<QueueItem> {
        let record = self.index.policy(key).cloned()?;
        match record.ready().cloned() {
            Some(policy) => {
                self.enqueue_affected_by(&policy);
                None
            }
            None => Some(QueueItem::Policy(record)),
        }
    }

    /// Registers a template that waits for the priority class of its policy.
    pub(super) fn await_priority_class(&mut self, key: TemplateKey) {
        self.waiting.await_priority_class(key);
    }

    /// Queues a template.
    fn enqueue(&mut self, key: TemplateKey, cause: Cause) {
        let priority = if cause.by_user && !cause.policy_changed {
            Priority::High
        } else {
            Priority::Low
        };
        self.queue.push(QueueKey::Template(key), cause, priority);
    }

    /// Queues the templates of the kinds whose interpretation may have changed.
    pub fn enqueue_kinds(&mut self, is_changed: impl Fn(&str, &str) -> bool) {
        let keys = self.index.template_keys();
        let keys = keys.filter(|key| is_changed(key.api_version(), key.kind()));
        for key in keys.cloned().collect::<Vec<_>>() {
            self.enqueue(key, Cause::default());
        }
    }

    /// Queues a policy.
    pub(super) fn enqueue_policy(&mut self, key: PolicyKey) {
        let key = QueueKey::Policy(key);
        self.queue.push(key, Cause::default(), Priority::High);
    }

    /// Stores a new or changed template, and queues it if the change is relevant.
    pub fn template_applied(&mut self, template: Template) {
        let is_priority_class = template.key.kind() == "PriorityClass";
        let template = Arc::new(template);
        let old = self.index.put_template(&template);
        if let Some(old) = &old {
            self.enqueue_terminating_policy_of(old);
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

    /// Returns the cause for examining a new or changed template, or `None` if the change is irrelevant.
    fn cause_of_change(&self, old: Option<&Template>, new: &Template) -> Option<Cause> {
        let Some(old) = old.filter(|old| old.uid == new.uid) else {
            return Some(Cause::user());
        };
        if old.fingerprints.all == new.fingerprints.all {
            return None;
        }
        let is_lazy = new
            .claim
            .as_ref()
            .and_then(|claim| self.index.policy(&claim.policy)?.ready())
            .is_some_and(|policy| policy.is_lazy());
        Some(Cause {
            by_user: !is_lazy || old.fingerprints.by_user != new.fingerprints.by_user,
            ..Cause::default()
        })
    }

    /// Removes a template.
    pub(super) fn template_deleted(&mut self, key: &TemplateKey) {
        self.waiting.remove(key);
        if let Some(old) = self.index.remove_template(key) {
            self.enqueue_terminating_policy_of(&old);
        }
    }

    /// Queues the former policy of a template if this policy is being deleted. The finalizer of the policy is removed
    /// after the policy has lost its last claim.
    fn enqueue_terminating_policy_of(&mut self, old: &Template) {
        if let Some(claim) = &old.claim
            && let Some(record) = self.index.policy(&claim.policy)
            && matches!(record.state, PolicyState::Terminating)
        {
            self.enqueue_policy(claim.policy.clone());
        }
    }

    /// Stores a new or changed policy. Reports whether the change is relevant.
    pub fn policy_applied(&mut self, record: &Arc<PolicyRecord>) -> bool {
        let old = self.index.put_policy(Arc::clone(record));
        let is_relevant = old
            .as_deref()
            .is_none_or(|old| policy_change::is_relevant(old, record));
        if !is_relevant {
            return false;
        }
        if matches!(record.state, PolicyState::Terminating) {
            self.enqueue_claimed_by(&record.key);
        }
        self.enqueue_policy(record.key.clone());
        if self.options.gates.controllers.policy_preemption
            && let Some(old) = old.as_ref().and_then(|old| old.ready())
            && let Some(new) = record.ready()
        {
            for key in policy_change::challengers(&self.index, new, old.priority()) {
                self.enqueue_policy(key);
            }
        }
        true
    }

    /// Removes a policy and queues the templates that it has claimed.
    pub(super) fn policy_deleted(&mut self, key: &PolicyKey) {
        if self.index.remove_policy(key).is_some() {
            self.enqueue_claimed_by(key);
        }
    }

    fn enqueue_claimed_by(&mut self, policy: &PolicyKey) {
        let claimed: Vec<TemplateKey> = self.index.claimed_by(policy).cloned().collect();
        for key in claimed {
            let cause = Cause {
                policy_changed: true,
                ..Cause::default()
            };
            self.enqueue(key, cause);
        }
    }

    /// Queues the templates that a new or changed policy affects: templates that the policy has claimed, templates that
    /// wait for a policy or for override policies, and templates whose present policy may be preempted.
    fn enqueue_affected_by(&mut self, policy: &Policy) {
        let by_user = !policy.is_lazy();
        let claimed: Vec<TemplateKey> = self.index.claimed_by(&policy.key).cloned().collect();
        for key in claimed {
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
            .with_kinds_of(policy)
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
        // Another policy may now win a template that waits for override policies.
        self.enqueue_waiting_for_overrides();
        if self.options.gates.controllers.policy_preemption && policy.preempts() {
            for key in policy_change::named_templates(policy, &self.types) {
                let cause = Cause {
                    by_user,
                    policy_changed: false,
                    challengers: vec![policy.key.clone()],
                };
                self.enqueue(key, cause);
            }
        }
    }

    /// Stores an override policy. If it is new, the templates that wait for override policies are queued.
    pub fn override_applied(&mut self, key: PolicyKey) {
        if self.index.put_override(key) {
            self.enqueue_waiting_for_overrides();
        }
    }

    fn enqueue_waiting_for_overrides(&mut self) {
        for (key, cause) in self.waiting.take_for_overrides() {
            self.enqueue(key, cause);
        }
    }

    /// Ends the write for a template. Stores the written binding unless a watch event has reported a later version or
    /// its deletion. Without it, the next decision about the template would create the binding again.
    pub(super) fn template_written(&mut self, key: &TemplateKey, written: Option<DynamicObject>) {
        let key = key.binding();
        let is_deleted = self.deleted_during_write.remove(&key);
        let Some(binding) = written.map(without_status).filter(|_| !is_deleted) else {
            return;
        };
        let known = self.index.binding(&key).and_then(|known| version(known));
        if known.is_none_or(|known| version(&binding) > Some(known)) {
            self.index.put_binding(key, binding);
        }
    }

    /// Stores a new or changed binding.
    pub(super) fn binding_applied(&mut self, object: DynamicObject) {
        let object = without_status(object);
        let key = BindingKey::of(&object.metadata);
        // Another process may have undone a decision with a delayed write. Writes of this detector are examined as
        // well, because a running write may be based on an older version of the binding.
        if self.is_relevant_change(&key, &object)
            && let Some(template) = self.template_of(&key, &object)
        {
            self.enqueue(template, Cause::default());
        }
        self.index.put_binding(key, object);
    }

    /// Reports whether a binding is new, or changed in its labels or in spec fields that the detector writes.
    fn is_relevant_change(&self, key: &BindingKey, new: &DynamicObject) -> bool {
        let Some(old) = self.index.binding(key) else {
            return true;
        };
        old.metadata.labels != new.metadata.labels || differ_in_detector_fields(old, new)
    }

    /// Returns the key of the binding's template, if the template exists.
    fn template_of(&self, key: &BindingKey, binding: &DynamicObject) -> Option<TemplateKey> {
        let resource = binding.data.get("spec")?.get("resource")?;
        let text = |field: &str| resource.get(field)?.as_str();
        let (api_version, kind) = (text("apiVersion")?, text("kind")?);
        let mut kinds = self.types.iter();
        let kind =
            kinds.find(|known| known.api.api_version == api_version && known.api.kind == kind)?;
        let template = kind.key(key.namespace_or_empty(), text("name")?);
        self.index.template(&template).is_some().then_some(template)
    }

    /// Removes a binding and queues its template, which gets a new binding.
    pub(super) fn binding_deleted(&mut self, key: &BindingKey) {
        let Some(binding) = self.index.binding(key).cloned() else {
            return;
        };
        self.index.remove_binding(key);
        if let Some(template) = self.template_of(key, &binding) {
            if self.queue.is_running(&QueueKey::Template(template.clone())) {
                self.deleted_during_write.insert(key.clone());
            }
            self.enqueue(template, Cause::default());
        }
    }
}

/// Removes the status, which the detector never reads.
fn without_status(mut binding: DynamicObject) -> DynamicObject {
    if let Some(fields) = binding.data.as_object_mut() {
        fields.remove("status");
    }
    binding.metadata.managed_fields = None;
    binding
}

fn version(object: &DynamicObject) -> Option<u64> {
    object.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};

    use super::*;

    #[test]
    fn namespaces_of_the_system_are_never_propagated() {
        let state = State::new(DetectorOptions::default());
        let of_kind = |group: &str, kind: &str| {
            Arc::new(ResourceType {
                api: ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)),
                namespaced: false,
            })
        };
        let namespaces = of_kind("", "Namespace");
        for (name, skipped) in [
            ("karmada-es-m1", true),
            ("karmada-system", true),
            ("karmada-cluster", true),
            ("kube-system", true),
            ("kube-flannel", true),
            ("default", true),
            ("shop", false),
        ] {
            assert_eq!(state.skips(&namespaces.key("", name)), skipped, "{name}");
        }
        let roles = of_kind("rbac.authorization.k8s.io", "ClusterRole");
        assert!(!state.skips(&roles.key("", "karmada-system")));
    }
}
