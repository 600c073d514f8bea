//! The construction of a [`Report`] from a decision and its explanation by the engine.

use std::collections::BTreeMap;

use berth_engine::{
    Basis, ClusterExplanation, Explanation, Outcome, Request, ScheduledReason, Stage, Strategy,
    TermExplanation,
};

use crate::fix::Share;
use crate::reason::{self, Choices};
use crate::report::{
    API_VERSION, BindingSummary, ClusterReport, EstimateReport, KIND, Minimum, PluginInput,
    Recorded, Report, ResourceSummary, ScoreReport, StageCount, StoredCondition, StrategyName,
    TermOutcome, TermReport, Verdict,
};
use crate::summary;
use crate::warnings::warnings;

impl Report {
    /// Builds the report of a decision without fixes.
    pub fn new(request: &Request, outcome: &Outcome, explanation: &Explanation) -> Self {
        let empty = TermExplanation::default();
        let deciding = deciding_term(outcome, explanation).unwrap_or(&empty);
        let choices = Choices::new(deciding);
        let clusters: Vec<ClusterReport> = deciding
            .clusters
            .iter()
            .map(|(name, cluster)| ClusterReport::new(name, cluster, (deciding, &choices), request))
            .collect();
        let counts = summary::counts(&clusters);
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            binding: BindingSummary::new(request),
            verdict: Verdict::new(request, outcome, counts),
            source: None,
            recorded: None,
            diagnosis: None,
            migration: None,
            evictions_paused: Vec::new(),
            terms: terms(request, outcome, explanation),
            selection: deciding.selection.clone(),
            division: deciding.division.clone(),
            fixes: Vec::new(),
            clusters,
            notes: warnings(request, outcome, explanation),
        }
    }

    /// Adds the namespace and the name of the workload.
    #[must_use]
    pub fn with_resource(mut self, namespace: Option<&str>, name: &str) -> Self {
        let resource = &mut self.binding.resource;
        resource.namespace = namespace.filter(|n| !n.is_empty()).map(str::to_owned);
        resource.name = Some(name.to_owned());
        self
    }

    /// Adds the result that the binding records, and whether the decision agrees with this result.
    #[must_use]
    pub fn with_recorded(
        mut self,
        mut clusters: Vec<Share>,
        affinity: Option<String>,
        condition: Option<StoredCondition>,
    ) -> Self {
        clusters.sort_unstable();
        let reason = self.verdict.reason;
        // After a failure other than "no cluster fits", the binding keeps its clusters.
        let kept = matches!(
            reason,
            ScheduledReason::Unschedulable | ScheduledReason::SchedulerError
        );
        let same_reason = match &condition {
            Some(condition) if condition.status == "True" => reason == ScheduledReason::Success,
            Some(condition) => condition.reason == reason.as_str(),
            None => !kept,
        };
        let agrees = same_reason && (kept || clusters == self.verdict.clusters);
        self.recorded = Some(Recorded {
            clusters,
            affinity,
            condition,
            agrees,
        });
        self
    }
}

impl StrategyName {
    fn of(strategy: &Strategy) -> Self {
        match strategy {
            Strategy::Duplicated => Self::Duplicated,
            Strategy::StaticWeights(_) => Self::StaticWeights,
            Strategy::DynamicWeights => Self::DynamicWeights,
            Strategy::Aggregated => Self::Aggregated,
            Strategy::Unsupported { .. } => Self::Unsupported,
        }
    }
}

impl BindingSummary {
    fn new(request: &Request) -> Self {
        let key = request.key();
        let (api_version, kind) = request.resource();
        Self {
            kind: key.kind().name().to_owned(),
            namespace: key.namespace.as_deref().map(str::to_owned),
            name: key.name.to_string(),
            resource: ResourceSummary {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: None,
                name: None,
            },
            replicas: request.is_workload().then(|| request.replicas()),
            strategy: StrategyName::of(request.placement().strategy()),
        }
    }
}

impl Verdict {
    fn new(request: &Request, outcome: &Outcome, counts: Vec<StageCount>) -> Self {
        match &outcome.result {
            Ok(placement) => {
                let mut clusters: Vec<Share> = placement
                    .targets
                    .iter()
                    .map(|target| Share {
                        name: target.name.to_string(),
                        replicas: i64::from(target.replicas),
                    })
                    .collect();
                clusters.sort_unstable();
                Self {
                    reason: ScheduledReason::Success,
                    summary: summary::placed(request, placement, &counts),
                    clusters,
                    affinity: placement.affinity.as_ref().map(ToString::to_string),
                    message: None,
                    counts,
                }
            }
            Err(error) => Self {
                reason: error.reason(),
                clusters: Vec::new(),
                affinity: None,
                summary: summary::failed(request, error, &counts),
                message: Some(error.to_string()),
                counts,
            },
        }
    }
}

