//! The engine: runs the points of a decision, term after term.

mod cycle;
mod estimating;
mod explain;
mod filtering;
mod guard;
mod prepared;
mod roster;
mod scoring;
mod targets;
mod terms;
mod trace;

use crate::estimate::{Assumed, NOTHING, Unit};
use crate::fleet::Snapshot;
use crate::framework::{CycleState, EngineError, Observer, Plugins};
use crate::options::{EngineOptions, Gates};
use crate::outcome::Outcome;
use crate::request::{Request, SpreadBy};
use explain::Explainer;
use prepared::PreparedCache;
use roster::Roster;
use trace::{Observed, Silent, Trace};

pub use explain::{ClusterExplanation, Explanation, Refusal, Stage, TermExplanation};

/// Placements remembered, each with a few kilobytes for a thousand clusters.
const REMEMBERED_PLACEMENTS: usize = 512;

/// Decides where workloads go.
///
/// It is a pure function of snapshot and request: what it remembers between calls makes it faster and never
/// changes a decision.
#[derive(Debug)]
pub struct Engine {
    gates: Gates,
    empty_workload_propagation: bool,
    roster: Roster,
    prepared: PreparedCache,
}

/// A decision, with what plugins have handed on while it was made.
#[derive(Debug)]
pub struct Decision {
    /// What was decided.
    pub outcome: Outcome,
    /// What plugins have handed on in the cycle that decided; after a failure, in the last one.
    pub state: CycleState,
}

impl Engine {
    /// An engine with the in-tree plugins that are in use.
    ///
    /// # Errors
    /// None with in-tree plugins only.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let plugins = Plugins::in_tree(options.gates);
        Self::with_plugins(options, plugins)
    }

    /// An engine with exactly these plugins, without those that the options say are not in use.
    ///
    /// # Errors
    /// When two plugins of a list have the same name.
    pub fn with_plugins(options: EngineOptions, mut plugins: Plugins) -> Result<Self, EngineError> {
        plugins.check_names()?;
        plugins.retain(&options.plugins);
        Ok(Self {
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
            roster: Roster::new(plugins),
            prepared: PreparedCache::new(REMEMBERED_PLACEMENTS),
        })
    }

    /// The same engine with another number of placements remembered; 0 remembers none.
    #[must_use]
    pub fn remembering(mut self, placements: usize) -> Self {
        self.prepared = PreparedCache::new(placements);
        self
    }

    /// Decides where a workload goes.
    pub fn schedule(&mut self, snapshot: &Snapshot, request: &Request) -> Outcome {
        self.schedule_with(snapshot, request, &NOTHING)
    }

    /// Decides where a workload goes, while other workloads were placed, or have gone, that clusters do not
    /// report so yet. All that is given counts.
    pub fn schedule_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> Outcome {
        self.try_terms(snapshot, request, assumed, &mut Silent)
            .outcome
    }

    /// Decides as [`Self::schedule_with`] does, tells an observer what begins and ends, and hands out what
    /// plugins have handed on.
    pub fn decide(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        observer: Option<&mut dyn Observer>,
    ) -> Decision {
        match observer {
            Some(observer) => {
                self.try_terms(snapshot, request, assumed, &mut Observed::new(observer))
            }
            None => self.try_terms(snapshot, request, assumed, &mut Silent),
        }
    }

    /// Decides, and tells why.
    pub fn explain(&mut self, snapshot: &Snapshot, request: &Request) -> (Outcome, Explanation) {
        self.explain_with(snapshot, request, &NOTHING)
    }

    /// Decides as [`Self::schedule_with`] does, and tells why.
    pub fn explain_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> (Outcome, Explanation) {
        let mut explainer = Explainer::default();
        let decision = self.try_terms(snapshot, request, assumed, &mut explainer);
        (decision.outcome, explainer.finish())
    }

    /// Whole sets of components are counted where the workload has components and goes to one cluster.
    fn unit(&self, request: &Request) -> Unit {
        let one_cluster = || {
            request.placement().constraints().iter().any(|constraint| {
                *constraint.by() == SpreadBy::Cluster
                    && constraint.min() == 1
                    && constraint.max() == Some(1)
            })
        };
        if self.gates.multiple_pod_templates_scheduling
            && !request.components().is_empty()
            && one_cluster()
        {
            Unit::ComponentSets
        } else {
            Unit::Replicas
        }
    }
}
