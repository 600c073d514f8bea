//! The [`Engine`]. It makes a decision by running the extension points for the affinity terms of the placement, one
//! term after the other.
//!
//! The submodule `terms` contains the loop over affinity terms, and `attempt` contains the run of all points for one
//! term. The other submodules contain single points, the calls of plugins, the cache and the explanations.

mod attempt;
mod estimating;
mod explain;
mod filtering;
mod placement_cache;
mod plugin_calls;
mod plugin_lists;
mod scoring;
mod targets;
mod terms;
mod trace;

use crate::estimate::{Assumed, Unit, no_assumptions};
use crate::fleet::Snapshot;
use crate::framework::{CycleState, EngineError, Observer, Plugins};
use crate::options::EngineOptions;
use crate::outcome::Outcome;
use crate::request::{Request, SpreadBy};
use berth_api::feature_gates::EngineGates;
use explain::Explainer;
use placement_cache::PreparedCache;
use plugin_lists::PluginLists;
use trace::{Observed, Silent, Trace};

pub use explain::{ClusterExplanation, Explanation, Refusal, Stage, TermExplanation};

/// The default maximum number of placements in the cache. For a thousand clusters, an entry takes a few kilobytes.
const CACHED_PLACEMENTS: usize = 512;

/// The decision engine, which selects the clusters of a workload and the number of replicas in each cluster.
///
/// A decision depends only on the snapshot, the request and the assumed workloads. The engine caches results between
/// calls, but the cache never changes a decision.
#[derive(Debug)]
pub struct Engine {
    gates: EngineGates,
    empty_workload_propagation: bool,
    plugins: PluginLists,
    prepared: PreparedCache,
}

/// The result of a decision, with the state that plugins stored while the engine made the decision.
#[derive(Debug)]
pub struct Decision {
    /// The result of the decision.
    pub outcome: Outcome,
    /// The state of the attempt that produced the result. If all affinity terms are infeasible, the state of the last
    /// attempt.
    pub state: CycleState,
}

impl Engine {
    /// Creates an engine with the enabled in-tree plugins.
    ///
    /// # Errors
    /// Returns no error in practice, because the names of the in-tree plugins are unique.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        let plugins = Plugins::in_tree(options.gates);
        Self::with_plugins(options, plugins)
    }

    /// Creates an engine with the given plugins. Plugins that the options disable are removed.
    ///
    /// # Errors
    /// Returns an error if two plugins in the list of one extension point have the same name.
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

    /// Sets the maximum number of placements in the cache. 0 disables the cache.
    #[must_use]
    pub fn with_cached_placements(mut self, placements: usize) -> Self {
        self.prepared = PreparedCache::new(placements);
        self
    }

    /// Decides the clusters and replicas of a workload.
    pub fn schedule(&mut self, snapshot: &Snapshot, request: &Request) -> Outcome {
        self.schedule_with(snapshot, request, no_assumptions())
    }

    /// Decides like [`Self::schedule`], and corrects the free capacity that clusters report.
    ///
    /// `assumed` contains workloads that clusters do not report correctly yet. The engine applies every correction in
    /// `assumed`, so the caller must select the corrections that apply to this request.
    pub fn schedule_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> Outcome {
        self.try_terms(snapshot, request, assumed, &mut Silent)
            .outcome
    }

    /// Decides like [`Self::schedule_with`], and notifies an observer of extension points and plugin calls. Returns the
    /// state of the plugins together with the result.
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

    /// Decides like [`Self::schedule`], and explains the decision.
    pub fn explain(&mut self, snapshot: &Snapshot, request: &Request) -> (Outcome, Explanation) {
        self.explain_with(snapshot, request, no_assumptions())
    }

    /// Decides like [`Self::schedule_with`], and explains the decision.
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

    /// Returns the unit in which estimators count: component sets if the workload has components and must run in a
    /// single cluster, or replicas otherwise. The feature gate MultiplePodTemplatesScheduling enables component sets.
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
