//! The predicted state of a live control plane: copies of its clusters and bindings after the manifests are applied and
//! the detector has processed them. The control plane itself stays unchanged.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_component_base::program::progress::Progress;
use berth_controllers::detector::claim::{PolicyKey, PolicyKind};
use berth_controllers::detector::policy::PolicyRecord;
use berth_controllers::resource_type::ResourceType;
use kube::api::DynamicObject;
use serde_json::Value;

use super::detect::{ApiKind, Bindings, Detector};
use super::error::{Problem, SimulateError};
use super::idle_policies::{self, ExistingKinds};
use super::kind_resolution::{self, TypedManifest};
use super::live_control_plane::LivePlane;
use super::manifest::{Manifest, Role};
use super::merge;
use super::notes::Notes;
use super::options::SimulateOptions;
use super::preview_server::StartPreviewServer;
use super::rebalancer;
use super::sandbox::Sandbox;
use crate::well_known_types;

/// An applied manifest that the detector processes.
struct Change {
    /// The manifest, with the object in the form in which the control plane would store it.
    typed: TypedManifest,
    /// The old object. `None` if the manifest creates the object.
    before: Option<Value>,
}

/// Quotas by namespace and name, as JSON.
pub(crate) type Quotas = BTreeMap<(String, String), Value>;

/// The predicted state.
pub(crate) struct PredictedState {
    /// Clusters by name, as JSON.
    pub(crate) clusters: BTreeMap<String, Value>,
    /// Bindings by key, as JSON.
    pub(crate) bindings: Bindings,
    /// Quotas by namespace and name, as JSON.
    pub(crate) quotas: Quotas,
    /// ClusterScores by name, as JSON.
    pub(crate) scores: BTreeMap<String, Value>,
    detector: Detector,
    /// Changes by the applied manifests, in the order in which they are applied. [`Self::detect`] processes them.
    changes: Vec<Change>,
    /// The server that validates the manifests. `None` before [`Self::apply`].
    sandbox: Option<Sandbox>,
}

impl PredictedState {
    /// Creates the state before any manifest is applied, from the live clusters, bindings, quotas and ClusterScores.
    pub(crate) fn new(
        clusters: BTreeMap<String, Value>,
        bindings: Bindings,
        quotas: Quotas,
        scores: BTreeMap<String, Value>,
        options: &SimulateOptions,
    ) -> Self {
        Self {
            clusters,
            bindings,
            quotas,
            scores,
            detector: Detector::new(options),
            changes: Vec::new(),
            sandbox: None,
        }
    }

