//! A control plane as it would be with manifests applied: what is there, the manifests on top, and what the
//! detector makes of both.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use berth_controllers::detector::claim::{Claim, PolicyKey, PolicyKind};
use berth_controllers::detector::decision::Cause;
use berth_controllers::detector::policy::PolicyRecord;
use berth_controllers::resource_type::ResourceType;
use kube::api::DynamicObject;
use serde_json::Value;

use super::args::SimulateArgs;
use super::catalogue;
use super::detect::{self, ApiKind, Bindings, Detector};
use super::error::{Problem, SimulateError};
use super::live::LivePlane;
use super::manifest::{Manifest, Role};
use super::notes::Notes;
use super::overlay;
use super::progress::Progress;
use super::sandbox::Sandbox;
use super::typing::{self, Typed};

/// What a policy of the manifests is about: it, and what it was before.
struct PolicyChange {
    key: PolicyKey,
    before: Option<PolicyRecord>,
    changed: bool,
}

/// The control plane as it would be.
pub(crate) struct Future {
    /// The clusters, as JSON.
    pub(crate) clusters: BTreeMap<String, Value>,
    /// The bindings.
    pub(crate) bindings: Bindings,
    detector: Detector,
    policies: Vec<PolicyChange>,
    /// Templates of the manifests, and whether they differ from what is there.
    templates: Vec<(Arc<ResourceType>, Value, bool)>,
}

impl Future {
    /// What is there.
    pub(crate) fn new(
        clusters: BTreeMap<String, Value>,
        bindings: Bindings,
        args: &SimulateArgs,
    ) -> Self {
        Self {
            clusters,
            bindings,
            detector: Detector::new(args),
            policies: Vec::new(),
            templates: Vec::new(),
        }
    }

    /// Puts the manifests on top.
    pub(crate) async fn apply(
        &mut self,
        live: &LivePlane,
        manifests: Vec<Manifest>,
        args: &SimulateArgs,
        mut problems: Vec<Problem>,
        notes: &mut Notes,
    ) -> Result<(), SimulateError> {
        let mut sandbox = Sandbox::start(!args.no_validate).await?;
        let namespace = live.namespace.as_str();
        let catalogue = Some(live.catalogue());
        let typed = typing::typed(
            manifests,
            &sandbox,
            catalogue,
            namespace,
            args,
            &mut problems,
            notes,
        )
        .await?;
        let mut policies = self.live_policies(live, notes).await?;
        for typed in typed {
            let Typed { manifest, kind, .. } = &typed;
            let Manifest {
                namespace, name, ..
            } = &manifest;
            let old = match manifest.role {
                Role::Cluster => self.clusters.get(name).cloned(),
                Role::Binding(kind) => {
                    let key = typing::binding_key(kind, manifest);
                    self.bindings.get(&key).cloned()
                }
                Role::Policy(kind) => policies.remove(&policy_key(kind, namespace, name)),
                _ => live.get(kind, namespace, name).await?,
            };
            let wanted = match &old {
                Some(old) => overlay::overlay(old, &manifest.object),
                None => manifest.object.clone(),
            };
            let admitted = typing::admit(&mut sandbox, &typed, &wanted, old.as_ref()).await;
            let mut object = match admitted {
                Ok(object) => object,
                Err(_) if args.no_validate && manifest.role == Role::Template => wanted,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let changed = old.as_ref().is_none_or(|old| !overlay::same(old, &object));
            if old
                .as_ref()
                .is_none_or(|old| !overlay::same_spec(old, &object))
            {
                overlay::bump_generation(&mut object);
            }
            self.put(typed, old, object, changed, notes);
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(SimulateError::Manifests(problems))
        }
    }

    fn put(
        &mut self,
        Typed { manifest, kind, .. }: Typed,
        old: Option<Value>,
        mut object: Value,
        changed: bool,
        notes: &mut Notes,
    ) {
        match manifest.role {
            Role::Cluster => {
                self.clusters.insert(manifest.name, object);
            }
            Role::Binding(kind) => {
                let key = typing::binding_key(kind, &manifest);
                self.bindings.insert(key, object);
            }
            Role::Policy(kind) => {
                let key = policy_key(kind, &manifest.namespace, &manifest.name);
                let before = old.and_then(|old| record(kind, old));
                notes.extend(self.detector.policy(kind, object));
                self.policies.push(PolicyChange {
                    key,
                    before,
                    changed,
                });
            }
            Role::Override(kind) => {
                self.detector
                    .override_policy(kind, &manifest.namespace, &manifest.name);
            }
            Role::Template => {
                if changed && let Some(metadata) = object["metadata"].as_object_mut() {
                    // It gets another one, and a binding says which it was made from.
                    metadata.remove("resourceVersion");
                }
                self.templates.push((kind, object, changed));
            }
            Role::Aside => {}
        }
    }

    /// Tells the detector of all policies that are there; returns them.
    async fn live_policies(
        &mut self,
        live: &LivePlane,
        notes: &mut Notes,
    ) -> Result<BTreeMap<PolicyKey, Value>, SimulateError> {
        let mut policies = BTreeMap::new();
        for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
            for object in live.list(&catalogue::policies(kind), None).await? {
                let (namespace, name) = names(&object);
                policies.insert(policy_key(kind, namespace, name), object.clone());
                notes.extend(self.detector.policy(kind, object));
            }
            for object in live.list_if_served(&catalogue::overrides(kind)).await? {
                let (namespace, name) = names(&object);
                self.detector.override_policy(kind, namespace, name);
            }
        }
        Ok(policies)
    }

