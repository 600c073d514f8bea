//! The prediction of the moves after one change of a fleet that the caller watches, computed in the same way as in
//! `berth simulate --against`.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use berth_engine::Fleet;
use kube::Client;

use super::decider::Decider;
use super::fleet_changes::{Change, DRAIN_NOTE, FleetChange, TAINT_NOTE};
use super::moves::Moves;
use super::prediction::predict_moves;
use crate::control_plane_lists;
use crate::control_plane_state::{Clusters, ControlPlaneState};
use crate::scheduler_configuration::DecisionConfiguration;

/// Time limit for the decisions of a prediction. Reading the bindings takes additional time.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Reads the bindings, scores and quotas of the control plane, and predicts which bindings a change would move. Returns
/// the moves, and the limits of the prediction and remarks about its result, one sentence each. The fleet must have the
/// option [`Fleet::keeping_objects`].
///
/// # Errors
/// Returns the reason why no prediction is possible.
pub async fn predict_change(
    client: &Client,
    configuration: &DecisionConfiguration,
    mut fleet: Fleet,
    change: &Change,
) -> Result<(Moves, Vec<String>), String> {
    let clusters = clusters(&mut fleet);
    let quotas = configuration.quotas();
    let state = control_plane_lists::state(client, clusters, quotas).await;
    let (before, remarks) = state.map_err(|error| error.to_string())?;
    let (configuration, change) = (configuration.clone(), change.clone());
    let runtime = tokio::runtime::Handle::current();
    // The engine blocks its thread, so it runs outside the async workers.
    let predicted = tokio::task::spawn_blocking(move || {
        runtime.block_on(predict(&before, &change, &configuration))
    });
    let predicted = predicted.await.map_err(|error| error.to_string())?;
    let (moves, mut sentences) = predicted?;
    sentences.extend(remarks);
    Ok((moves, sentences))
}

/// Returns the Cluster objects of a fleet.
fn clusters(fleet: &mut Fleet) -> Clusters {
    let snapshot = fleet.snapshot();
    let named = snapshot
        .clusters()
        .filter_map(|view| Some((view.name().to_owned(), view.object()?.clone())));
    named.collect()
}

async fn predict(
    before: &ControlPlaneState,
    change: &Change,
    configuration: &DecisionConfiguration,
) -> Result<(Moves, Vec<String>), String> {
    let mut after = before.clone();
    let applied = change.apply(&mut after);
    applied.map_err(|error| error.to_string())?;
    let decider = Decider::new(configuration, false, &after, None);
    let mut decider = decider.map_err(|error| error.to_string())?;
    let end = Instant::now() + TIME_LIMIT;
    let mut is_complete = true;
    let all = after.bindings.len();
    let moves = predict_moves(&mut decider, before, after, false, |_| {
        if Instant::now() > end {
            is_complete = false;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let (moves, remarks) = moves.await;
    if !is_complete {
        let (done, seconds) = (moves.examined, TIME_LIMIT.as_secs());
        return Err(format!(
            "stopped after {seconds} s with {done} of {all} bindings; run `berth simulate`, which has no limit"
        ));
    }
    let mut sentences = limits(change);
    sentences.extend(remarks);
    sentences.extend(decider.limits(configuration));
    Ok((moves, sentences))
}

/// Returns sentences about the effects that the prediction ignores.
fn limits(change: &Change) -> Vec<String> {
    let of_change = match change {
        Change::Fleet(FleetChange::Lose { .. }) => {
            "the cluster is removed as after its deletion; in contrast, a cluster that stops responding keeps its \
             workloads until the failover controllers evict them"
        }
        Change::Fleet(FleetChange::Taint { .. }) => TAINT_NOTE,
        Change::Fleet(FleetChange::Drain { .. }) => DRAIN_NOTE,
        Change::Fleet(FleetChange::Join { .. }) => {
            "the new cluster has the labels, taints, APIs and capacity of the existing cluster, but no node pools and no \
             workloads; policies that list clusters by name do not select it"
        }
        Change::Scale { .. } => {
            "autoscalers and the scripts of custom kinds are not run: the number of replicas is set in the binding"
        }
        Change::Fleet(FleetChange::Capacity { .. }) => {
            "only the total capacity of the cluster is changed, not its resource models; running workloads stay on a \
             cluster that shrinks"
        }
    };
    let common = [
        of_change,
        "free capacity is that of the node pools, resource models and resource summaries in the Cluster objects: the \
         members' estimators are not queried, and reactions of members and of other controllers are ignored",
    ];
    common.map(str::to_owned).to_vec()
}
