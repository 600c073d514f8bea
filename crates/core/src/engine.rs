//! The engine: the four stages, term after term.

use std::sync::Arc;

use crate::assign::{AssignContext, Order, assign};
use crate::bits::Bits;
use crate::candidate::{Candidate, Share};
use crate::error::{FitError, ScheduleError};
use crate::estimate::{Assumed, EstimateContext, Estimator, UNBOUNDED, Unit};
use crate::explain::{Explainer, Explanation};
use crate::filter::{BindingContext, Filter, PlacementContext, Reason};
use crate::fleet::Snapshot;
use crate::options::{EngineOptions, Gates};
use crate::outcome::{FailedTerm, Outcome, Placement, Target, TargetComponent};
use crate::plugins::{EngineError, Plugins};
use crate::prepared::{Key, Prepared, PreparedCache};
use crate::probe::{Probe, Probed, Step};
use crate::request::placement::{SpreadBy, Strategy, Term};
use crate::request::{Mode, Request};
use crate::score::Score;
use crate::select::{Honoured, SelectContext, Way, select};
use crate::trace::{Silent, Trace};

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
    filters: Vec<Filter>,
    scores: Vec<Box<dyn Score>>,
    estimators: Vec<Box<dyn Estimator>>,
    prepared: PreparedCache,
}

impl Engine {
    /// An engine with the in-tree plugins.
    ///
    /// # Errors
    /// None with in-tree plugins only.
    pub fn new(options: EngineOptions) -> Result<Self, EngineError> {
        Self::with_plugins(options, Plugins::default())
    }

    /// An engine with more plugins. The set of plugins in use governs these, too; not the estimators.
    ///
    /// # Errors
    /// When a plugin has the name of another one.
    pub fn with_plugins(options: EngineOptions, plugins: Plugins) -> Result<Self, EngineError> {
        let EngineOptions {
            plugins: in_use,
            gates,
            empty_workload_propagation,
        } = options;
        let Plugins {
            filters,
            scores,
            estimators,
        } = plugins.with_in_tree(gates, &in_use)?;
        Ok(Self {
            gates,
            empty_workload_propagation,
            filters,
            scores,
            estimators,
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
        self.schedule_with(snapshot, request, &Assumed::default())
    }

    /// Decides where a workload goes, while other workloads were placed that clusters do not report yet.
    /// They count under the gate SchedulingOvercommitProtection.
    pub fn schedule_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> Outcome {
        self.decide(snapshot, request, assumed, &mut Silent)
    }

    /// Decides as [`Self::schedule_with`] does, and tells a probe when the stages begin and end.
    pub fn schedule_probed<P: Probe>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        probe: &mut P,
    ) -> Outcome {
        self.decide(snapshot, request, assumed, &mut Probed(probe))
    }

    /// Decides, and tells why.
    pub fn explain(&mut self, snapshot: &Snapshot, request: &Request) -> (Outcome, Explanation) {
        self.explain_with(snapshot, request, &Assumed::default())
    }

    /// Decides as [`Self::schedule_with`] does, and tells why.
    pub fn explain_with(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
    ) -> (Outcome, Explanation) {
        let mut explainer = Explainer::default();
        let outcome = self.decide(snapshot, request, assumed, &mut explainer);
        (outcome, explainer.finish())
    }

    fn decide<T: Trace>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        trace: &mut T,
    ) -> Outcome {
        let nothing = Assumed::default();
        let assumed = if self.gates.scheduling_overcommit_protection {
            assumed
        } else {
            &nothing
        };
        let terms = &request.placement.terms;
        if terms.is_empty() {
            trace.term(snapshot, None);
            let result = self.run(snapshot, request, assumed, None, trace);
            return Outcome {
                failed_terms: Vec::new(),
                result: result.map(|targets| Placement {
                    targets,
                    affinity: None,
                }),
            };
        }
        let mut failed_terms = Vec::new();
        for (index, Term { name, .. }) in terms.iter().enumerate().skip(first_term(request)) {
            trace.term(snapshot, Some(name));
            // Of terms with the same name the first counts, whichever is in turn.
            let term = request.placement.term_named(name);
            match self.run(snapshot, request, assumed, term, trace) {
                Ok(targets) => {
                    return Outcome {
                        failed_terms,
                        result: Ok(Placement {
                            targets,
                            affinity: Some(Arc::clone(name)),
                        }),
                    };
                }
                Err(error) => failed_terms.push(FailedTerm { index, error }),
            }
        }
        let first = failed_terms.first().map(|failed| failed.error.clone());
        Outcome {
            result: first.map_or_else(|| Ok(Placement::default()), Err),
            failed_terms,
        }
    }

