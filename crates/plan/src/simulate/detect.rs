//! A simulated detector. It computes the bindings for templates and policies with [`State`], the logic of the real
//! detector, on copies of the objects in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::admission::{self, SystemEnvironment};
use berth_api::binding::BindingSpec;
use berth_api::policy::PropagationSpec;
use berth_api::{
    BindingKey, ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration,
};
use berth_controllers::detector::DetectorOptions;
use berth_controllers::detector::binding_patch::{binding_patch, new_binding, release_metadata};
use berth_controllers::detector::claim::{Claim, PolicyKey, PolicyKind};
use berth_controllers::detector::decision::{Cause, Plan};
use berth_controllers::detector::desired_binding::binding_for;
use berth_controllers::detector::policy::{Policy, PolicyRecord, PolicyState};
use berth_controllers::detector::state::{QueueItem, State};
use berth_controllers::detector::template::Template;
use berth_controllers::resource_selector::Selector;
use berth_controllers::resource_type::{ResourceType, TemplateKey};
use berth_interpreter::Interpreter;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use super::merge;
use super::options::SimulateOptions;

/// Permanent id of new bindings. A control plane would generate a random id.
const PLACEHOLDER_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Bindings as JSON, by key.
pub(crate) type Bindings = BTreeMap<BindingKey, Value>;

/// API version and kind.
pub(crate) type ApiKind = (String, String);

/// A template whose binding is missing or not up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unbound {
    /// Kind and name of the template.
    pub(crate) template: String,
    /// True if no policy selects the template.
    pub(crate) unselected: bool,
    /// Reason why the binding is missing or not up to date.
    pub(crate) reason: String,
}

/// The detector's state, the existing objects, and the results for the templates in the manifests.
pub(crate) struct Detector {
    state: State,
    validates: bool,
    interpreter: Interpreter,
    /// Customizations of the interpreter, by name.
    customizations: BTreeMap<String, ResourceInterpreterCustomization>,
    /// Configurations of interpreter webhooks, by name.
    interpreter_webhooks: BTreeMap<String, ResourceInterpreterWebhookConfiguration>,
    /// The template of each binding that was created or updated.
    template_of_binding: HashMap<BindingKey, TemplateKey>,
    /// The policies that had claimed existing templates before the manifests were applied.
    initial_claims: HashMap<TemplateKey, PolicyKey>,
    /// Templates that were applied from manifests or taken from the queue, in the order in which this happened first.
    processed: Vec<TemplateKey>,
    processed_keys: HashSet<TemplateKey>,
    /// Reasons why the binding of a template is not up to date.
    errors: HashMap<TemplateKey, String>,
    /// Keys of the policies in the manifests.
    applied_policies: Vec<PolicyKey>,
}

impl Detector {
    /// Creates a detector without objects.
    pub(crate) fn new(options: &SimulateOptions) -> Self {
        Self {
            state: State::new(DetectorOptions {
                gates: options.gates,
                ..DetectorOptions::default()
            }),
            validates: options.validates,
            interpreter: Interpreter::default(),
            customizations: BTreeMap::new(),
            interpreter_webhooks: BTreeMap::new(),
            template_of_binding: HashMap::new(),
            initial_claims: HashMap::new(),
            processed: Vec::new(),
            processed_keys: HashSet::new(),
            errors: HashMap::new(),
            applied_policies: Vec::new(),
        }
    }

    /// Adds an existing policy without queueing its templates. Returns errors of the policy and its selectors.
    pub(crate) fn seed_policy(&mut self, kind: PolicyKind, object: Value) -> Vec<String> {
        match self.record(kind, object) {
            Ok((record, errors)) => {
                self.state.seed_policy(record);
                errors
            }
            Err(error) => vec![error],
        }
    }

    /// Applies a policy from the manifests, and queues the affected templates and policies. Returns errors of the
    /// policy and its selectors.
    pub(crate) fn policy_applied(&mut self, kind: PolicyKind, object: Value) -> Vec<String> {
        match self.record(kind, object) {
            Ok((record, errors)) => {
                self.applied_policies.push(record.key.clone());
                self.state.policy_applied(&Arc::new(record));
                errors
            }
            Err(error) => vec![error],
        }
    }

