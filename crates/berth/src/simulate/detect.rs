//! From templates and policies to bindings: the detector's own state and decisions, carried out on copies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use berth_api::admission::{self, SystemEnvironment};
use berth_api::binding::BindingSpec;
use berth_controllers::binding_key::BindingKind;
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
use berth_scheduler::binding::BindingKey;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use super::args::SimulateArgs;
use super::overlay;
use crate::controllers::detector_gates;

/// The permanent id of bindings that the simulation makes.
const NO_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Bindings by key, as JSON.
pub(crate) type Bindings = BTreeMap<BindingKey, Value>;

/// The `apiVersion` and kind of objects.
pub(crate) type ApiKind = (String, String);

/// A template that gets no binding, or keeps what it has, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unbound {
    /// The template.
    pub(crate) template: String,
    /// Whether it is only that no policy selects it.
    pub(crate) unselected: bool,
    /// Why.
    pub(crate) reason: String,
}

/// The detector's state, and what became of the templates that were decided.
pub(crate) struct Detector {
    state: State,
    validates: bool,
    /// The template that each binding was brought up to date for.
    owners: HashMap<BindingKey, TemplateKey>,
    /// The policies that have claimed templates before anything is applied.
    holders: HashMap<TemplateKey, PolicyKey>,
    /// Templates that were given or decided, in this order.
    decided: Vec<TemplateKey>,
    is_decided: HashSet<TemplateKey>,
    /// Why the binding of a template was not brought up to date.
    faults: HashMap<TemplateKey, String>,
    /// The policies that were given.
    given_policies: Vec<PolicyKey>,
}

impl Detector {
    /// Knows nothing yet.
    pub(crate) fn new(args: &SimulateArgs) -> Self {
        Self {
            state: State::new(DetectorOptions {
                gates: detector_gates(args.feature_gates),
                ..DetectorOptions::default()
            }),
            validates: !args.no_validate,
            owners: HashMap::new(),
            holders: HashMap::new(),
            decided: Vec::new(),
            is_decided: HashSet::new(),
            faults: HashMap::new(),
            given_policies: Vec::new(),
        }
    }

    /// Takes in a policy that is in force. Returns the faults of its selectors, or of all of it.
    pub(crate) fn policy_known(&mut self, kind: PolicyKind, object: Value) -> Vec<String> {
        match self.record(kind, object) {
            Ok((record, words)) => {
                self.state.seed_policy(record);
                words
            }
            Err(word) => vec![word],
        }
    }

    /// Takes in a policy that is applied. Returns the faults of its selectors, or of all of it.
    pub(crate) fn policy_applied(&mut self, kind: PolicyKind, object: Value) -> Vec<String> {
        match self.record(kind, object) {
            Ok((record, words)) => {
                self.given_policies.push(record.key.clone());
                self.state.policy_applied(&Arc::new(record));
                words
            }
            Err(word) => vec![word],
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
        let mut words = Vec::new();
        if let PolicyState::Invalid(reason) = &record.state {
            match policy_as_it_is(&record.key, &object) {
                Some(policy) if !self.validates => {
                    record.state = PolicyState::Ready(Arc::new(policy));
                }
                _ => words.push(format!("{} is not applied: {reason}", record.key)),
            }
        }
        words.extend(
            record
                .invalid_selectors
                .iter()
                .map(|fault| format!("{}: {fault}", record.key)),
        );
        Ok((record, words))
    }

    /// The policy of this key.
    pub(crate) fn policy(&self, key: &PolicyKey) -> Option<&Arc<PolicyRecord>> {
        self.state.index().policy(key)
    }

    /// The policies that were applied.
    pub(crate) fn given_policies(&self) -> impl Iterator<Item = &Arc<PolicyRecord>> {
        self.given_policies
            .iter()
            .filter_map(|key| self.state.index().policy(key))
    }

    /// All policies.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &PolicyRecord> {
        self.state.index().policies().map(|record| &**record)
    }