    /// Runs the four stages for one term, or without terms.
    fn run<T: Trace>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        term: Option<usize>,
        trace: &mut T,
    ) -> Result<Vec<Target>, ScheduleError> {
        let result = self.run_stages(snapshot, request, assumed, term, trace);
        trace.leaves();
        if let Err(error) = &result {
            trace.failed(error);
        }
        result
    }

    fn run_stages<T: Trace>(
        &mut self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        term: Option<usize>,
        trace: &mut T,
    ) -> Result<Vec<Target>, ScheduleError> {
        trace.enters(Step::Filter);
        let placement = PlacementContext {
            snapshot,
            placement: &request.placement,
            term,
            is_workload: request.is_workload(),
        };
        let binding = BindingContext { snapshot, request };
        let prepared = self.prepare(&placement, request);
        let prior = prior_shares(snapshot, request);
        let passing = self.filter(&prepared, &binding, &prior);
        if T::LISTENS || passing.is_empty() {
            let refusals = self.refusals(&placement, &binding, &passing);
            for (ordinal, plugin, reason) in &refusals {
                trace.refused(*ordinal, plugin, reason);
            }
            if passing.is_empty() {
                let reasons = refusals
                    .into_iter()
                    .map(|(ordinal, _, reason)| (Arc::clone(snapshot.name(ordinal)), reason));
                return Err(FitError::new(snapshot.len(), reasons.collect()).into());
            }
        }
        let mut candidates = candidates(&passing, prepared.tiers.as_deref(), &prior);
        trace.enters(Step::Score);
        self.score(&binding, &mut candidates, trace)?;
        trace.enters(Step::Select);
        let tiered = is_tiered(request, term);
        let way = Way::of(&request.placement, self.honoured());
        if T::LISTENS || needs_estimates(request, way, tiered) {
            self.estimate(snapshot, request, assumed, &mut candidates, trace);
        }
        trace.candidates(&candidates);
        let context = SelectContext {
            snapshot,
            placement: &request.placement,
            replicas: request.replicas,
            need: self.need(request),
            honoured: self.honoured(),
        };
        let mut selected = select(&context, candidates)?;
        trace.selected(&selected);
        trace.enters(Step::Assign);
        let context = AssignContext {
            request,
            static_weights: &prepared.static_weights,
            prior: &prior,
            order: if way == Way::All {
                Order::ByName
            } else {
                Order::AsSelected
            },
        };
        let mut shares = assign(&context, &mut selected, tiered)?;
        trace.dealt(&shares, &prior);
        if self.empty_workload_propagation {
            add_empty(snapshot.len(), &selected, &mut shares);
        }
        Ok(self.targets(snapshot, request, &shares))
    }

    fn prepare(&mut self, context: &PlacementContext<'_>, request: &Request) -> Arc<Prepared> {
        let Self {
            prepared, filters, ..
        } = self;
        let key = Key {
            placement_hash: request.placement_hash,
            term: context.term,
            is_workload: context.is_workload,
        };
        prepared.get_or_prepare(key, &request.placement, &context.snapshot.topology, || {
            Prepared::new(context, filters)
        })
    }

    /// The clusters that pass all filters.
    fn filter(&self, prepared: &Prepared, context: &BindingContext<'_>, prior: &[Share]) -> Bits {
        let mut holding = Bits::none(context.snapshot.len());
        for share in prior {
            holding.set(share.ordinal, true);
        }
        let mut passing = prepared.passing.clone();
        if let Some(passing_if_new) = &prepared.passing_if_new {
            passing.intersect_either(passing_if_new, &holding);
        }
        for filter in &self.filters {
            if let Filter::Binding(filter) = filter {
                filter.restrict(context, &holding, &mut passing);
            }
        }
        passing
    }

    /// For each cluster that does not pass the plugin and the reason. Clusters that are being deleted have
    /// none.
    fn refusals(
        &self,
        placement: &PlacementContext<'_>,
        binding: &BindingContext<'_>,
        passing: &Bits,
    ) -> Vec<(usize, &str, Reason)> {
        let refused = placement
            .snapshot
            .clusters()
            .filter(|cluster| !cluster.is_deleting() && !passing.contains(cluster.ordinal()));
        refused
            .filter_map(|cluster| {
                self.filters.iter().find_map(|filter| {
                    let reason = filter.check(placement, binding, &cluster).err()?;
                    Some((cluster.ordinal(), filter.name(), reason))
                })
            })
            .collect()
    }

    fn score<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        candidates: &mut [Candidate],
        trace: &mut T,
    ) -> Result<(), ScheduleError> {
        for plugin in &self.scores {
            let before: Vec<i64> = if T::LISTENS {
                candidates.iter().map(|candidate| candidate.score).collect()
            } else {
                Vec::new()
            };
            plugin.score_fleet(context, candidates).map_err(|error| {
                let name = plugin.name();
                ScheduleError::Other(format!(
                    "failed to prioritize clusters: plugin \"{name}\" failed with: {error}"
                ))
            })?;
            if T::LISTENS {
                let added: Vec<i64> = candidates
                    .iter()
                    .zip(before)
                    .map(|(candidate, before)| candidate.score - before)
                    .collect();
                trace.scored(plugin.name(), candidates, &added);
            }
        }
        Ok(())
    }

    /// Asks every estimator what the candidates can take; the least answer counts.
    fn estimate<T: Trace>(
        &self,
        snapshot: &Snapshot,
        request: &Request,
        assumed: &Assumed,
        candidates: &mut [Candidate],
        trace: &mut T,
    ) {
        if request.replicas == 0 && request.components.is_empty() {
            for candidate in candidates {
                candidate.allocatable = i64::from(UNBOUNDED);
            }
            return;
        }
        let context = EstimateContext {
            snapshot,
            request,
            unit: if self.schedules_component_sets(request) {
                Unit::ComponentSets
            } else {
                Unit::Replicas
            },
            assumed,
        };
        let clusters: Vec<usize> = candidates
            .iter()
            .map(|candidate| candidate.ordinal)
            .collect();
        let mut estimates = vec![UNBOUNDED; clusters.len()];
        let (general, others) = self
            .estimators
            .split_first()
            .map_or((None, &[][..]), |(g, o)| (Some(g), o));
        if let Some(general) = general {
            // It has an answer for every cluster.
            let _ = general.estimate(&context, &clusters, &mut estimates);
            trace.estimated(general.name(), &clusters, &estimates);
        }
        for estimator in others {
            let mut answers = vec![UNBOUNDED; clusters.len()];
            if estimator
                .estimate(&context, &clusters, &mut answers)
                .is_ok()
            {
                trace.estimated(estimator.name(), &clusters, &answers);
                for (estimate, answer) in estimates.iter_mut().zip(answers) {
                    *estimate = (*estimate).min(answer);
                }
            }
        }
        for (candidate, estimate) in candidates.iter_mut().zip(estimates) {
            candidate.allocatable = if estimate == UNBOUNDED {
                request.replicas
            } else {
                i64::from(estimate)
            };
        }
    }

    fn honoured(&self) -> Honoured {
        Honoured {
            beside_cluster: self.gates.spread_by_all_fields,
            beside_static_weights: self.gates.spread_static_weights,
        }
    }

    /// What the selected clusters have to be able to take together.
    fn need(&self, request: &Request) -> Option<i64> {
        if request.placement.duplicates() {
            None
        } else if self.schedules_component_sets(request) {
            Some(1)
        } else {
            Some(request.replicas)
        }
    }

    /// Whether whole sets of components are counted: the workload has components and goes to one cluster.
    fn schedules_component_sets(&self, request: &Request) -> bool {
        self.gates.multiple_pod_templates_scheduling
            && !request.components.is_empty()
            && request.placement.constraints.iter().any(|constraint| {
                constraint.by == SpreadBy::Cluster
                    && constraint.min == 1
                    && constraint.max == Some(1)
            })
    }

    fn targets(&self, snapshot: &Snapshot, request: &Request, shares: &[Share]) -> Vec<Target> {
        let by_component = request.components.len() > 1 && self.schedules_component_sets(request);
        let components = || {
            let components = request.components.iter().filter(|_| by_component);
            components
                .map(|component| TargetComponent {
                    name: component.name.clone(),
                    replicas: component.replicas,
                })
                .collect()
        };
        shares
            .iter()
            .map(|share| Target {
                name: Arc::clone(snapshot.name(share.ordinal)),
                replicas: i32::try_from(share.replicas).unwrap_or(i32::MAX),
                components: components(),
            })
            .collect()
    }
}