    /// Reads the policies and the interpreter configurations of the control plane into the detector, applies the
    /// manifests to the copies, and records the changes that the detector must process.
    pub(crate) async fn apply(
        &mut self,
        live: &LivePlane,
        manifests: Vec<Manifest>,
        options: &SimulateOptions,
        start: StartPreviewServer,
        mut problems: Vec<Problem>,
        notes: &mut Notes,
    ) -> Result<(), SimulateError> {
        let mut sandbox = Sandbox::start(start, options.validates).await?;
        let namespace = live.namespace.as_str();
        let typed = kind_resolution::resolve(
            manifests,
            &sandbox,
            Some(live.served_kinds()),
            namespace,
            options,
            &mut problems,
            notes,
        )
        .await?;
        let mut policies = self.live_policies(live, notes).await?;
        match live
            .list_if_served(&well_known_types::customizations())
            .await
        {
            Ok(objects) => {
                for object in objects {
                    notes.extend(self.detector.customization_applied(object));
                }
            }
            Err(error) => notes.push(format!("customizations are left out: {error}")),
        }
        match live
            .list_if_served(&well_known_types::interpreter_webhooks())
            .await
        {
            Ok(objects) => {
                for object in objects {
                    notes.push(self.detector.interpreter_webhooks_applied(object));
                }
            }
            Err(error) => notes.push(format!("interpreter webhooks are left out: {error}")),
        }
        for typed in typed {
            let TypedManifest { manifest, kind, .. } = &typed;
            let Manifest {
                namespace, name, ..
            } = &manifest;
            let old = match manifest.role {
                Role::Cluster => self.clusters.get(name).cloned(),
                Role::Binding(kind) => {
                    let key = kind_resolution::binding_key(kind, manifest);
                    self.bindings.get(&key).cloned()
                }
                Role::Policy(kind) => policies.remove(&policy_key(kind, namespace, name)),
                _ => live.get(kind, namespace, name).await?,
            };
            let desired = match &old {
                Some(old) => merge::apply_manifest(old, &manifest.object),
                None => manifest.object.clone(),
            };
            let is_unchanged = old
                .as_ref()
                .is_some_and(|old| merge::is_same(old, &desired));
            if is_unchanged && matches!(manifest.role, Role::Policy(_) | Role::Template) {
                // The patch of `kubectl apply` would be empty, so the server would keep the stored object.
                let object = old.clone().unwrap_or_default();
                self.record(typed, old, object, notes);
                continue;
            }
            let admitted =
                kind_resolution::admit(&mut sandbox, &typed, &desired, old.as_ref()).await;
            let mut object = match admitted {
                Ok(object) => object,
                Err(_) if !options.validates && manifest.role == Role::Template => desired,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            if manifest.role == Role::Template
                && let Some(metadata) = object["metadata"].as_object_mut()
            {
                // The write changes the resourceVersion. The old value must not become part of the binding, which
                // stores the resourceVersion of its template.
                metadata.remove("resourceVersion");
            }
            if old
                .as_ref()
                .is_none_or(|old| !merge::has_same_spec(old, &object))
            {
                merge::bump_generation(&mut object);
            }
            self.record(typed, old, object, notes);
        }
        self.sandbox = Some(sandbox);
        if problems.is_empty() {
            Ok(())
        } else {
            Err(SimulateError::Manifests(problems))
        }
    }

    /// Records the object of an applied manifest. Clusters, bindings, quotas and interpreter webhooks take effect at once,
    /// and [`Self::detect`] processes all other changes.
    fn record(
        &mut self,
        mut typed: TypedManifest,
        old: Option<Value>,
        object: Value,
        notes: &mut Notes,
    ) {
        let manifest = &mut typed.manifest;
        match manifest.role {
            Role::Cluster => {
                self.clusters.insert(manifest.name.clone(), object);
            }
            Role::Binding(kind) => {
                let key = kind_resolution::binding_key(kind, manifest);
                self.bindings.insert(key, object);
            }
            Role::Policy(_)
            | Role::Override(_)
            | Role::Customization
            | Role::Template
            | Role::Rebalancer => {
                manifest.object = object;
                self.changes.push(Change { typed, before: old });
            }
            Role::Quota => {
                let key = (manifest.namespace.clone(), manifest.name.clone());
                self.quotas.insert(key, object);
            }
            Role::Score => {
                self.scores.insert(manifest.name.clone(), object);
            }
            Role::InterpreterWebhooks => {
                notes.push_new(self.detector.interpreter_webhooks_applied(object));
            }
            Role::Ignored => {}
        }
    }

    /// Adds all policies of the control plane to the detector. Returns the propagation policies.
    async fn live_policies(
        &mut self,
        live: &LivePlane,
        notes: &mut Notes,
    ) -> Result<BTreeMap<PolicyKey, Value>, SimulateError> {
        let mut policies = BTreeMap::new();
        for kind in [PolicyKind::Namespaced, PolicyKind::Cluster] {
            for object in live.list(&well_known_types::policies(kind), None).await? {
                let (namespace, name) = names(&object);
                policies.insert(policy_key(kind, namespace, name), object.clone());
                notes.extend(self.detector.seed_policy(kind, object));
            }
            for object in live
                .list_if_served(&well_known_types::overrides(kind))
                .await?
            {
                let (namespace, name) = names(&object);
                self.detector.override_policy(kind, namespace, name);
            }
        }
        Ok(policies)
    }

    /// Updates the bindings as the detector would: reads the affected templates of the control plane, and processes
    /// the recorded changes one after the other.
    pub(crate) async fn detect(
        &mut self,
        live: &LivePlane,
        notes: &mut Notes,
        progress: &mut Progress,
    ) -> Result<(), SimulateError> {
        let changes = std::mem::take(&mut self.changes);
        self.read_templates(&changes, live, progress).await?;
        let mut rebalancers = Vec::new();
        for Change { typed, before } in changes {
            let TypedManifest { manifest, kind, .. } = typed;
            let Manifest {
                role,
                namespace,
                name,
                object,
                ..
            } = manifest;
            match role {
                Role::Policy(kind) => notes.extend(self.detector.policy_applied(kind, object)),
                Role::Override(kind) => self.detector.override_policy(kind, &namespace, &name),
                Role::Customization => notes.extend(self.detector.customization_applied(object)),
                Role::Template => {
                    self.detector
                        .template_applied(&kind, object, &self.bindings);
                }
                Role::Rebalancer => rebalancers.push((before, object)),
                Role::Cluster
                | Role::Binding(_)
                | Role::InterpreterWebhooks
                | Role::Quota
                | Role::Score
                | Role::Ignored => {}
            }
            self.detector.process_queue(&mut self.bindings);
        }
        for (before, object) in rebalancers {
            let triggered = rebalancer::trigger(&mut self.bindings, before.as_ref(), &object);
            notes.extend(triggered);
        }
        notes.detected(&self.detector);
        let clusters = self.clusters.keys().cloned().collect();
        notes.extend(self.detector.findings(&clusters));
        if let Some(sandbox) = &self.sandbox {
            let kinds = ExistingKinds {
                defined: sandbox.served_kinds(),
                live: Some(live.served_kinds()),
            };
            notes.idle_policies(idle_policies::find(&self.detector, kinds).await?);
        }
        Ok(())
    }

    /// Adds to the detector the templates of the control plane that the changes may affect.
    async fn read_templates(
        &mut self,
        changes: &[Change],
        live: &LivePlane,
        progress: &mut Progress,
    ) -> Result<(), SimulateError> {
        let mut seen = HashSet::new();
        for change in changes {
            let TypedManifest { manifest, kind, .. } = &change.typed;
            if let (Role::Template, Some(before)) = (manifest.role, &change.before) {
                seen.insert(identity(kind, before));
                self.detector.seed_template(kind, before.clone());
            }
        }
        let mut served_kinds = live.served_kinds();
        for (kind, namespace) in self.affected_kinds(changes) {
            let templates = live
                .templates(&mut served_kinds, &kind, namespace.as_deref())
                .await?;
            progress.report(format_args!("read {} {}s", templates.len(), kind.1));
            for (kind, object) in templates {
                if seen.insert(identity(&kind, &object)) {
                    self.detector.seed_template(&kind, object);
                }
            }
        }
        Ok(())
    }

    /// Returns the kinds and namespaces of the templates that changes may affect:
    /// - the kinds that a changed propagation policy selects, before or after the change,
    /// - the kinds that a propagation policy selects, if the policy depends on a changed override policy,
    /// - the target kinds of changed customizations, before or after the change.
    fn affected_kinds(&self, changes: &[Change]) -> BTreeSet<(ApiKind, Option<String>)> {
        let mut affected = BTreeSet::new();
        for change in changes {
            let Manifest {
                role,
                namespace,
                name,
                object,
                ..
            } = &change.typed.manifest;
            let objects = change.before.iter().chain([object]);
            match role {
                Role::Policy(kind) => {
                    let records = objects.filter_map(|object| policy_record(*kind, object.clone()));
                    affected.extend(records.flat_map(|record| selected_kinds(&record)));
                }
                Role::Override(kind) => {
                    let depends = |record: &&PolicyRecord| {
                        record.key.kind == *kind
                            && record.key.namespace == *namespace
                            && record.ready().is_some_and(|policy| {
                                policy.spec.dependent_overrides.contains(name)
                            })
                    };
                    let records = self.detector.policies().filter(depends);
                    affected.extend(records.flat_map(selected_kinds));
                }
                Role::Customization => affected.extend(objects.filter_map(|object| {
                    let target =
                        |field: &str| Some(object["spec"]["target"][field].as_str()?.to_owned());
                    Some(((target("apiVersion")?, target("kind")?), None))
                })),
                Role::Cluster
                | Role::Binding(_)
                | Role::InterpreterWebhooks
                | Role::Rebalancer
                | Role::Template
                | Role::Quota
                | Role::Score
                | Role::Ignored => {}
            }
        }
        // If a kind is read in all namespaces, the entries for single namespaces are redundant.
        let cluster_wide: Vec<ApiKind> = affected
            .iter()
            .filter(|(_, namespace)| namespace.is_none())
            .map(|(kind, _)| kind.clone())
            .collect();
        affected.retain(|(kind, namespace)| namespace.is_none() || !cluster_wide.contains(kind));
        affected
    }
}

/// Returns the kinds that a policy selects, with the namespace of the policy.
fn selected_kinds(record: &PolicyRecord) -> Vec<(ApiKind, Option<String>)> {
    let namespace = Some(record.key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    let kinds = record.kinds.iter().cloned();
    kinds.map(|kind| (kind, namespace.clone())).collect()
}

fn policy_record(kind: PolicyKind, object: Value) -> Option<PolicyRecord> {
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

#[cfg(test)]
mod tests;