    /// All templates.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Arc<Template>> {
        let index = self.state.index();
        index.template_keys().filter_map(|key| index.template(key))
    }

    /// Returns policies that preempt, if the gate that lets them is off.
    pub(crate) fn idle_preemptors(&self) -> Vec<&PolicyKey> {
        if self.state.options().gates.policy_preemption {
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

    /// Takes in the name of an override policy.
    pub(crate) fn override_policy(&mut self, kind: PolicyKind, namespace: &str, name: &str) {
        self.state
            .override_applied((kind, namespace.to_owned(), name.to_owned()));
    }

    /// Takes in a template that is there, with the claim that it carries.
    pub(crate) fn template_known(&mut self, kind: &Arc<ResourceType>, object: Value) {
        let Ok(object) = serde_json::from_value(object) else {
            return;
        };
        let template = Template::from_object(kind, object);
        if !self.state.skips(&template.key) {
            if let Some(claim) = &template.claim {
                let policy = claim.policy.clone();
                self.holders.insert(template.key.clone(), policy);
            }
            self.state.serve(Arc::clone(kind));
            self.state.seed_template(template);
        }
    }

    /// Takes in a template that is applied.
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
        self.note_decided(&key);
        if self.state.skips(&key) {
            self.faults.insert(key, "is never propagated".to_owned());
            return;
        }
        if !has_uid && let Some(existing) = bindings.get(&binding_key(&key)) {
            // A manifest does not know the UID; the binding that was made from the object does.
            object["metadata"]["uid"] = existing["spec"]["resource"]["uid"].clone();
        }
        match serde_json::from_value::<DynamicObject>(object) {
            Ok(object) => {
                self.state.serve(Arc::clone(kind));
                self.state
                    .template_applied(Template::from_object(kind, object));
            }
            Err(error) => {
                self.faults.insert(key, error.to_string());
            }
        }
    }

    fn note_decided(&mut self, key: &TemplateKey) {
        if self.is_decided.insert(key.clone()) {
            self.decided.push(key.clone());
        }
    }

    /// Decides what was enqueued, until nothing is left to do.
    pub(crate) fn settle(&mut self, bindings: &mut Bindings) {
        while let Some(item) = self.state.next_item() {
            let key = item.key();
            if let QueueItem::Template {
                template,
                cause,
                plan,
            } = item
            {
                self.note_decided(&template.key);
                self.carry_out(&template, &cause, plan, bindings);
            }
            self.state.finish(&key);
        }
    }

    fn carry_out(
        &mut self,
        template: &Template,
        cause: &Cause,
        plan: Plan,
        bindings: &mut Bindings,
    ) {
        let key = &template.key;
        match plan {
            Plan::AwaitPolicy | Plan::AwaitOverrides => {}
            Plan::None => {
                if cause.policy_changed
                    && let Some(policy) = self.holder(template)
                    && policy.is_lazy()
                {
                    let reason = is_lazy(&policy.key);
                    self.faults.insert(key.clone(), reason);
                }
            }
            Plan::Release(claim) => {
                release_binding(bindings, &binding_key(key), &claim);
                self.state.template_applied(template.released(&claim));
            }
            Plan::Apply(application) => {
                let policy = &application.policy;
                let claimed = application.claim.then(|| template.claimed(&policy.claim()));
                let outcome = if application.bind {
                    self.bring_up_to_date(claimed.as_ref().unwrap_or(template), policy, bindings)
                } else {
                    Err(is_lazy(&policy.key))
                };
                match outcome {
                    Ok(()) => {
                        self.faults.remove(key);
                    }
                    Err(reason) => {
                        self.faults.insert(key.clone(), reason);
                    }
                }
                if let Some(claimed) = claimed {
                    self.state.template_applied(claimed);
                }
            }
        }
    }

    /// The policy that has claimed a template and selects it.
    fn holder(&self, template: &Template) -> Option<&Arc<Policy>> {
        let claim = template.claim.as_ref()?;
        let policy = self.policy(&claim.policy)?.ready()?;
        policy.selects(template).then_some(policy)
    }

    fn bring_up_to_date(
        &mut self,
        template: &Template,
        policy: &Policy,
        bindings: &mut Bindings,
    ) -> Result<(), String> {
        let key = binding_key(&template.key);
        if let Some(other) = self.owners.get(&key).filter(|key| **key != template.key) {
            return Err(format!("its binding {key} is that of {other} already"));
        }
        let existing = bindings.get(&key);
        // Priority classes order the queue and decide nothing: the binding keeps what it has.
        let priority = existing
            .and_then(|binding| BindingSpec::deserialize(&binding["spec"]).ok())
            .and_then(|spec| spec.schedule_priority?.priority);
        let desired = binding_for(template, policy, priority, self.state.options().gates)
            .map_err(|error| error.to_string())?;
        match existing {
            None => {
                let mut binding = new_binding(&desired, NO_ID);
                overlay::bump_generation(&mut binding);
                bindings.insert(key.clone(), binding);
            }
            Some(binding) => {
                let typed: DynamicObject =
                    serde_json::from_value(binding.clone()).map_err(|error| error.to_string())?;
                let patch = binding_patch(&typed, &desired).map_err(|error| error.to_string())?;
                if let Some(patch) = patch
                    && let Some(binding) = bindings.get_mut(&key)
                {
                    overlay::merge(binding, &patch);
                    if patch.get("spec").is_some() {
                        overlay::bump_generation(binding);
                    }
                }
            }
        }
        self.owners.insert(key, template.key.clone());
        Ok(())
    }

    /// Returns a line for each template that another policy holds than before.
    pub(crate) fn takeovers(&self) -> Vec<String> {
        let lines = self.decided.iter().filter_map(|key| {
            let before = self.holders.get(key)?;
            let after = &self.state.index().template(key)?.claim.as_ref()?.policy;
            (before != after).then(|| {
                let (kind, name) = (key.kind(), full_name(key));
                format!("{kind} {name}: {after} takes it from {before}")
            })
        });
        lines.collect()
    }

    /// Returns the templates that were given or decided and have no binding that is up to date.
    pub(crate) fn unbound(&self) -> Vec<Unbound> {
        let unbound = self.decided.iter().filter_map(|key| {
            let (unselected, reason) = self.standing(key)?;
            Some(Unbound {
                template: format!("{} {}", key.kind(), full_name(key)),
                unselected,
                reason,
            })
        });
        unbound.collect()
    }

    /// Whether no policy selects a template, and why its binding is not up to date; nothing where it is.
    fn standing(&self, key: &TemplateKey) -> Option<(bool, String)> {
        let fault = self.faults.get(key).map(|fault| (false, fault.clone()));
        let Some(template) = self.state.index().template(key) else {
            return fault;
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
            Plan::None if self.holder(template).is_none() => template.claim.as_ref().map(|claim| {
                let policy = &claim.policy;
                let reason = format!(
                    "stays as it is under {policy}, which does not select it or cannot be applied"
                );
                (false, reason)
            }),
            Plan::None | Plan::Release(_) | Plan::Apply(_) => fault,
        }
    }
}

