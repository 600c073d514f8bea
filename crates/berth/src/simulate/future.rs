//! A control plane as it would be with manifests applied: what is there, the manifests on top, and what the
//! detector makes of both.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use berth_controllers::detector::claim::{PolicyKey, PolicyKind};
use berth_controllers::detector::policy::PolicyRecord;
use berth_controllers::resource_type::ResourceType;
use kube::api::DynamicObject;
use serde_json::Value;

use super::args::SimulateArgs;
use super::catalogue;
use super::detect::{self, ApiKind, Bindings, Detector};
use super::error::{Problem, SimulateError};
use super::idle_policies::{self, Apis};
use super::live::LivePlane;
use super::manifest::{Manifest, Role};
use super::notes::Notes;
use super::overlay;
use super::progress::Progress;
use super::sandbox::Sandbox;
use super::typing::{self, Typed};

/// A change that the detector sees, in the order of the manifests.
enum Change {
    /// A policy is created, or changed from what it was before.
    Policy {
        kind: PolicyKind,
        before: Option<PolicyRecord>,
        object: Value,
    },
    /// An override policy is created or changed.
    Override {
        kind: PolicyKind,
        namespace: String,
        name: String,
    },
    /// A template is created, or changed from what it was before.
    Template {
        kind: Arc<ResourceType>,
        before: Option<Value>,
        object: Value,
    },
}

