//! PreScore and Score: which of the clusters that pass are preferred.

use super::guard::{call, call_skipping, point};
use super::roster::{Listed, Scorer, Switches};
use super::{Engine, Trace};
use crate::candidate::Candidate;
use crate::error::ScheduleError;
use crate::framework::{
    BindingContext, CycleContext, CycleState, PluginError, Point, PreScoreResult, Scores,
};

impl Engine {
    pub(super) fn pre_score<T: Trace>(
        &self,
        context: &CycleContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
        trace: &mut T,
    ) -> Result<Switches, ScheduleError> {
        if self.roster.pre_scores.is_empty() {
            return Ok(Switches::default());
        }
        point(trace, Point::PreScore, |trace| {
            let mut switches = Switches::default();
            for (place, listed) in self.roster.pre_scores.iter().enumerate() {
                let skips = |result: &PreScoreResult| *result == PreScoreResult::Skip;
                let result = call_skipping(trace, Point::PreScore, listed, skips, |plugin| {
                    plugin.pre_score(context, candidates, state)
                });
                match result? {
                    PreScoreResult::Score => {}
                    PreScoreResult::Skip => switches.switch_off(place),
                }
            }
            Ok(switches)
        })
    }

    pub(super) fn score<T: Trace>(
        &self,
        context: &BindingContext<'_>,
        switches: &Switches,
        candidates: &mut [Candidate],
        trace: &mut T,
    ) -> Result<(), ScheduleError> {
        if self.roster.scores.is_empty() {
            return Ok(());
        }
        point(trace, Point::Score, |trace| {
            for listed in &self.roster.scores {
                if !switches.is_on(listed) {
                    continue;
                }
                let before: Vec<i64> = if T::EXPLAINS {
                    candidates.iter().map(|candidate| candidate.score).collect()
                } else {
                    Vec::new()
                };
                score_by(listed, context, candidates, trace)?;
                if T::EXPLAINS {
                    let added: Vec<i64> = candidates
                        .iter()
                        .zip(before)
                        .map(|(candidate, before)| candidate.score.saturating_sub(before))
                        .collect();
                    trace.scored(&listed.name, candidates, &added);
                }
            }
            Ok(())
        })
    }
}

/// Adds the scores of one plugin, times its weight.
fn score_by<T: Trace>(
    listed: &Listed<Scorer>,
    context: &BindingContext<'_>,
    candidates: &mut [Candidate],
    trace: &mut T,
) -> Result<(), PluginError> {
    let weight = listed.plugin.weight;
    if !listed.plugin.normalises {
        return call(trace, Point::Score, listed, |scorer| {
            let mut scores = Scores::onto(candidates, weight);
            scorer.score.score_fleet(context, &mut scores)
        });
    }
    let mut apart = vec![0; candidates.len()];
    call(trace, Point::Score, listed, |scorer| {
        let mut scores = Scores::apart(candidates, &mut apart);
        scorer.score.score_fleet(context, &mut scores)
    })?;
    call(trace, Point::NormalizeScore, listed, |scorer| {
        scorer.score.normalise(context, &mut apart)
    })?;
    for (candidate, score) in candidates.iter_mut().zip(apart) {
        let weighted = score.saturating_mul(weight);
        candidate.score = candidate.score.saturating_add(weighted);
    }
    Ok(())
}
