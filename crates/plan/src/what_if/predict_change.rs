//! The prediction of moves for the dashboard: which bindings move after a change, computed in the same way as in `berth
//! simulate --against`.

use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use berth_api::quantity::QuantityText;
use berth_core::Fleet;
use berth_dashboard::{BindingName, Change, PredictedMove, Simulate, Simulation};
use berth_scheduler::binding::{Binding, BindingKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;

use crate::explain::control_plane_lists;
use crate::scheduler_configuration::DecisionConfiguration;
use crate::what_if::{
    Clusters, ControlPlaneState, Decider, FleetChange, Move, Share, TAINT_NOTE, predict_moves,
    scale,
};

/// Time limit for the decisions of a simulation. Reading the bindings takes additional time.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// An implementation of [`Simulate`] that reads the bindings from the control plane.
#[derive(Clone)]
pub(crate) struct Simulator {
    client: Client,
    configuration: DecisionConfiguration,
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator").finish_non_exhaustive()
    }
}

impl Simulator {
    pub(crate) const fn new(client: Client, configuration: DecisionConfiguration) -> Self {
        Self {
            client,
            configuration,
        }
    }
}

impl Simulate for Simulator {
    fn simulate(&self, fleet: Fleet, change: Change) -> BoxFuture<'_, Result<Simulation, String>> {
        async move {
            let bindings = control_plane_lists::bindings(&self.client, None).await;
            let bindings = bindings.map_err(|error| error.to_string())?;
            let configuration = self.configuration.clone();
            let runtime = tokio::runtime::Handle::current();
            // The engine blocks its thread, so it runs outside the async workers.
            let moves = tokio::task::spawn_blocking(move || {
                runtime.block_on(simulate(fleet, bindings, &change, &configuration))
            });
            moves.await.map_err(|error| error.to_string())?
        }
        .boxed()
    }
}

async fn simulate(
    mut fleet: Fleet,
    bindings: Vec<Binding>,
    change: &Change,
    configuration: &DecisionConfiguration,
) -> Result<Simulation, String> {
    let snapshot = fleet.snapshot();
    let clusters: Clusters = snapshot
        .clusters()
        .filter_map(|view| Some((view.name().to_owned(), view.object()?.clone())))
        .collect();
    let bindings = bindings.into_iter();
    let before = ControlPlaneState {
        clusters,
        bindings: bindings
            .map(|binding| (binding.key.clone(), binding.into()))
            .collect(),
    };
    let mut after = before.clone();
    let mut simulation = Simulation::default();
    simulation.remarks = limits(change);
    let applied = match change {
        Change::Scale { binding, replicas } => scale(&mut after.bindings, &key(binding), *replicas),
        change => fleet_change(change).map_or(Ok(()), |change| change.apply(&mut after.clusters)),
    };
    applied.map_err(|error| error.to_string())?;
    let decider = Decider::new(configuration, false, &after, None);
    let mut decider = decider.map_err(|error| error.to_string())?;
    let end = Instant::now() + TIME_LIMIT;
    let mut is_complete = true;
    let all = after.bindings.len();
    let moves = predict_moves(&mut decider, &before, after, false, |_| {
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
    for moved in &moves.moves {
        simulation.add(predicted_move(moved));
    }
    simulation.examined = moves.examined;
    simulation.remarks.extend(remarks);
    simulation.remarks.extend(decider.limits(configuration));
    Ok(simulation)
}

fn key(name: &BindingName) -> BindingKey {
    BindingKey {
        namespace: name.namespace.as_deref().map(Into::into),
        name: name.name.as_str().into(),
    }
}

fn predicted_move(of: &Move) -> PredictedMove {
    let pairs = |shares: &[Share]| {
        let shares = shares.iter();
        shares
            .map(|share| (share.name.clone(), share.replicas))
            .collect::<Vec<_>>()
    };
    let key = &of.to.key;
    let name = BindingName {
        namespace: key.namespace.as_deref().map(str::to_owned),
        name: key.name.to_string(),
    };
    let failure = of.to.failure.as_ref();
    PredictedMove::new(name, &pairs(&of.from), &pairs(&of.to.clusters))
        .with_replicas(of.to.replicas.is_some())
        .with_failure(
            failure.map(|failure| failure.message.clone()),
            of.becomes_unschedulable(),
        )
}

/// Converts a change of the fleet. Returns `None` for [`Change::Scale`], which changes a binding.
fn fleet_change(change: &Change) -> Option<FleetChange> {
    Some(match change.clone() {
        Change::Lose { cluster } => FleetChange::Lose { cluster },
        Change::Taint { cluster, taint } => FleetChange::Taint { cluster, taint },
        Change::Join { cluster, like } => FleetChange::Join { cluster, like },
        Change::Capacity {
            cluster,
            resource,
            amount,
        } => FleetChange::Capacity {
            cluster,
            resource,
            amount: QuantityText(amount),
        },
        Change::Scale { .. } => return None,
    })
}

/// Returns sentences about the effects that the simulation ignores.
fn limits(change: &Change) -> Vec<String> {
    let of_change = match change {
        Change::Lose { .. } => {
            "the cluster is removed as after its deletion; in contrast, a cluster that stops responding keeps its \
             workloads until the failover controllers evict them"
        }
        Change::Taint { .. } => TAINT_NOTE,
        Change::Join { .. } => {
            "the new cluster has the labels, taints, APIs and capacity of the existing cluster, and no workloads; \
             policies that list clusters by name do not select it"
        }
        Change::Scale { .. } => {
            "autoscalers and the scripts of custom kinds are not run: the number of replicas is set in the binding"
        }
        Change::Capacity { .. } => {
            "only the total capacity of the cluster is changed, not its resource models; running workloads stay on a \
             cluster that shrinks"
        }
    };
    let common = [
        of_change,
        "the members' estimators are not queried, and reactions of members and of other controllers are ignored",
    ];
    common.map(str::to_owned).to_vec()
}