impl ClusterReport {
    fn new(
        name: &str,
        cluster: &ClusterExplanation,
        (term, choices): (&TermExplanation, &Choices<'_>),
        request: &Request,
    ) -> Self {
        let refusal = cluster.refusal.as_ref();
        let scores: Vec<ScoreReport> = cluster
            .scores
            .iter()
            .map(|(plugin, weighted)| ScoreReport {
                plugin: plugin.clone(),
                weight: term.weights.get(plugin).copied().unwrap_or(1),
                weighted: *weighted,
            })
            .collect();
        let inputs = cluster.inputs.iter().flat_map(|(plugin, descriptions)| {
            descriptions.iter().map(|description| PluginInput {
                plugin: plugin.clone(),
                description: description.clone(),
            })
        });
        let mut estimates: BTreeMap<&str, (Option<i32>, Option<&Basis>)> = BTreeMap::new();
        for (estimator, replicas) in &cluster.estimates {
            let answer = Some(*replicas).filter(|replicas| *replicas != i32::MAX);
            estimates.insert(estimator, (answer, None));
        }
        for (estimator, basis) in &cluster.bases {
            estimates.entry(estimator).or_default().1 = Some(basis);
        }
        let minimum = estimates
            .iter()
            .filter_map(|(estimator, (replicas, basis))| Some((estimator, (*replicas)?, *basis)))
            .min_by_key(|(_, replicas, _)| *replicas)
            .map(|(estimator, replicas, basis)| Minimum {
                estimator: (*estimator).to_owned(),
                replicas,
                basis: basis.cloned(),
            });
        Self {
            name: name.to_owned(),
            stage: cluster.stage,
            why: reason::why(name, cluster, minimum.as_ref(), (term, choices), request),
            plugin: refusal.map(|refusal| refusal.plugin.clone()),
            reason: refusal.map(|refusal| refusal.reason.clone()),
            replicas: cluster.replicas,
            before: cluster.before,
            score: (!scores.is_empty()).then(|| {
                let weighted = scores.iter().map(|score| score.weighted);
                weighted.fold(0, i64::saturating_add)
            }),
            scores,
            inputs: inputs.collect(),
            estimates: estimates
                .into_iter()
                .map(|(estimator, (replicas, basis))| EstimateReport {
                    estimator: estimator.to_owned(),
                    replicas,
                    basis: basis.cloned(),
                })
                .collect(),
            minimum,
            available: cluster.available,
            tier: cluster.tier,
            fixes: Vec::new(),
        }
    }
}

/// Returns the affinity term in use. If the decision failed, returns the first tried term, because the decision has the
/// error of this term.
fn deciding_term<'a>(
    outcome: &Outcome,
    explanation: &'a Explanation,
) -> Option<&'a TermExplanation> {
    if outcome.result.is_ok() {
        explanation.terms.last()
    } else {
        explanation.terms.first()
    }
}

fn terms(request: &Request, outcome: &Outcome, explanation: &Explanation) -> Vec<TermReport> {
    let passing = |term: &TermExplanation| {
        let passing = term
            .clusters
            .values()
            .filter(|cluster| !matches!(cluster.stage, Stage::Deleting | Stage::Filtered));
        passing.count()
    };
    let tried = |term: &TermExplanation| TermReport {
        name: term.affinity.clone(),
        outcome: if term.failure.is_some() || outcome.result.is_err() {
            TermOutcome::Failed
        } else {
            TermOutcome::Used
        },
        failure: term.failure.clone(),
        passing: passing(term),
    };
    let untried = |name: &str, outcome| TermReport {
        name: Some(name.to_owned()),
        outcome,
        failure: None,
        passing: 0,
    };
    let names: Vec<&str> = request
        .placement()
        .terms()
        .iter()
        .map(|term| &**term.name())
        .collect();
    let last = names.len().saturating_sub(explanation.terms.len());
    let skipped = explanation
        .terms
        .first()
        .and_then(|first| first.affinity.as_deref())
        .and_then(|first| names.iter().position(|name| *name == first))
        .unwrap_or(0)
        .min(last);
    let after = skipped + explanation.terms.len();
    let (before, rest) = names.split_at(skipped.min(names.len()));
    let rest = rest.get(after - skipped..).unwrap_or_default();
    before
        .iter()
        .map(|name| untried(name, TermOutcome::Skipped))
        .chain(explanation.terms.iter().map(tried))
        .chain(rest.iter().map(|name| untried(name, TermOutcome::NotTried)))
        .collect()
}
