//! The state of the detector, and the templates that a change makes it decide again.
//!
//! A running detector fills this from informers and carries the decisions out on a server; a simulation fills it
//! from manifests and carries them out on copies. It must not know clients, tasks or events.

use std::collections::HashSet;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::binding_change::are_decided_otherwise;
use super::claim::PolicyKey;
use super::decision::{Cause, Plan, decide};
use super::index::{Index, OverrideKey};
use super::options::DetectorOptions;
use super::policy::{Policy, PolicyRecord, Standing};
use super::template::Template;
use super::waiting::WaitingList;
use crate::binding_key::BindingKey;
use crate::queue::{Lane, Queue};
use crate::resource_selector::Objects;
use crate::resource_type::{ResourceType, TemplateKey};
use crate::server_objects::is_made_by_server;

/// An object that is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WorkKey {
    /// A template.
    Template(TemplateKey),
    /// A policy.
    Policy(PolicyKey),
}

/// The next item of the queue. The caller calls [`State::finish`] when the work is done.
#[derive(Clone, Debug)]
pub enum Work {
    /// A template was decided.
    Template {
        /// The template.
        template: Arc<Template>,
        /// Why it was looked at.
        cause: Cause,
        /// The plan for it.
        plan: Plan,
    },
    /// A policy came or changed that cannot be applied as it is.
    Policy(Arc<PolicyRecord>),
}

impl Work {
    /// The key under which it is queued.
    pub fn key(&self) -> WorkKey {
        match self {
            Self::Template { template, .. } => WorkKey::Template(template.key.clone()),
            Self::Policy(record) => WorkKey::Policy(record.key.clone()),
        }
    }
}

/// Templates, policies, overrides and bindings, and the queue of what has to be decided.
#[derive(Debug)]
pub struct State {
    pub(super) options: DetectorOptions,
    pub(super) index: Index,
    pub(super) queue: Queue<WorkKey, Cause>,
    /// The kinds whose objects are templates.
    pub(super) types: HashSet<Arc<ResourceType>>,
    waiting: WaitingList,
}

impl State {
    /// Knows nothing yet.
    pub fn new(options: DetectorOptions) -> Self {
        Self {
            options,
            index: Index::default(),
            queue: Queue::default(),
            types: HashSet::new(),
            waiting: WaitingList::default(),
        }
    }

    /// The observed object.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The settings.
    pub fn options(&self) -> &DetectorOptions {
        &self.options
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
    }

    /// Counts a kind among those whose objects are templates.
    pub fn serve(&mut self, resource: Arc<ResourceType>) {
        self.types.insert(resource);
    }

    /// Takes in a policy that is in force, without looking at templates because of it.
    pub fn policy_known(&mut self, record: PolicyRecord) {
        self.index.put_policy(Arc::new(record));
    }

    /// Takes in a template that has been decided before: what it waits for is found out, and nothing else is done
    /// about it.
    pub fn template_known(&mut self, template: Template) {
        let template = Arc::new(template);
        self.index.put_template(&template);
        match self.plan(&template, &Cause::default()) {
            Plan::AwaitOverrides => {
                self.waiting
                    .await_overrides(template.key.clone(), Cause::user());
            }
            // A policy that selects it and came while no detector was running.
            Plan::Wait | Plan::Apply(_) if template.claim.is_none() => {
                self.waiting.await_policy(template.key.clone());
            }
            _ => {}
        }
    }

    /// Decides about a template without changing anything.
    pub fn plan(&self, template: &Template, cause: &Cause) -> Plan {
        decide(template, &self.index, cause, self.options.gates)
    }

    /// Takes the next key from the queue and decides about it.
    pub fn next_work(&mut self) -> Option<Work> {
        while let Some((key, cause)) = self.queue.next() {
            let work = match &key {
                WorkKey::Template(key) => self.decide_template(key, cause),
                WorkKey::Policy(key) => self.spread_policy(key),
            };
            if work.is_some() {
                return work;
            }
            self.queue.finish(&key);
        }
        None
    }

