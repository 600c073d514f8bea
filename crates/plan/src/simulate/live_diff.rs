//! Simulation with `--against`: reads the clusters and bindings of a live control plane, and predicts which placements
//! the manifests and flags would change. The module `offline` simulates without a control plane.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use berth_api::{BindingKey, BindingKind, Cluster, ClusterScore, FederatedResourceQuota};
use berth_component_base::program::progress::Progress;
use serde_json::Value;

use super::configuration_note;
use super::detect::Bindings;
use super::error::{Problem, SimulateError};
use super::live_control_plane::LivePlane;
use super::manifest::Manifest;
use super::notes::Notes;
use super::options::{LiveOptions, SimulateOptions};
use super::predicted_state::{PredictedState, Quotas, names};
use super::preview_server::StartPreviewServer;
use crate::control_plane_state::{self, Clusters, ControlPlaneState, decode_binding};
use crate::scheduler_configuration::DecisionConfiguration;
use crate::well_known_types;
use crate::what_if::{Decider, Moves, predict_moves};

/// Returns the bindings that would move if the manifests and flags were applied to the control plane.
///
/// # Errors
/// When the control plane cannot be read, or the manifests cannot be used.
pub(crate) async fn moves(
    live_options: &LiveOptions,
    manifests: Vec<Manifest>,
    options: &SimulateOptions,
    configuration: &DecisionConfiguration,
    start: StartPreviewServer,
    problems: Vec<Problem>,
    notes: &mut Notes,
) -> Result<Moves, SimulateError> {
    let mut progress = Progress::start();
    let live = LivePlane::connect(&live_options.target, options.namespace.clone()).await?;
    // Without manifests and fleet flags, the simulation predicts the decisions of a scheduler that becomes the leader.
    let takes_over = manifests.is_empty() && options.changes.is_empty();
    let clusters = live.list(&well_known_types::clusters(), None).await?;
    progress.report(format_args!("read {} clusters", clusters.len()));
    let mut bindings = Bindings::new();
    for kind in [BindingKind::Namespaced, BindingKind::Cluster] {
        let objects = live.list(&well_known_types::bindings(kind), None).await?;
        progress.report(format_args!("read {} {}s", objects.len(), kind.name()));
        let keyed = objects
            .into_iter()
            .map(|object| (key_of(kind, &object), object));
        bindings.extend(keyed);
    }
    let quotas = live.list_if_served(&well_known_types::quotas()).await?;
    let keyed = quotas.into_iter().map(|quota| {
        let (namespace, name) = names(&quota);
        ((namespace.to_owned(), name.to_owned()), quota)
    });
    let scores = live.list_if_served(&well_known_types::scores()).await?;
    let mut predicted = PredictedState::new(
        by_name(clusters),
        bindings,
        keyed.collect(),
        by_name(scores),
        options,
    );
    let before = ControlPlaneState {
        clusters: read_clusters(&predicted.clusters, notes),
        bindings: read_bindings(&predicted.bindings, notes),
        quotas: read_quotas(&predicted.quotas, notes),
        scores: read_scores(&predicted.scores, notes),
        ..ControlPlaneState::default()
    };
    if !manifests.is_empty() || !problems.is_empty() {
        predicted
            .apply(&live, manifests, options, start, problems, notes)
            .await?;
        predicted.detect(&live, notes, &mut progress).await?;
    }
    let mut after = ControlPlaneState {
        clusters: read_clusters(&predicted.clusters, &mut Notes::default()),
        bindings: read_bindings(&predicted.bindings, &mut Notes::default()),
        quotas: read_quotas(&predicted.quotas, &mut Notes::default()),
        scores: read_scores(&predicted.scores, &mut Notes::default()),
        ..ControlPlaneState::default()
    };
    options.apply_changes(&mut after)?;
    if configuration.origin().is_none() {
        let config_maps = configuration_note::config_maps(&live).await;
        notes.push(configuration_note::note(&after.bindings, &config_maps));
    }
    let estimators = live_options.estimators.as_ref();
    let estimators = estimators.map(|options| live.estimators(options));
    let mut decider = Decider::new(configuration, options.explains, &after, estimators)?;
    let moves = predict_moves(&mut decider, &before, after, takes_over, |examined| {
        progress.report(format_args!("examined {examined} bindings"));
        ControlFlow::Continue(())
    });
    let (moves, remarks) = moves.await;
    notes.extend(remarks);
    notes.extend(decider.limits(configuration));
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

/// Decodes the clusters. Skips an invalid cluster and adds a note about it. The scheduler skips the same clusters.
fn read_clusters(objects: &BTreeMap<String, Value>, notes: &mut Notes) -> Clusters {
    let mut clusters = Clusters::new();
    for (name, object) in objects {
        match serde_json::from_value::<Cluster>(object.clone()) {
            Ok(cluster) => {
                clusters.insert(name.clone(), Arc::new(cluster));
            }
            Err(error) => notes.push(format!("Cluster {name} cannot be read: {error}")),
        }
    }
    clusters
}

fn read_bindings(objects: &Bindings, notes: &mut Notes) -> control_plane_state::Bindings {
    let mut bindings = control_plane_state::Bindings::new();
    for (key, object) in objects {
        match decode_binding(key, object) {
            Ok(binding) => {
                bindings.insert(key.clone(), Arc::new(binding));
            }
            Err(error) => notes.push(format!("{} {key} cannot be read: {error}", key.kind())),
        }
    }
    bindings
}

fn read_quotas(objects: &Quotas, notes: &mut Notes) -> Arc<[FederatedResourceQuota]> {
    let mut quotas = Vec::new();
    for ((namespace, name), object) in objects {
        match serde_json::from_value(object.clone()) {
            Ok(quota) => quotas.push(quota),
            Err(error) => notes.push(format!(
                "FederatedResourceQuota {namespace}/{name} cannot be read: {error}"
            )),
        }
    }
    quotas.into()
}

fn read_scores(objects: &BTreeMap<String, Value>, notes: &mut Notes) -> Arc<[ClusterScore]> {
    let mut scores = Vec::new();
    for (name, object) in objects {
        match serde_json::from_value(object.clone()) {
            Ok(score) => scores.push(score),
            Err(error) => notes.push(format!("ClusterScore {name} cannot be read: {error}")),
        }
    }
    scores.into()
}
