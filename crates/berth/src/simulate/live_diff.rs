//! Simulation against a live control plane: the placements that manifests and flags would change.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_controllers::binding_key::BindingKind;
use berth_scheduler::binding::{Binding, BindingKey};
use berth_scheduler::estimator::EstimatorOptions;
use berth_scheduler::rules::responsibility;
use serde_json::Value;

use super::args::SimulateArgs;
use super::catalogue;
use super::configuration;
use super::decide::{self, Decider};
use super::detect::Bindings;
use super::error::{Problem, SimulateError};
use super::fleet_changes;
use super::live::LivePlane;
use super::manifest::Manifest;
use super::moves::{Move, Moves};
use super::notes::Notes;
use super::predicted_state::{PredictedState, names};
use super::progress::Progress;
use super::state::State;
use super::triggers::Triggers;

/// Returns the bindings that the manifests and flags would move on the control plane of a context.
///
/// # Errors
/// When the control plane cannot be read, or the manifests cannot be used.
pub(crate) async fn moves(
    context: &str,
    estimators: Option<EstimatorOptions>,
    manifests: Vec<Manifest>,
    args: &SimulateArgs,
    problems: Vec<Problem>,
    notes: &mut Notes,
) -> Result<Moves, SimulateError> {
    let mut progress = Progress::start();
    let live = LivePlane::connect(context, args).await?;
    // Without changes, the simulation shows what a new leader would do.
    let takes_over = manifests.is_empty() && !args.changes_fleet();
    let clusters = live.list(&catalogue::clusters(), None).await?;
    progress.report(format_args!("read {} clusters", clusters.len()));
    let mut bindings = Bindings::new();
    for kind in [BindingKind::Namespaced, BindingKind::Cluster] {
        let objects = live.list(&catalogue::bindings(kind), None).await?;
        progress.report(format_args!("read {} {}s", objects.len(), kind.name()));
        let keyed = objects
            .into_iter()
            .map(|object| (key_of(kind, &object), object));
        bindings.extend(keyed);
    }
    let mut predicted = PredictedState::new(by_name(clusters), bindings, args);
    let before = State {
        clusters: read_clusters(&predicted.clusters, notes),
        bindings: read_bindings(&predicted.bindings, notes),
    };
    if !manifests.is_empty() || !problems.is_empty() {
        predicted
            .apply(&live, manifests, args, problems, notes)
            .await?;
        predicted.detect(&live, notes, &mut progress).await?;
    }
    let mut after = State {
        clusters: read_clusters(&predicted.clusters, &mut Notes::default()),
        bindings: read_bindings(&predicted.bindings, &mut Notes::default()),
    };
    after.clusters = fleet_changes::changed(&after.clusters, args)?;
    let config_maps = configuration::config_maps(&live).await;
    notes.push(configuration::note(&after.bindings, &config_maps));
    let estimators = estimators.map(|options| live.estimators(&options));
    let decider = Decider::new(args, &after, estimators)?;
    decide_all(
        decider,
        &before,
        &after,
        takes_over,
        args,
        notes,
        &mut progress,
    )
    .await
}

async fn decide_all(
    mut decider: Decider,
    before: &State,
    after: &State,
    takes_over: bool,
    args: &SimulateArgs,
    notes: &mut Notes,
    progress: &mut Progress,
) -> Result<Moves, SimulateError> {
    notes.extend(std::mem::take(&mut decider.capacity_faults));
    let triggers = Triggers::new(
        (&before.clusters, &before.bindings),
        &after.clusters,
        takes_over,
        args.engine
            .feature_gates
            .engine
            .multiple_pod_templates_scheduling,
    );
    let mut moves = Moves::default();
    for (key, binding) in &after.bindings {
        let old = before.bindings.get(key);
        let decision = if triggers.needs_decision(binding) {
            decider.decide(binding).await
        } else {
            if old.is_none() && !responsibility::passes(binding, binding.spec.scheduler()) {
                notes.push(format!(
                    "{} {key}: no scheduler takes it, because no policy has claimed it or scheduling is suspended",
                    key.kind()
                ));
            }
            decide::unchanged(binding)
        };
        let from = old.map(|old| decide::shares(&old.spec)).unwrap_or_default();
        let was_schedulable = old.is_none_or(|old| !decide::has_failed(&old.status));
        moves.add(Move::new(from, was_schedulable, decision));
        progress.report(format_args!("looked at {} bindings", moves.examined));
    }
    Ok(moves)
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let named = objects.into_iter().map(|object| {
        let name = names(&object).1.to_owned();
        (name, object)
    });
    named.collect()
}

fn key_of(kind: BindingKind, object: &Value) -> BindingKey {
    let (namespace, name) = names(object);
    BindingKey {
        namespace: match kind {
            BindingKind::Namespaced => Some(namespace.into()),
            BindingKind::Cluster => None,
        },
        name: name.into(),
    }
}

/// Decodes the clusters. Invalid ones are skipped with a note, as in the scheduler.
fn read_clusters(
    objects: &BTreeMap<String, Value>,
    notes: &mut Notes,
) -> BTreeMap<String, Cluster> {
    let mut clusters = BTreeMap::new();
    for (name, object) in objects {
        match serde_json::from_value(object.clone()) {
            Ok(cluster) => {
                clusters.insert(name.clone(), cluster);
            }
            Err(error) => notes.push(format!("Cluster {name} cannot be read: {error}")),
        }
    }
    clusters
}

fn read_bindings(objects: &Bindings, notes: &mut Notes) -> BTreeMap<BindingKey, Binding> {
    let mut bindings = BTreeMap::new();
    for (key, object) in objects {
        match decide::binding(key, object) {
            Ok(binding) => {
                bindings.insert(key.clone(), binding);
            }
            Err(error) => notes.push(format!("{} {key} cannot be read: {error}", key.kind())),
        }
    }
    bindings
}