/// The control plane as it would be.
pub(crate) struct Future {
    /// The clusters, as JSON.
    pub(crate) clusters: BTreeMap<String, Value>,
    /// The bindings.
    pub(crate) bindings: Bindings,
    detector: Detector,
    changes: Vec<Change>,
    /// The kinds that the manifests can have, once some are applied.
    sandbox: Option<Sandbox>,
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
            changes: Vec::new(),
            sandbox: None,
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
            let is_unchanged = old.as_ref().is_some_and(|old| overlay::same(old, &wanted));
            if is_unchanged && matches!(manifest.role, Role::Policy(_) | Role::Template) {
                // An empty patch: the server keeps what it has.
                let object = old.clone().unwrap_or_default();
                self.put(typed, old, object);
                continue;
            }
            let admitted = typing::admit(&mut sandbox, &typed, &wanted, old.as_ref()).await;
            let mut object = match admitted {
                Ok(object) => object,
                Err(_) if args.no_validate && manifest.role == Role::Template => wanted,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            if manifest.role == Role::Template
                && let Some(metadata) = object["metadata"].as_object_mut()
            {
                // It gets another one, and a binding says which it was made from.
                metadata.remove("resourceVersion");
            }
            if old
                .as_ref()
                .is_none_or(|old| !overlay::same_spec(old, &object))
            {
                overlay::bump_generation(&mut object);
            }
            self.put(typed, old, object);
        }
        self.sandbox = Some(sandbox);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(SimulateError::Manifests(problems))
        }
    }

    fn put(&mut self, typed: Typed, old: Option<Value>, object: Value) {
        let Typed { manifest, kind, .. } = typed;
        match manifest.role {
            Role::Cluster => {
                self.clusters.insert(manifest.name, object);
            }
            Role::Binding(kind) => {
                let key = typing::binding_key(kind, &manifest);
                self.bindings.insert(key, object);
            }
            Role::Policy(kind) => self.changes.push(Change::Policy {
                kind,
                before: old.and_then(|old| record(kind, old)),
                object,
            }),
            Role::Override(kind) => self.changes.push(Change::Override {
                kind,
                namespace: manifest.namespace,
                name: manifest.name,
            }),
            Role::Template => self.changes.push(Change::Template {
                kind,
                before: old,
                object,
            }),
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
                notes.extend(self.detector.policy_known(kind, object));
            }
            for object in live.list_if_served(&catalogue::overrides(kind)).await? {
                let (namespace, name) = names(&object);
                self.detector.override_policy(kind, namespace, name);
            }
        }
        Ok(policies)
    }

    /// Brings bindings up to date as the detector would: it sees the manifests one after the other, over the templates
    /// that are there.
    pub(crate) async fn detect(
        &mut self,
        live: &LivePlane,
        notes: &mut Notes,
        progress: &mut Progress,
    ) -> Result<(), SimulateError> {
        let changes = std::mem::take(&mut self.changes);
        self.read_templates(&changes, live, progress).await?;
        for change in changes {
            match change {
                Change::Policy { kind, object, .. } => {
                    notes.extend(self.detector.policy_applied(kind, object));
                }
                Change::Override {
                    kind,
                    namespace,
                    name,
                } => self.detector.override_policy(kind, &namespace, &name),
                Change::Template { kind, object, .. } => {
                    self.detector
                        .template_applied(&kind, object, &self.bindings);
                }
            }
            self.detector.settle(&mut self.bindings);
        }
        notes.detected(&self.detector);
        if let Some(sandbox) = &self.sandbox {
            let apis = Apis {
                defined: sandbox.catalogue(),
                live: Some(live.catalogue()),
            };
            notes.idle_policies(idle_policies::find(&self.detector, apis).await?);
        }
        Ok(())
    }

    /// Reads the templates that are there, as far as the changes may concern them.
    async fn read_templates(
        &mut self,
        changes: &[Change],
        live: &LivePlane,
        progress: &mut Progress,
    ) -> Result<(), SimulateError> {
        let mut seen = HashSet::new();
        for change in changes {
            if let Change::Template {
                kind,
                before: Some(before),
                ..
            } = change
            {
                seen.insert(identity(kind, before));
                self.detector.template_known(kind, before.clone());
            }
        }
        let mut catalogue = live.catalogue();
        for (kind, namespace) in self.reach(changes) {
            let templates = live
                .templates(&mut catalogue, &kind, namespace.as_deref())
                .await?;
            progress.say(format_args!("read {} {}s", templates.len(), kind.1));
            for (kind, object) in templates {
                if seen.insert(identity(&kind, &object)) {
                    self.detector.template_known(&kind, object);
                }
            }
        }
        Ok(())
    }

    /// The kinds that changes may concern, and in which namespace: those that policies select from, before or now, and
    /// those of policies that depend on an override policy.
    fn reach(&self, changes: &[Change]) -> BTreeSet<(ApiKind, Option<String>)> {
        let mut reach = BTreeSet::new();
        let mut add = |record: &PolicyRecord| {
            let namespace =
                Some(record.key.namespace.clone()).filter(|namespace| !namespace.is_empty());
            for kind in detect::selected_kinds(record) {
                reach.insert((kind, namespace.clone()));
            }
        };
        for change in changes {
            match change {
                Change::Policy {
                    kind,
                    before,
                    object,
                } => {
                    let now = record(*kind, object.clone());
                    before.iter().chain(&now).for_each(&mut add);
                }
                Change::Override {
                    kind,
                    namespace,
                    name,
                } => {
                    let depends = |record: &&PolicyRecord| {
                        record.key.kind == *kind
                            && record.key.namespace == *namespace
                            && record.ready().is_some_and(|policy| {
                                policy.spec.dependent_overrides.contains(name)
                            })
                    };
                    self.detector.policies().filter(depends).for_each(&mut add);
                }
                Change::Template { .. } => {}
            }
        }
        // A kind that is read everywhere need not be read in one namespace.
        let everywhere: Vec<ApiKind> = reach
            .iter()
            .filter(|(_, namespace)| namespace.is_none())
            .map(|(kind, _)| kind.clone())
            .collect();
        reach.retain(|(kind, namespace)| namespace.is_none() || !everywhere.contains(kind));
        reach
    }
}

fn record(kind: PolicyKind, object: Value) -> Option<PolicyRecord> {
    let object: DynamicObject = serde_json::from_value(object).ok()?;
    Some(PolicyRecord::from_object(kind, &object))
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
