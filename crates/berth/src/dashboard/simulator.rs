//! Simulations of the dashboard: the moves of a change, decided as `berth simulate --against` does.

use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use berth_api::quantity::QuantityText;
use berth_core::Fleet;
use berth_dashboard::{BindingName, Change, Planned, Simulate, Simulation};
use berth_scheduler::binding::{Binding, BindingKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;

use crate::explain::live;
use crate::scheduler_configuration::DecisionConfiguration;
use crate::what_if::{
    Clusters, Decider, FleetChange, Move, Share, State, TAINT_NOTE, moves_over_time, scale,
};

/// Maximum time of a simulation after the bindings are read.
const MOST_TIME: Duration = Duration::from_secs(20);

/// Reads the bindings, and compares the states before and after a change.
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
            let bindings = live::bindings(&self.client, None).await;
            let bindings = bindings.map_err(|error| error.to_string())?;
            let configuration = self.configuration.clone();
            let runtime = tokio::runtime::Handle::current();
            // The engine does not yield.
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
    let before = State {
        clusters,
        bindings: bindings
            .map(|binding| (binding.key.clone(), binding.into()))
            .collect(),
    };
    let mut after = before.clone();
    let mut simulation = Simulation::default();
    simulation.limits = limits(change);
    let applied = match change {
        Change::Scale { binding, replicas } => scale(&mut after.bindings, &key(binding), *replicas),
        change => fleet_change(change).map_or(Ok(()), |change| change.apply(&mut after.clusters)),
    };
    applied.map_err(|error| error.to_string())?;
    let decider = Decider::new(configuration, false, &after, None);
    let mut decider = decider.map_err(|error| error.to_string())?;
    let end = Instant::now() + MOST_TIME;
    let mut is_complete = true;
    let all = after.bindings.len();
    let moves = moves_over_time(&mut decider, &before, after, false, |_| {
        if Instant::now() > end {
            is_complete = false;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    let (moves, remarks) = moves.await;
    if !is_complete {
        let (done, seconds) = (moves.examined, MOST_TIME.as_secs());
        return Err(format!(
            "stopped after {seconds} s with {done} of {all} bindings; run `berth simulate`, which has no limit"
        ));
    }
    for moved in &moves.moves {
        simulation.add(planned(moved));
    }
    simulation.examined = moves.examined;
    simulation.limits.extend(remarks);
    simulation.limits.extend(decider.limits(configuration));
    Ok(simulation)
}

fn key(name: &BindingName) -> BindingKey {
    BindingKey {
        namespace: name.namespace.as_deref().map(Into::into),
        name: name.name.as_str().into(),
    }
}

fn planned(of: &Move) -> Planned {
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
    Planned::new(name, &pairs(&of.from), &pairs(&of.to.clusters))
        .with_replicas(of.to.replicas.is_some())
        .with_failure(
            failure.map(|failure| failure.message.clone()),
            of.becomes_unschedulable(),
        )
}

/// Returns the change of the fleet; none for a change of a binding.
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

/// Returns what the simulation leaves out.
fn limits(change: &Change) -> Vec<String> {
    let of_change = match change {
        Change::Lose { .. } => {
            "the loss is that of a deleted cluster; a cluster that stops responding keeps its workloads until the \
             failover controllers evict them"
        }
        Change::Taint { .. } => TAINT_NOTE,
        Change::Join { .. } => {
            "the new cluster has the labels, taints, APIs and size of the other one, and no workloads; policies \
             that name clusters do not name it"
        }
        Change::Scale { .. } => {
            "autoscalers and the scripts of custom kinds are not run: the number of replicas is set in the binding"
        }
        Change::Capacity { .. } => {
            "only the totals of the cluster count, not its resource models, and running workloads do not leave a cluster \
             that shrinks"
        }
    };
    let common = [
        of_change,
        "the members' estimators are not asked, and reactions of members and of other controllers are left out",
    ];
    common.map(str::to_owned).to_vec()
}