    fn record(
        &self,
        kind: PolicyKind,
        mut object: Value,
    ) -> Result<(PolicyRecord, Vec<String>), String> {
        admission::complete_policy(kind.guarded(), &mut object, &mut SystemEnvironment);
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| error.to_string())?;
        let mut record = PolicyRecord::from_object(kind, &object);
        let mut errors = Vec::new();
        if let PolicyState::Invalid(reason) = &record.state {
            match invalid_policy(&record.key, &object) {
                Some(policy) if !self.validates => {
                    record.state = PolicyState::Ready(Arc::new(policy));
                }
                _ => errors.push(format!("{} is not applied: {reason}", record.key)),
            }
        }
        errors.extend(
            record
                .invalid_selectors
                .iter()
                .map(|error| format!("{}: {error}", record.key)),
        );
        Ok((record, errors))
    }

    /// Returns the policy with a key.
    pub(crate) fn policy(&self, key: &PolicyKey) -> Option<&Arc<PolicyRecord>> {
        self.state.index().policy(key)
    }

    /// Returns the policies from the manifests.
    pub(crate) fn applied_policies(&self) -> impl Iterator<Item = &Arc<PolicyRecord>> {
        self.applied_policies
            .iter()
            .filter_map(|key| self.state.index().policy(key))
    }

    /// Returns all policies, existing policies and policies from the manifests.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &PolicyRecord> {
        self.state.index().policies().map(|record| &**record)
    }

    /// Returns all templates, existing templates and templates from the manifests.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Arc<Template>> {
        let index = self.state.index();
        index.template_keys().filter_map(|key| index.template(key))
    }

    /// Returns a line for each finding about a policy in the manifests. `clusters` are the names of all clusters.
    pub(crate) fn findings(&self, clusters: &BTreeSet<String>) -> Vec<String> {
        let policies = self.applied_policies().filter_map(|record| record.ready());
        let lines = policies.flat_map(|policy| {
            let findings = self.state.findings(policy, clusters);
            let key = policy.key.clone();
            findings
                .into_iter()
                .map(move |finding| format!("{key}: {finding}"))
        });
        lines.collect()
    }

    /// Returns the policies with `preemption: Always`, if the feature gate for preemption is off. Otherwise returns an
    /// empty list.
    pub(crate) fn idle_preemptors(&self) -> Vec<&PolicyKey> {
        if self.state.options().gates.controllers.policy_preemption {
            return Vec::new();
        }
        let ready = self.state.index().policies().filter_map(|p| p.ready());
        let mut keys: Vec<_> = ready
            .filter(|policy| policy.preempts())
            .map(|policy| &policy.key)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Applies a customization, and queues the templates of its kinds. Returns an error if the customization is
    /// invalid.
    pub(crate) fn customization_applied(&mut self, object: Value) -> Option<String> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let new: ResourceInterpreterCustomization = match serde_json::from_value(object) {
            Ok(new) => new,
            Err(error) => {
                return Some(format!(
                    "ResourceInterpreterCustomization {name} is not applied: {error}"
                ));
            }
        };
        let target = new.spec.target.clone();
        let old = self.customizations.insert(name, new);
        let all = self.customizations.values().cloned().collect();
        self.interpreter.load(all);
        let changed = [old.map(|old| old.spec.target), Some(target)];
        self.state.enqueue_kinds(|api_version, kind| {
            let mut changed = changed.iter().flatten();
            changed.any(|target| target.api_version == api_version && target.kind == kind)
        });
        None
    }

    /// Applies a configuration of interpreter webhooks, and returns a note about the configuration. The simulation does
    /// not call webhooks, so a template that needs a webhook gets no binding.
    pub(crate) fn interpreter_webhooks_applied(&mut self, object: Value) -> String {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let typed = serde_json::from_value::<ResourceInterpreterWebhookConfiguration>(object);
        match typed {
            Ok(configuration) => {
                self.interpreter_webhooks
                    .insert(name.clone(), configuration);
                let all = self.interpreter_webhooks.values().cloned().collect();
                self.interpreter.load_webhooks(all);
                format!(
                    "the webhooks of ResourceInterpreterWebhookConfiguration {name} are not called: new or changed templates that need them are not placed"
                )
            }
            Err(error) => {
                format!("ResourceInterpreterWebhookConfiguration {name} is not applied: {error}")
            }
        }
    }

    /// Adds an override policy. The detector needs only its key.
    pub(crate) fn override_policy(&mut self, kind: PolicyKind, namespace: &str, name: &str) {
        self.state.override_applied(PolicyKey {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
    }

    /// Adds an existing template with its claim, without queueing the template.
    pub(crate) fn seed_template(&mut self, kind: &Arc<ResourceType>, object: Value) {
        let Ok(object) = serde_json::from_value(object) else {
            return;
        };
        let template = with_content(kind, object);
        if !self.state.skips(&template.key) {
            if let Some(claim) = &template.claim {
                let policy = claim.policy.clone();
                self.initial_claims.insert(template.key.clone(), policy);
            }
            self.state.serve(Arc::clone(kind));
            self.state.seed_template(template);
        }
    }

    /// Applies a template from the manifests, and queues the template.
    pub(crate) fn template_applied(
        &mut self,
        kind: &Arc<ResourceType>,
        mut object: Value,
        bindings: &Bindings,
    ) {
        let has_uid = object["metadata"]["uid"].is_string();
        let key = {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            kind.key(text("namespace"), text("name"))
        };
        self.mark_processed(&key);
        if self.state.skips(&key) {
            self.errors.insert(key, "is never propagated".to_owned());
            return;
        }
        if !has_uid && let Some(existing) = bindings.get(&key.binding()) {
            // The manifest has no UID. The existing binding contains the UID of the object.
            object["metadata"]["uid"] = existing["spec"]["resource"]["uid"].clone();
        }
        match serde_json::from_value::<DynamicObject>(object) {
            Ok(object) => {
                self.state.serve(Arc::clone(kind));
                self.state.template_applied(with_content(kind, object));
            }
            Err(error) => {
                self.errors.insert(key, error.to_string());
            }
        }
    }

    fn mark_processed(&mut self, key: &TemplateKey) {
        if self.processed_keys.insert(key.clone()) {
            self.processed.push(key.clone());
        }
    }

    /// Processes the queued templates and policies until the queue is empty.
    pub(crate) fn process_queue(&mut self, bindings: &mut Bindings) {
        while let Some(item) = self.state.next_item() {
            let key = item.key();
            if let QueueItem::Template {
                template,
                cause,
                plan,
            } = item
            {
                self.mark_processed(&template.key);
                self.execute(&template, &cause, plan, bindings);
            }
            self.state.finish(&key);
        }
    }

    fn execute(&mut self, template: &Template, cause: &Cause, plan: Plan, bindings: &mut Bindings) {
        let key = &template.key;
        match plan {
            Plan::AwaitPolicy | Plan::AwaitOverrides => {}
            Plan::None => {
                if cause.policy_changed
                    && let Some(policy) = self.claiming_policy(template)
                    && policy.is_lazy()
                {
                    let reason = lazy_message(&policy.key);
                    self.errors.insert(key.clone(), reason);
                }
            }
            Plan::Release(claim) => {
                release_binding(bindings, &key.binding(), &claim);
                self.state.template_applied(template.released(&claim));
            }
            Plan::Apply(application) => {
                let policy = &application.policy;
                let claimed = application.claim.then(|| template.claimed(&policy.claim()));
                let outcome = if application.bind {
                    self.update_binding(claimed.as_ref().unwrap_or(template), policy, bindings)
                } else {
                    Err(lazy_message(&policy.key))
                };
                match outcome {
                    Ok(()) => {
                        self.errors.remove(key);
                    }
                    Err(reason) => {
                        self.errors.insert(key.clone(), reason);
                    }
                }
                if let Some(claimed) = claimed {
                    self.state.template_applied(claimed);
                }
            }
        }
    }

    /// Returns the policy that has claimed a template, if the policy still selects the template.
    fn claiming_policy(&self, template: &Template) -> Option<&Arc<Policy>> {
        let claim = template.claim.as_ref()?;
        let policy = self.policy(&claim.policy)?.ready()?;
        policy.selects(template).then_some(policy)
    }

    fn update_binding(
        &mut self,
        template: &Template,
        policy: &Policy,
        bindings: &mut Bindings,
    ) -> Result<(), String> {
        let key = template.key.binding();
        if let Some(other) = self
            .template_of_binding
            .get(&key)
            .filter(|key| **key != template.key)
        {
            return Err(format!("its binding {key} is that of {other} already"));
        }
        let existing = bindings.get(&key);
        // The simulation does not look up priority classes, so an existing binding keeps its priority. The priority
        // only orders the scheduler's queue.
        let priority = existing
            .and_then(|binding| BindingSpec::deserialize(&binding["spec"]).ok())
            .and_then(|spec| spec.schedule_priority?.priority);
        let gates = self.state.options().gates;
        let desired = binding_for(template, policy, priority, gates, &self.interpreter)
            .map_err(|error| error.to_string())?;
        match existing {
            None => {
                let mut binding = new_binding(&desired, PLACEHOLDER_ID);
                merge::bump_generation(&mut binding);
                bindings.insert(key.clone(), binding);
            }
            Some(binding) => {
                let typed: DynamicObject =
                    serde_json::from_value(binding.clone()).map_err(|error| error.to_string())?;
                let patch = binding_patch(&typed, &desired).map_err(|error| error.to_string())?;
                if let Some(patch) = patch
                    && let Some(binding) = bindings.get_mut(&key)
                {
                    merge::apply_merge_patch(binding, &patch);
                    if patch.get("spec").is_some() {
                        merge::bump_generation(binding);
                    }
                }
            }
        }
        self.template_of_binding.insert(key, template.key.clone());
        Ok(())
    }

    /// Returns a line for each template that one policy has claimed from another policy.
    pub(crate) fn takeovers(&self) -> Vec<String> {
        let lines = self.processed.iter().filter_map(|key| {
            let before = self.initial_claims.get(key)?;
            let after = &self.state.index().template(key)?.claim.as_ref()?.policy;
            (before != after).then(|| {
                let (kind, name) = (key.kind(), full_name(key));
                format!("{kind} {name}: {after} claims it from {before}")
            })
        });
        lines.collect()
    }

    /// Returns the applied or processed templates whose binding is missing or not up to date.
    pub(crate) fn unbound(&self) -> Vec<Unbound> {
        let unbound = self.processed.iter().filter_map(|key| {
            let (unselected, reason) = self.unbound_reason(key)?;
            Some(Unbound {
                template: format!("{} {}", key.kind(), full_name(key)),
                unselected,
                reason,
            })
        });
        unbound.collect()
    }

    /// Returns the reason why the binding of a template is missing or not up to date. The boolean is true if no policy
    /// selects the template. Returns `None` if the binding is up to date.
    fn unbound_reason(&self, key: &TemplateKey) -> Option<(bool, String)> {
        let error = self.errors.get(key).map(|error| (false, error.clone()));
        let Some(template) = self.state.index().template(key) else {
            return error;
        };
        match self.state.plan(template, &Cause::default()) {
            Plan::AwaitPolicy => Some((true, "no policy selects it".to_owned())),
            Plan::AwaitOverrides => Some((
                false,
                "waits for the overrides that its policy depends on".to_owned(),
            )),
            Plan::None if template.is_reserved() => {
                Some((false, "another controller has claimed it".to_owned()))
            }
            Plan::None if self.claiming_policy(template).is_none() => template.claim.as_ref().map(|claim| {
                let policy = &claim.policy;
                let reason = format!(
                    "stays as it is under {policy}, which does not select it or cannot be applied"
                );
                (false, reason)
            }),
            Plan::None | Plan::Release(_) | Plan::Apply(_) => error,
        }
    }
}

/// Returns the template of an object, with the whole object as its body, because customizations read the body.
fn with_content(kind: &Arc<ResourceType>, object: DynamicObject) -> Template {
    let content = serde_json::to_value(&object).ok().map(Arc::new);
    let mut template = Template::from_object(kind, object);
    template.body = content;
    template
}

fn lazy_message(policy: &PolicyKey) -> String {
    format!("{policy} is lazy: its binding waits for the next change")
}

fn release_binding(bindings: &mut Bindings, key: &BindingKey, claim: &Claim) {
    let Some(binding) = bindings.get_mut(key) else {
        return;
    };
    let Ok(typed) = serde_json::from_value::<DynamicObject>(binding.clone()) else {
        return;
    };
    let labels = typed.metadata.labels.as_ref();
    if labels.is_some_and(|labels| claim.is_on(labels)) {
        let patch = serde_json::json!({ "metadata": release_metadata(claim, &typed) });
        merge::apply_merge_patch(binding, &patch);
    }
}

/// Returns the name of a template, with the namespace if the template has one.
pub(crate) fn full_name(key: &TemplateKey) -> String {
    if key.namespace.is_empty() {
        key.name.clone()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

/// Builds a policy from an invalid object, without its invalid selectors. Returns `None` if the spec cannot be decoded.
fn invalid_policy(key: &PolicyKey, object: &DynamicObject) -> Option<Policy> {
    let spec = PropagationSpec::deserialize(object.data.get("spec")?).ok()?;
    let selectors = spec.resource_selectors.iter();
    let selectors = selectors.filter_map(|selector| Selector::compile(selector).ok());
    let selectors = selectors.collect();
    Some(Policy::new(key.clone(), object, spec, selectors))
}

#[cfg(test)]
mod tests;
