//! The prediction of a drain, from the clusters, bindings and quotas of a control plane.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use berth_api::BindingKey;
use kube::Client;

use super::decider::Decider;
use super::drain::{DrainPreview, departures, is_leaving};
use super::fleet_changes::{ChangeError, FleetChange};
use super::prediction::predict_moves;
use crate::control_plane_lists::{self, ListError};
use crate::control_plane_state::ControlPlaneState;
use crate::scheduler_configuration::{ConfigurationError, DecisionConfiguration};

/// Reason for which no preview is possible.
#[derive(Debug, thiserror::Error)]
pub enum PredictDrainError {
    /// The control plane refuses a list.
    #[error(transparent)]
    List(#[from] ListError),
    /// The cluster does not exist.
    #[error("there is no member named {0}")]
    NoCluster(String),
    /// The configuration of the scheduler cannot be used.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The task that decides panicked.
    #[error("the preview failed: {0}")]
    Panicked(#[from] tokio::task::JoinError),
}

/// Reads the clusters, bindings and quotas of the control plane, and predicts the outcome of a drain for each binding in the
/// cluster.
///
/// # Errors
/// When the control plane cannot be read, the cluster does not exist, or the configuration is invalid.
pub async fn predict_drain(
    client: &Client,
    configuration: &DecisionConfiguration,
    cluster: &str,
) -> Result<DrainPreview, PredictDrainError> {
    let clusters = control_plane_lists::clusters(client).await?;
    let quotas = configuration.quotas();
    let (state, remarks) = control_plane_lists::state(client, clusters, quotas).await?;
    let (configuration, cluster) = (configuration.clone(), cluster.to_owned());
    let runtime = tokio::runtime::Handle::current();
    // The engine blocks its thread, so it runs outside the async workers.
    let predicted = tokio::task::spawn_blocking(move || {
        runtime.block_on(predict(&state, &configuration, cluster))
    });
    let mut preview: DrainPreview = predicted.await??;
    preview.notes.extend(remarks);
    Ok(preview)
}

async fn predict(
    before: &ControlPlaneState,
    configuration: &DecisionConfiguration,
    cluster: String,
) -> Result<DrainPreview, PredictDrainError> {
    let mut after = before.clone();
    let drain = FleetChange::Drain {
        cluster: cluster.clone(),
    };
    drain
        .apply(&mut after)
        .map_err(|_: ChangeError| PredictDrainError::NoCluster(cluster.clone()))?;
    let mut decider = Decider::new(configuration, false, &after, None)?;
    let moves = predict_moves(&mut decider, before, after, false, |_| {
        ControlFlow::Continue(())
    });
    let (moves, remarks) = moves.await;
    let departures = departures(&before.bindings, &moves, &cluster);
    let leaving: BTreeSet<&BindingKey> = departures.iter().map(|one| &one.key).collect();
    let others = moves.moves.iter();
    let others = others
        .filter(|moved| !leaving.contains(&moved.to.key))
        .count();
    let all = before.bindings.values();
    let already_leaving = all.filter(|binding| is_leaving(binding, &cluster)).count();
    let mut notes = remarks;
    notes.extend(decider.limits(configuration));
    Ok(DrainPreview {
        departures,
        already_leaving,
        others,
        notes,
    })
}
