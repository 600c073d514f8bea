//! The fleet and the binding of a decision, and decisions about changed ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::Cluster;
use berth_api::binding::{BindingSpec, BindingStatus};
use berth_core::{
    Assumed, BindingObject, Engine, Explanation, Fleet, Outcome, Request, RequestError, Snapshot,
    WorkloadPeers,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::change::Change;

/// The input of a decision.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The clusters, with their objects ([`Fleet::keeping_objects`]).
    pub fleet: &'a Fleet,
    /// The namespace of a ResourceBinding.
    pub namespace: Option<&'a str>,
    /// The name of the binding.
    pub name: &'a str,
    /// The metadata of the binding.
    pub metadata: &'a ObjectMeta,
    /// The spec of the binding.
    pub spec: &'a BindingSpec,
    /// The status of the binding.
    pub status: &'a BindingStatus,
    /// The clusters of workloads in the same affinity groups.
    pub peers: WorkloadPeers,
    /// Workloads that clusters do not report correctly yet.
    pub assumed: &'a Assumed,
}

/// A case with its engine and its fleet.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) case: &'a Case<'a>,
    engine: &'a mut Engine,
    fleet: Fleet,
    /// The decisions made about changed worlds.
    pub(crate) decisions: usize,
}

/// An explained decision about a changed world.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) request: Request,
    pub(crate) outcome: Outcome,
    pub(crate) explanation: Explanation,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) spec: BindingSpec,
}

/// The binding of a changed world.
#[derive(Debug)]
struct ChangedBinding {
    metadata: ObjectMeta,
    spec: BindingSpec,
}

impl BindingObject for ChangedBinding {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn spec(&self) -> &BindingSpec {
        &self.spec
    }
}

impl<'a> World<'a> {
    pub(crate) fn new(engine: &'a mut Engine, case: &'a Case<'a>) -> Self {
        Self {
            case,
            engine,
            fleet: case.fleet.clone(),
            decisions: 0,
        }
    }

    /// Reports whether clusters need replicas to have the workload.
    pub(crate) fn divides(&self) -> bool {
        let spec = self.case.spec;
        spec.replicas > 0 && spec.components.len() <= 1
    }

    /// Decides with changes.
    ///
    /// # Errors
    /// When the changed binding is invalid.
    pub(crate) fn decide(&mut self, changes: &[Change]) -> Result<Outcome, RequestError> {
        let (request, _) = self.request(changes)?;
        Ok(self.with_fleet(changes, |engine, snapshot, assumed| {
            engine.schedule_with(snapshot, &request, assumed)
        }))
    }

    /// Decides with changes, and explains the decision.
    ///
    /// # Errors
    /// When the changed binding is invalid.
    pub(crate) fn explain(&mut self, changes: &[Change]) -> Result<Explained, RequestError> {
        let (request, spec) = self.request(changes)?;
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
            spec,
        })
    }

    fn request(&self, changes: &[Change]) -> Result<(Request, BindingSpec), RequestError> {
        let mut spec = self.case.spec.clone();
        let mut status = self.case.status.clone();
        for change in changes {
            change.apply_to_binding(&mut spec, &mut status);
        }
        let object = ChangedBinding {
            metadata: self.case.metadata.clone(),
            spec: spec.clone(),
        };
        let request = Request::new(self.case.namespace, self.case.name, &spec, &status)?
            .with_peers(self.case.peers.clone())
            .with_object(Arc::new(object));
        Ok((request, spec))
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
        // Changes are cheaper in a snapshot that nothing else refers to.
        drop(snapshot);
        for original in &originals {
            let mut cluster = Cluster::clone(original);
            let name = original.metadata.name.as_deref();
            for change in changes.iter().filter(|change| change.cluster() == name) {
                change.apply_to_cluster(&mut cluster, case.spec);
            }
            self.fleet.apply(&cluster);
        }
        let decided = decide(self.engine, &self.fleet.snapshot(), case.assumed);
        for original in originals {
            self.fleet.apply(&original);
        }
        decided
    }
}
