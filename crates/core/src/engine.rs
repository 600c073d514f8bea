//! The engine, which runs the extension points for each affinity term.

mod cycle;
mod estimating;
mod explain;
mod filtering;
mod plugin_calls;
mod plugin_lists;
mod prepared;
mod scoring;
mod targets;
mod terms;
mod trace;

use crate::estimate::{Assumed, NO_ASSUMPTIONS, Unit};
use crate::fleet::Snapshot;
use crate::framework::{CycleState, EngineError, Observer, Plugins};
use crate::options::{EngineOptions, Gates};
use crate::outcome::Outcome;
use crate::request::{Request, SpreadBy};
use explain::Explainer;
use plugin_lists::PluginLists;
use prepared::PreparedCache;
use trace::{Observed, Silent, Trace};

pub use explain::{ClusterExplanation, Explanation, Refusal, Stage, TermExplanation};

/// The number of cached placements; each takes a few kilobytes for a thousand clusters.
const CACHED_PLACEMENTS: usize = 512;

/// Decides the clusters of workloads.
///
/// A decision is a pure function of snapshot and request. Caches between calls never change a decision.
#[derive(Debug)]
pub struct Engine {
    gates: Gates,
    empty_workload_propagation: bool,
    plugins: PluginLists,
    prepared: PreparedCache,
}

/// A decision, with the state that plugins stored during it.
#[derive(Debug)]
pub struct Decision {
    /// The result of the decision.
    pub outcome: Outcome,
    /// The state of the deciding cycle, or of the last one after a failure.
    pub state: CycleState,
}

impl Engine {
    /// Creates an engine with the enabled in-tree plugins.
    ///
    /// # Errors
    /// Never: the names of in-tree plugins are unique.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let plugins = Plugins::in_tree(options.gates);
        Self::with_plugins(options, plugins)
    }

    /// Creates an engine with the given plugins, except for those that the options disable.
    ///
    /// # Errors
    /// When two plugins of a list have the same name.
    pub fn with_plugins(options: EngineOptions, mut plugins: Plugins) -> Result<Self, EngineError> {
        plugins.check_names()?;
        plugins.retain(&options.plugins);
        Ok(Self {
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
            plugins: PluginLists::new(plugins),
            prepared: PreparedCache::new(CACHED_PLACEMENTS),
        })
    }

    /// Sets the number of cached placements; 0 disables the cache.
    #[must_use]
    pub fn with_cached_placements(mut self, placements: usize) -> Self {
        self.prepared = PreparedCache::new(placements);
        self
    }

    /// Decides the clusters of a workload.
    pub fn schedule(&mut self, snapshot: &Snapshot, request: &Request) -> Outcome {
        self.schedule_with(snapshot, request, &NO_ASSUMPTIONS)
    }

    /// Decides the clusters of a workload, with corrections for other workloads that clusters do not report
    /// correctly yet. The engine applies all of `assumed`, so the caller leaves out what must not apply.
    pub fn schedule_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> Outcome {
        self.try_terms(snapshot, request, assumed, &mut Silent)
            .outcome
    }

    /// Decides like [`Self::schedule_with`], notifies an observer and returns the state of the plugins.
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

    /// Decides and explains the decision.
    pub fn explain(&mut self, snapshot: &Snapshot, request: &Request) -> (Outcome, Explanation) {
        self.explain_with(snapshot, request, &NO_ASSUMPTIONS)
    }

    /// Decides like [`Self::schedule_with`] and explains the decision.
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

    /// Returns the unit of estimates: component sets for workloads with components that go to a single cluster.
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