    /// Brings bindings up to date: those of the templates given, and those of templates that a changed
    /// policy selects or has claimed.
    pub(crate) async fn detect(
        &mut self,
        live: &LivePlane,
        notes: &mut Notes,
        progress: &mut Progress,
    ) -> Result<(), SimulateError> {
        let mut catalogue = live.catalogue();
        let changed: HashSet<PolicyKey> = self
            .policies
            .iter()
            .filter(|policy| policy.changed)
            .map(|policy| policy.key.clone())
            .collect();
        let mut given = HashSet::new();
        for (kind, object, differs) in std::mem::take(&mut self.templates) {
            given.insert(identity(&kind, &object));
            let cause = Cause {
                by_user: differs,
                policy_changed: is_claimed_by(&object, &changed),
                ..Cause::default()
            };
            if !differs && claim_of(&object).is_some() && !cause.policy_changed {
                continue;
            }
            if let Err(unbound) = self
                .detector
                .bind(&kind, object, &cause, &mut self.bindings)
            {
                notes.unbound(unbound);
            }
        }
        for (kinds, namespace) in self.reach() {
            for kind in kinds {
                let templates = live
                    .templates(&mut catalogue, &kind, namespace.as_deref())
                    .await?;
                progress.say(format_args!("read {} {}s", templates.len(), kind.1));
                for (kind, object) in templates {
                    if !given.insert(identity(&kind, &object)) {
                        continue;
                    }
                    let policy_changed = is_claimed_by(&object, &changed);
                    if claim_of(&object).is_some() && !policy_changed {
                        continue;
                    }
                    let cause = Cause {
                        policy_changed,
                        ..Cause::default()
                    };
                    // What no policy selects is not news here: it was so before.
                    if let Err(unbound) =
                        self.detector
                            .bind(&kind, object, &cause, &mut self.bindings)
                        && !unbound.unselected
                    {
                        notes.unbound(unbound);
                    }
                }
            }
        }
        Ok(())
    }

    /// The kinds that changed policies select from, before or now, and in which namespace.
    fn reach(&self) -> Vec<(Vec<ApiKind>, Option<String>)> {
        let changed = self.policies.iter().filter(|policy| policy.changed);
        changed
            .map(|policy| {
                let mut kinds: HashSet<ApiKind> = HashSet::new();
                let now = self.detector.find(&policy.key).map(|record| &**record);
                for record in [policy.before.as_ref(), now].into_iter().flatten() {
                    kinds.extend(detect::selected_kinds(record));
                }
                let mut kinds: Vec<_> = kinds.into_iter().collect();
                kinds.sort_unstable();
                let namespace = Some(policy.key.namespace.clone()).filter(|name| !name.is_empty());
                (kinds, namespace)
            })
            .collect()
    }
}

fn record(kind: PolicyKind, object: Value) -> Option<PolicyRecord> {
    let object: DynamicObject = serde_json::from_value(object).ok()?;
    Some(PolicyRecord::from_object(kind, &object))
}

fn claim_of(object: &Value) -> Option<Claim> {
    let map = |field: &str| -> BTreeMap<String, String> {
        serde_json::from_value(object["metadata"][field].clone()).unwrap_or_default()
    };
    Claim::read(&map("labels"), &map("annotations"))
}

fn is_claimed_by(object: &Value, policies: &HashSet<PolicyKey>) -> bool {
    claim_of(object).is_some_and(|claim| policies.contains(&claim.policy))
}

fn identity(kind: &ResourceType, object: &Value) -> [String; 4] {
    let (namespace, name) = names(object);
    [
        kind.api.group.clone(),
        kind.api.kind.clone(),
        namespace.to_owned(),
        name.to_owned(),
    ]
}

fn policy_key(kind: PolicyKind, namespace: &str, name: &str) -> PolicyKey {
    PolicyKey {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn names(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}
