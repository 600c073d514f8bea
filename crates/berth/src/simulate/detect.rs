//! From templates and policies to bindings: the detector's own functions, on what the simulation knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use berth_api::admission::{self, LiveSurroundings};
use berth_api::binding::BindingSpec;
use berth_controllers::binding_key::BindingKind;
use berth_controllers::detector::DetectorOptions;
use berth_controllers::detector::binding_change::{change, new_binding};
use berth_controllers::detector::claim::{Claim, PolicyKey, PolicyKind};
use berth_controllers::detector::decision::{Cause, Plan, decide};
use berth_controllers::detector::desired_binding::binding_for;
use berth_controllers::detector::index::Index;
use berth_controllers::detector::policy::{Policy, PolicyRecord, Standing};
use berth_controllers::detector::template::Template;
use berth_controllers::resource_selector::Selector;
use berth_controllers::resource_type::{ResourceType, TemplateKey};
use berth_controllers::server_objects::is_made_by_server;
use berth_scheduler::binding::BindingKey;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

use super::args::SimulateArgs;
use super::overlay;

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

/// The detector's knowledge, and its functions.
pub(crate) struct Detector {
    options: DetectorOptions,
    index: Index,
    validates: bool,
    /// The template that each binding was brought up to date for.
    owners: HashMap<BindingKey, TemplateKey>,
}

impl Detector {
    /// Knows nothing yet.
    pub(crate) fn new(args: &SimulateArgs) -> Self {
        let mut options = DetectorOptions::default();
        options.gates.workload_affinity = args.feature_gates.engine.workload_affinity;
        Self {
            options,
            index: Index::default(),
            validates: !args.no_validate,
            owners: HashMap::new(),
        }
    }

    /// Takes in a policy. What is wrong with its selectors, or with all of it, comes back in words.
    pub(crate) fn policy(&mut self, kind: PolicyKind, mut object: Value) -> Vec<String> {
        admission::complete_policy(kind.guarded(), &mut object, &mut LiveSurroundings);
        let object: DynamicObject = match serde_json::from_value(object) {
            Ok(object) => object,
            Err(error) => return vec![error.to_string()],
        };
        let mut record = PolicyRecord::from_object(kind, &object);
        let mut words = Vec::new();
        if let Standing::Refused(reason) = &record.standing {
            match policy_as_it_is(&record.key, &object) {
                Some(policy) if !self.validates => {
                    record.standing = Standing::Ready(Arc::new(policy));
                }
                _ => words.push(format!("{} is not applied: {reason}", record.key)),
            }
        }
        words.extend(
            record
                .faults
                .iter()
                .map(|fault| format!("{}: {fault}", record.key)),
        );
        self.index.put_policy(Arc::new(record));
        words
    }

    /// The policy of this key.
    pub(crate) fn find(&self, key: &PolicyKey) -> Option<&Arc<PolicyRecord>> {
        self.index.policy(key)
    }

    /// Takes in the name of an override policy.
    pub(crate) fn override_policy(&mut self, kind: PolicyKind, namespace: &str, name: &str) {
        self.index
            .put_override((kind, namespace.to_owned(), name.to_owned()));
    }

    /// Brings the binding of a template up to date, as the detector would for this cause.
    ///
    /// # Errors
    /// Why the template gets no binding, or its binding stays as it is.
    pub(crate) fn bind(
        &mut self,
        kind: &Arc<ResourceType>,
        mut object: Value,
        cause: &Cause,
        bindings: &mut Bindings,
    ) -> Result<(), Unbound> {
        let has_uid = object["metadata"]["uid"].is_string();
        let key = {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            kind.key(text("namespace"), text("name"))
        };
        let label = format!("{} {}", key.kind(), full_name(&key));
        let unbound = |unselected, reason: String| Unbound {
            template: label.clone(),
            unselected,
            reason,
        };
        if self.skips(&key) {
            return Err(unbound(false, "is never propagated".to_owned()));
        }
        let binding_key = binding_key(&key);
        if !has_uid && let Some(existing) = bindings.get(&binding_key) {
            // A manifest does not know the UID; the binding that was made from the object does.
            object["metadata"]["uid"] = existing["spec"]["resource"]["uid"].clone();
        }
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| unbound(false, error.to_string()))?;
        let mut template = Template::from_object(kind, object);
        let (policy, bind) = loop {
            match decide(&template, &self.index, cause, self.options.gates) {
                Plan::Apply(application) => break (application.policy, application.bind),
                Plan::Release(claim) => {
                    release(&mut template, &claim);
                    if let Some(binding) = bindings.get_mut(&binding_key) {
                        let patch = serde_json::json!({ "metadata": claim.release_patch() });
                        overlay::merge(binding, &patch);
                    }
                }
                Plan::Wait => {
                    return Err(unbound(true, "no policy selects it".to_owned()));
                }
                Plan::AwaitOverrides => {
                    return Err(unbound(
                        false,
                        "waits for the overrides that its policy depends on".to_owned(),
                    ));
                }
                Plan::Leave => return Err(unbound(false, leave_reason(&template))),
            }
        };
        if !bind {
            return Err(unbound(
                false,
                format!(
                    "{} is lazy: its binding waits for the next change",
                    policy.key
                ),
            ));
        }
        self.update(&template, &policy, &binding_key, bindings)
            .map_err(|reason| unbound(false, reason))
    }

    fn update(
        &mut self,
        template: &Template,
        policy: &Policy,
        key: &BindingKey,
        bindings: &mut Bindings,
    ) -> Result<(), String> {
        if let Some(other) = self.owners.get(key) {
            return Err(format!("its binding {key} is that of {other} already"));
        }
        let existing = bindings.get(key);
        // Priority classes order the queue and decide nothing: the binding keeps what it has.
        let priority = existing
            .and_then(|binding| BindingSpec::deserialize(&binding["spec"]).ok())
            .and_then(|spec| spec.schedule_priority?.priority);
        let desired = binding_for(template, policy, priority, self.options.gates)
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
                let patch = change(&typed, &desired).map_err(|error| error.to_string())?;
                if let Some(patch) = patch
                    && let Some(binding) = bindings.get_mut(key)
                {
                    overlay::merge(binding, &patch);
                    if patch.get("spec").is_some() {
                        overlay::bump_generation(binding);
                    }
                }
            }
        }
        self.owners.insert(key.clone(), template.key.clone());
        Ok(())
    }

    fn skips(&self, key: &TemplateKey) -> bool {
        let api = &key.resource.api;
        self.options
            .skipped_apis
            .contains(&api.group, &api.version, &api.kind)
            || self.options.skips_namespace(&key.namespace)
            || is_made_by_server(&api.group, &api.kind, &key.namespace, &key.name)
    }
}

/// The kinds that a policy selects from.
pub(crate) fn selected_kinds(record: &PolicyRecord) -> HashSet<ApiKind> {
    record.kinds.iter().cloned().collect()
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

fn full_name(key: &TemplateKey) -> String {
    if key.namespace.is_empty() {
        key.name.clone()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

fn release(template: &mut Template, claim: &Claim) {
    for label in claim.labels().keys() {
        template.labels.remove(label);
    }
    if claim.policy.kind == PolicyKind::Cluster {
        template.has_cluster_claim = false;
    }
    template.claim = None;
}

fn leave_reason(template: &Template) -> String {
    match &template.claim {
        _ if template.is_taken() => "another controller has claimed it".to_owned(),
        Some(claim) => format!(
            "stays as it is under {}, which does not select it or cannot be applied",
            claim.policy
        ),
        None => "is left alone".to_owned(),
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