/// The kinds that a policy selects from.
pub(crate) fn selected_kinds(record: &PolicyRecord) -> HashSet<ApiKind> {
    record.kinds.iter().cloned().collect()
}

fn is_lazy(policy: &PolicyKey) -> String {
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
        overlay::merge(binding, &patch);
    }
}

fn binding_key(template: &TemplateKey) -> BindingKey {
    let key = template.binding();
    BindingKey {
        namespace: match BindingKind::of(&key) {
            BindingKind::Namespaced => Some(key.namespace.as_str().into()),
            BindingKind::Cluster => None,
        },
        name: key.name.as_str().into(),
    }
}

/// The name with the namespace, where there is one.
pub(crate) fn full_name(key: &TemplateKey) -> String {
    if key.namespace.is_empty() {
        key.name.clone()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

/// A policy that breaks a rule, applied all the same.
fn policy_as_it_is(key: &PolicyKey, object: &DynamicObject) -> Option<Policy> {
    let raw_spec = object.data.get("spec").cloned().unwrap_or_default();
    let spec = berth_api::policy::PropagationSpec::deserialize(&raw_spec).ok()?;
    let selectors = spec
        .resource_selectors
        .iter()
        .filter_map(|selector| Selector::compile(selector).ok())
        .collect();
    let labels = object.metadata.labels.as_ref();
    let id = key
        .kind
        .guarded()
        .permanent_id_label()
        .and_then(|label| labels?.get(label))
        .cloned()
        .unwrap_or_default();
    Some(Policy {
        key: key.clone(),
        id,
        spec,
        raw_spec,
        selectors,
        // Nobody is preempted in a simulation.
        preemptible: None,
    })
}