    /// Ends work that ended well or that nothing had to be done for.
    pub fn finish(&mut self, key: &WorkKey) {
        self.queue.finish(key);
    }

    fn decide_template(&mut self, key: &TemplateKey, cause: Cause) -> Option<Work> {
        self.waiting.forget(key);
        let template = self.index.template(key).cloned()?;
        let plan = self.plan(&template, &cause);
        match &plan {
            Plan::Wait => self.waiting.await_policy(key.clone()),
            Plan::AwaitOverrides => self.waiting.await_overrides(key.clone(), cause.clone()),
            Plan::Leave | Plan::Release(_) | Plan::Apply(_) => {}
        }
        Some(Work::Template {
            template,
            cause,
            plan,
        })
    }

    /// Hands a policy that can be applied on to its templates; any other one is returned.
    fn spread_policy(&mut self, key: &PolicyKey) -> Option<Work> {
        let record = self.index.policy(key).cloned()?;
        match record.ready().cloned() {
            Some(policy) => {
                self.spread_change(&policy);
                None
            }
            None => Some(Work::Policy(record)),
        }
    }

    /// Keeps a template until the priority class exists that its policy names.
    pub(super) fn await_priority_class(&mut self, key: TemplateKey) {
        self.waiting.await_priority_class(key);
    }

    /// Queues a template.
    fn enqueue(&mut self, key: TemplateKey, cause: Cause) {
        let lane = if cause.by_user && !cause.policy_changed {
            Lane::Fast
        } else {
            Lane::Slow
        };
        self.queue
            .add(WorkKey::Template(key), cause, lane, Cause::merge);
    }

    /// Queues a policy.
    pub(super) fn enqueue_policy(&mut self, key: PolicyKey) {
        let key = WorkKey::Policy(key);
        self.queue
            .add(key, Cause::default(), Lane::Fast, Cause::merge);
    }

    /// Takes in a template that came or changed.
    pub fn template_applied(&mut self, template: Template) {
        let is_priority_class = template.key.kind() == "PriorityClass";
        let template = Arc::new(template);
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

    /// Forgets a template.
    pub(super) fn template_deleted(&mut self, key: &TemplateKey) {
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

    /// Takes in a policy that came or changed; reports whether the change counts.
    pub fn policy_applied(&mut self, record: &Arc<PolicyRecord>) -> bool {
        let old = self.index.put_policy(Arc::clone(record));
        if old.as_ref().is_some_and(|old| is_unchanged(old, record)) {
            return false;
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
        true
    }

    /// Forgets a policy, which releases what it has claimed.
    pub(super) fn policy_deleted(&mut self, key: &PolicyKey) {
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

    /// Enqueues the templates that a new or changed policy concerns: those it holds, those that wait, and those
    /// that it may take from others.
    fn spread_change(&mut self, policy: &Policy) {
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
            let kinds = self.types.iter().filter(|kind| {
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

    /// Takes in an override policy.
    pub fn override_applied(&mut self, key: OverrideKey) {
        if self.index.put_override(key) {
            self.overrides_came();
        }
    }

    fn overrides_came(&mut self) {
        for (key, cause) in self.waiting.take_for_overrides() {
            self.enqueue(key, cause);
        }
    }

    /// Takes in a binding that came or changed.
    pub(super) fn binding_applied(&mut self, mut object: DynamicObject) {
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
        let mut kinds = self.types.iter();
        let kind =
            kinds.find(|known| known.api.api_version == api_version && known.api.kind == kind)?;
        let template = kind.key(&key.namespace, text("name")?);
        self.index.template(&template).is_some().then_some(template)
    }

    /// A binding that was deleted under its template is made again, and a template whose binding belonged
    /// to an older one of its name gets its own.
    pub(super) fn binding_deleted(&mut self, key: &BindingKey) {
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
