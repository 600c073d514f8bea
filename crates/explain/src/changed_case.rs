//! [`Case`], the fleet and the binding of a decision, and [`Simulation`], which applies changes to a case and lets the
//! engine decide again.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::{Binding, Cluster};
use berth_engine::{
    Assumed, Engine, Explanation, Fleet, Outcome, Request, RequestError, Snapshot, WorkloadPeers,
};
use k8s_openapi::jiff::Timestamp;

use crate::change::Change;

/// The input of a decision that a report must explain.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The fleet, which must keep the Cluster objects ([`Fleet::keeping_objects`]).
    pub fleet: &'a Fleet,
    /// The binding.
    pub binding: &'a Binding,
    /// The clusters of the other workloads in the affinity groups.
    pub peers: WorkloadPeers,
    /// Corrections of the free capacity that clusters report.
    pub assumed: &'a Assumed,
    /// The time of the decision.
    pub time: Timestamp,
}

/// A case with an engine and a copy of its fleet, to which changes can be applied.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    pub(crate) case: &'a Case<'a>,
    engine: &'a mut Engine,
    fleet: Fleet,
    /// The number of decisions that were made so far.
    pub(crate) decisions: usize,
}

/// A decision with changes applied, and its explanation.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) request: Request,
    pub(crate) outcome: Outcome,
    pub(crate) explanation: Explanation,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The binding with the changes applied.
    pub(crate) binding: Arc<Binding>,
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(engine: &'a mut Engine, case: &'a Case<'a>) -> Self {
        Self {
            case,
            engine,
            fleet: case.fleet.clone(),
            decisions: 0,
        }
    }

    /// Reports whether a cluster has the workload only if it gets at least one replica.
    pub(crate) fn divides(&self) -> bool {
        let spec = &self.case.binding.spec;
        spec.replicas > 0 && spec.components.len() <= 1
    }

    /// Decides with the changes applied.
    ///
    /// # Errors
    /// Returns an error if the changed binding is invalid.
    pub(crate) fn decide(&mut self, changes: &[Change]) -> Result<Outcome, RequestError> {
        let (request, _) = self.request(changes)?;
        Ok(self.with_fleet(changes, |engine, snapshot, assumed| {
            engine.schedule_with(snapshot, &request, assumed)
        }))
    }

    /// Decides with the changes applied, and explains the decision.
    ///
    /// # Errors
    /// Returns an error if the changed binding is invalid.
    pub(crate) fn explain(&mut self, changes: &[Change]) -> Result<Explained, RequestError> {
        let (request, binding) = self.request(changes)?;
        let (snapshot, (outcome, explanation)) =
            self.with_fleet(changes, |engine, snapshot, assumed| {
                let explained = engine.explain_with(snapshot, &request, assumed);
                (Arc::clone(snapshot), explained)
            });
        Ok(Explained {
            request,
            outcome,
            explanation,
            snapshot,
            binding,
        })
    }

    fn request(&self, changes: &[Change]) -> Result<(Request, Arc<Binding>), RequestError> {
        let mut binding = self.case.binding.clone();
        for change in changes {
            change.apply_to_binding(&mut binding.spec, &mut binding.status);
        }
        let binding = Arc::new(binding);
        let request = Request::of(&binding)?
            .with_peers(self.case.peers.clone())
            .with_object(Arc::clone(&binding))
            .with_time(self.case.time);
        Ok((request, binding))
    }

    fn with_fleet<T>(
        &mut self,
        changes: &[Change],
        decide: impl FnOnce(&mut Engine, &Arc<Snapshot>, &Assumed) -> T,
    ) -> T {
        self.decisions += 1;
        let case = self.case;
        let names: BTreeSet<&str> = changes.iter().filter_map(Change::cluster).collect();
        let snapshot = self.fleet.snapshot();
        let originals: Vec<Arc<Cluster>> = names
            .iter()
            .filter_map(|name| snapshot.cluster(snapshot.ordinal(name)?)?.object().cloned())
            .collect();
        // The fleet copies less data for a change if no other reference to the snapshot exists.
        drop(snapshot);
        for original in &originals {
            let mut cluster = Cluster::clone(original);
            let name = original.metadata.name.as_deref();
            for change in changes.iter().filter(|change| change.cluster() == name) {
                change.apply_to_cluster(&mut cluster, &case.binding.spec);
            }
            self.fleet.apply(&cluster);
        }
        let mut assumed = Cow::Borrowed(case.assumed);
        for change in changes {
            if let Change::RaiseNodeCapacity { cluster, to, .. } = change {
                let replicas = i32::try_from(*to).unwrap_or(i32::MAX);
                assumed.to_mut().raise_on_nodes(cluster, replicas);
            }
        }
        let decided = decide(self.engine, &self.fleet.snapshot(), &assumed);
        for original in originals {
            self.fleet.apply(&original);
        }
        decided
    }
}
