//! Simulation without a control plane: the manifests describe all clusters, policies and templates. The module
//! `live_diff` simulates with a control plane.

use std::sync::Arc;

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_component_base::program::progress::Progress;

use super::detect::{Bindings, Detector};
use super::error::{Problem, SimulateError};
use super::idle_policies::{self, ExistingKinds};
use super::kind_resolution::{self, TypedManifest};
use super::manifest::{Manifest, Role};
use super::notes::Notes;
use super::options::SimulateOptions;
use super::preview_server::StartPreviewServer;
use super::rebalancer;
use super::sandbox::Sandbox;
use crate::control_plane_state::{self, ControlPlaneState, decode_binding};
use crate::scheduler_configuration::DecisionConfiguration;
use crate::what_if::{
    Decider, Decision, FirstRoundResults, Move, Moves, of_change, run_further_rounds,
};

/// Builds the clusters and bindings from the manifests. The detector creates the bindings of the templates.
///
/// # Errors
/// When a manifest cannot be used, or no manifest describes a cluster.
pub(crate) async fn read_state(
    manifests: Vec<Manifest>,
    options: &SimulateOptions,
    start: StartPreviewServer,
    mut problems: Vec<Problem>,
    notes: &mut Notes,
) -> Result<ControlPlaneState, SimulateError> {
    let mut sandbox = Sandbox::start(start, options.validates).await?;
    let namespace = options.namespace.as_deref().unwrap_or("default");
    let typed = kind_resolution::resolve(
        manifests,
        &sandbox,
        None,
        namespace,
        options,
        &mut problems,
        notes,
    )
    .await?;
    let mut detector = Detector::new(options);
    let mut state = ControlPlaneState::default();
    let mut bindings = Bindings::new();
    let (mut templates, mut rebalancers) = (Vec::new(), Vec::new());
    let (mut quotas, mut scores) = (Vec::new(), Vec::new());
    let mut progress = Progress::start();
    let total = typed.len();
    for (done, typed) in typed.into_iter().enumerate() {
        progress.report(format_args!("checked {done} of {total} manifests"));
        let object = match kind_resolution::admit(
            &mut sandbox,
            &typed,
            &typed.manifest.object,
            None,
        )
        .await
        {
            Ok(object) => object,
            // With --no-validate, a template that the sandbox refuses is used unchanged.
            Err(_) if !options.validates && typed.manifest.role == Role::Template => {
                typed.manifest.object.clone()
            }
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let TypedManifest { manifest, kind, .. } = typed;
        match manifest.role {
            Role::Cluster => match serde_json::from_value::<Cluster>(object) {
                Ok(mut cluster) => {
                    serve_apis(&mut cluster, &sandbox);
                    state.clusters.insert(manifest.name, Arc::new(cluster));
                }
                Err(error) => problems.push(Problem::new(&manifest.location, error)),
            },
            Role::Policy(kind) => notes.extend(detector.policy_applied(kind, object)),
            Role::Override(kind) => {
                detector.override_policy(kind, &manifest.namespace, &manifest.name);
            }
            Role::Binding(kind) => {
                bindings.insert(kind_resolution::binding_key(kind, &manifest), object);
            }
            Role::Customization => notes.extend(detector.customization_applied(object)),
            Role::InterpreterWebhooks => {
                notes.push(detector.interpreter_webhooks_applied(object));
            }
            Role::Template => templates.push((kind, object)),
            Role::Rebalancer => rebalancers.push(object),
            Role::Quota => match serde_json::from_value(object) {
                Ok(quota) => quotas.push(quota),
                Err(error) => problems.push(Problem::new(&manifest.location, error)),
            },
            Role::Score => match serde_json::from_value(object) {
                Ok(score) => scores.push(score),
                Err(error) => problems.push(Problem::new(&manifest.location, error)),
            },
            Role::Ignored => {}
        }
    }
    if !problems.is_empty() {
        return Err(SimulateError::Manifests(problems));
    }
    if state.clusters.is_empty() {
        return Err(SimulateError::NoFleet);
    }
    for (kind, object) in templates {
        detector.template_applied(&kind, object, &bindings);
    }
    detector.process_queue(&mut bindings);
    for object in rebalancers {
        notes.extend(rebalancer::trigger(&mut bindings, None, &object));
    }
    notes.detected(&detector);
    let clusters = state.clusters.keys().cloned().collect();
    notes.extend(detector.findings(&clusters));
    let kinds = ExistingKinds {
        defined: sandbox.served_kinds(),
        live: None,
    };
    notes.idle_policies(idle_policies::find(&detector, kinds).await?);
    state.bindings = read_all(&bindings)?;
    state.quotas = quotas.into();
    state.scores = scores.into();
    Ok(state)
}

/// Reports whether a cluster of the fleet is simulated. A simulated cluster has no API endpoint and uses Push mode.
pub fn is_simulated(cluster: &Cluster) -> bool {
    cluster.spec.sync_mode == SyncMode::Push && cluster.spec.api_endpoint.is_none()
}

/// Adds the sandbox's built-in APIs to the status of a simulated cluster whose manifest lists no APIs. `berth up
/// --fleet` collects these APIs from the simulated member.
fn serve_apis(cluster: &mut Cluster, sandbox: &Sandbox) {
    if is_simulated(cluster) {
        let status = cluster.status.get_or_insert_default();
        if status.api_enablements.is_empty() {
            status.api_enablements = sandbox.member_apis().to_vec();
        }
    }
}

/// Schedules all bindings, and some bindings again in further rounds until no binding needs another decision. Returns
/// the last decision about each binding.
///
/// # Errors
/// When the scheduler configuration is invalid.
pub(crate) async fn decisions(
    state: &ControlPlaneState,
    options: &SimulateOptions,
    configuration: &DecisionConfiguration,
    notes: &mut Notes,
) -> Result<Vec<Decision>, SimulateError> {
    let mut decider = Decider::new(configuration, options.explains, state, None)?;
    notes.extend(std::mem::take(&mut decider.capacity_faults));
    let mut progress = Progress::start();
    let mut decisions = Vec::with_capacity(state.bindings.len());
    let mut first = FirstRoundResults::default();
    for binding in state.bindings.values() {
        let decision = decider.decide(binding).await;
        first.record(binding, &decision);
        decisions.push(decision);
        let (done, total) = (decisions.len(), state.bindings.len());
        progress.report(format_args!("decided {done} of {total} bindings"));
    }
    let mut further = run_further_rounds(&mut decider, &state.bindings, first).await;
    for decision in &mut decisions {
        if let Some(last) = further.decisions.remove(&decision.key) {
            *decision = last;
        }
    }
    for decision in &decisions {
        let warnings = decision.warnings.iter();
        notes.extend(warnings.map(|warning| format!("{}: {warning}", decision.key)));
    }
    notes.extend(further.remarks);
    notes.extend(decider.limits(configuration));
    Ok(decisions)
}

/// Returns the effect of the flags that change the clusters. Schedules each binding twice, once with the original
/// clusters and once with the changed clusters, and compares the two placements.
///
/// # Errors
/// When a flag names a cluster that does not exist, or the scheduler configuration is invalid.
pub(crate) async fn moves(
    state: &ControlPlaneState,
    options: &SimulateOptions,
    configuration: &DecisionConfiguration,
    notes: &mut Notes,
) -> Result<Moves, SimulateError> {
    let mut changed = state.clone();
    options.apply_changes(&mut changed)?;
    let evictions = of_change(&state.clusters, &changed);
    changed.bindings.extend(evictions.bindings);
    let before = decisions(state, options, configuration, &mut Notes::default()).await?;
    let after = decisions(&changed, options, configuration, notes).await?;
    notes.extend(evictions.remarks);
    let mut moves = Moves::default();
    for (before, after) in before.into_iter().zip(after) {
        let was_schedulable = before.failure.is_none();
        let next = Move::new(before.clusters, was_schedulable, after);
        moves.add(next.without_lost(&state.clusters, &changed.clusters));
    }
    Ok(moves)
}

/// Decodes bindings.
///
/// # Errors
/// When a binding is invalid. The error lists all invalid bindings.
pub(crate) fn read_all(
    bindings: &Bindings,
) -> Result<control_plane_state::Bindings, SimulateError> {
    let mut read = control_plane_state::Bindings::new();
    let mut problems = Vec::new();
    for (key, object) in bindings {
        match decode_binding(key, object) {
            Ok(binding) => {
                read.insert(key.clone(), Arc::new(binding));
            }
            Err(reason) => problems.push(Problem::new(format!("{} {key}", key.kind()), reason)),
        }
    }
    if problems.is_empty() {
        Ok(read)
    } else {
        Err(SimulateError::Manifests(problems))
    }
}