/// The term to start with: the one in use, unless a reschedule was asked for.
fn first_term(request: &Request) -> usize {
    match &request.observed_term {
        Some(name) if request.mode == Mode::Steady => {
            request.placement.term_named(name).unwrap_or(0)
        }
        _ => 0,
    }
}

/// The clusters of `spec.clusters` that exist, in its order.
fn prior_shares(snapshot: &Snapshot, request: &Request) -> Vec<Share> {
    let prior = request.prior.iter();
    prior
        .filter_map(|(name, replicas)| {
            Some(Share {
                ordinal: snapshot.ordinal(name)?,
                replicas: *replicas,
            })
        })
        .collect()
}

/// The clusters that pass, by name, before anything but their tier and what they hold is known.
fn candidates(passing: &Bits, tiers: Option<&[u32]>, prior: &[Share]) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(passing.count());
    candidates.extend(passing.iter().map(|ordinal| Candidate {
        ordinal,
        tier: tiers.map_or(0, |tiers| tiers[ordinal]),
        score: 0,
        allocatable: 0,
        assigned: 0,
    }));
    for share in prior {
        if let Ok(place) =
            candidates.binary_search_by_key(&share.ordinal, |candidate| candidate.ordinal)
        {
            candidates[place].assigned = share.replicas;
        }
    }
    candidates
}

/// Whether tiers are filled one after the other: the term in turn has overflow groups.
fn is_tiered(request: &Request, term: Option<usize>) -> bool {
    let placement = &request.placement;
    placement.affinity.is_none()
        && term
            .and_then(|term| placement.terms.get(term))
            .is_some_and(|term| !term.name.is_empty() && !term.overflow.is_empty())
}

/// Whether anything depends on what clusters can take.
fn needs_estimates(request: &Request, way: Way, tiered: bool) -> bool {
    let dealt_by_room = matches!(
        request.placement.strategy,
        Strategy::DynamicWeights | Strategy::Aggregated
    );
    way != Way::All || (request.deals_replicas() && (dealt_by_room || tiered))
}

/// Adds the selected clusters that get nothing, with 0 replicas.
fn add_empty(clusters: usize, selected: &[Candidate], shares: &mut Vec<Share>) {
    let mut present = Bits::none(clusters);
    for share in &*shares {
        present.set(share.ordinal, true);
    }
    let missing = selected
        .iter()
        .filter(|candidate| !present.contains(candidate.ordinal));
    shares.extend(missing.map(|candidate| Share {
        ordinal: candidate.ordinal,
        replicas: 0,
    }));
}
