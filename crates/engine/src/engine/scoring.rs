//! The engine's implementation of the PreScore and Score points, which rank the clusters that passed the filters.

use super::plugin_calls::Calls;
use super::plugin_lists::{ListedPlugin, Skipped, WeightedScore};
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::framework::{
    AttemptContext, BindingContext, CycleState, PluginError, Point, PreScoreResult, Scores,
};

impl Engine {
    pub(super) fn pre_score<T: Trace>(
        &self,
        context: &AttemptContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
        calls: &mut Calls<'_, T>,
    ) -> Result<Skipped, ScheduleError> {
        if self.plugins.pre_scores.is_empty() {
            return Ok(Skipped::default());
        }
        calls.point(Point::PreScore, |calls| {
            let mut skipped = Skipped::default();
            for (index, listed) in self.plugins.pre_scores.iter().enumerate() {
                let skips = |result: &PreScoreResult| *result == PreScoreResult::Skip;
                let result = calls.call_skipping(Point::PreScore, index, listed, skips, |plugin| {
                    plugin.pre_score(context, candidates, state)
                });
                match result? {
                    PreScoreResult::Score => {}
                    PreScoreResult::Skip => skipped.skip(index),
                }
            }
            Ok(skipped)
        })
    }

    pub(super) fn score<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        skipped: &Skipped,
        candidates: &mut [Candidate],
        calls: &mut Calls<'_, T>,
    ) -> Result<(), ScheduleError> {
        if self.plugins.scores.is_empty() {
            return Ok(());
        }
        calls.point(Point::Score, |calls| {
            for (index, listed) in self.plugins.scores.iter().enumerate() {
                if !skipped.runs(listed) {
                    continue;
                }
                let before: Vec<i64> = if T::EXPLAINS {
                    candidates.iter().map(|candidate| candidate.score).collect()
                } else {
                    Vec::new()
                };
                run_score_plugin(index, listed, context, candidates, calls)?;
                if T::EXPLAINS {
                    let added: Vec<i64> = candidates
                        .iter()
                        .zip(before)
                        .map(|(candidate, before)| candidate.score.saturating_sub(before))
                        .collect();
                    let weight = listed.plugin.weight;
                    calls.trace.scored(&listed.name, weight, candidates, &added);
                    trace_inputs(index, listed, context, candidates, calls);
                }
            }
            Ok(())
        })
    }
}

/// Records the inputs of a score plugin about each candidate.
fn trace_inputs<T: Trace>(
    index: usize,
    listed: &ListedPlugin<WeightedScore>,
    context: &BindingContext<'_>,
    candidates: &[Candidate],
    calls: &mut Calls<'_, T>,
) {
    for candidate in candidates {
        if let Some(cluster) = context.snapshot().cluster(candidate.ordinal) {
            calls.begin_call(Point::Score, index);
            let inputs = listed.plugin.score.inputs(context, &cluster);
            calls.end_call();
            calls.trace.inputs(candidate.ordinal, &listed.name, inputs);
        }
    }
}

/// Runs one score plugin, and adds its weighted scores to the candidates.
fn run_score_plugin<T: Trace>(
    index: usize,
    listed: &ListedPlugin<WeightedScore>,
    context: &BindingContext<'_>,
    candidates: &mut [Candidate],
    calls: &mut Calls<'_, T>,
) -> Result<(), PluginError> {
    let weight = listed.plugin.weight;
    if !listed.plugin.normalises {
        return calls.call(Point::Score, index, listed, |scorer| {
            let mut scores = Scores::onto(candidates, weight);
            scorer.score.score_fleet(context, &mut scores)
        });
    }
    let mut separate = vec![0; candidates.len()];
    calls.call(Point::Score, index, listed, |scorer| {
        let mut scores = Scores::separate(candidates, &mut separate);
        scorer.score.score_fleet(context, &mut scores)
    })?;
    calls.call(Point::NormalizeScore, index, listed, |scorer| {
        scorer.score.normalise(context, &mut separate)
    })?;
    for (candidate, score) in candidates.iter_mut().zip(separate) {
        let weighted = score.saturating_mul(weight);
        candidate.score = candidate.score.saturating_add(weighted);
    }
    Ok(())
}
