//! The PreScore and Score steps, which rank the passing clusters.

use super::guard::Calls;
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
        calls: &mut Calls<'_, T>,
    ) -> Result<Switches, ScheduleError> {
        if self.roster.pre_scores.is_empty() {
            return Ok(Switches::default());
        }
        calls.point(Point::PreScore, |calls| {
            let mut switches = Switches::default();
            for (place, listed) in self.roster.pre_scores.iter().enumerate() {
                let skips = |result: &PreScoreResult| *result == PreScoreResult::Skip;
                let result = calls.call_skipping(Point::PreScore, place, listed, skips, |plugin| {
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
        calls: &mut Calls<'_, T>,
    ) -> Result<(), ScheduleError> {
        if self.roster.scores.is_empty() {
            return Ok(());
        }
        calls.point(Point::Score, |calls| {
            for (place, listed) in self.roster.scores.iter().enumerate() {
                if !switches.is_on(listed) {
                    continue;
                }
                let before: Vec<i64> = if T::EXPLAINS {
                    candidates.iter().map(|candidate| candidate.score).collect()
                } else {
                    Vec::new()
                };
                score_by(place, listed, context, candidates, calls)?;
                if T::EXPLAINS {
                    let added: Vec<i64> = candidates
                        .iter()
                        .zip(before)
                        .map(|(candidate, before)| candidate.score.saturating_sub(before))
                        .collect();
                    calls.trace.scored(&listed.name, candidates, &added);
                }
            }
            Ok(())
        })
    }
}

/// Adds the weighted scores of one plugin.
fn score_by<T: Trace>(
    place: usize,
    listed: &Listed<Scorer>,
    context: &BindingContext<'_>,
    candidates: &mut [Candidate],
    calls: &mut Calls<'_, T>,
) -> Result<(), PluginError> {
    let weight = listed.plugin.weight;
    if !listed.plugin.normalises {
        return calls.call(Point::Score, place, listed, |scorer| {
            let mut scores = Scores::onto(candidates, weight);
            scorer.score.score_fleet(context, &mut scores)
        });
    }
    let mut apart = vec![0; candidates.len()];
    calls.call(Point::Score, place, listed, |scorer| {
        let mut scores = Scores::apart(candidates, &mut apart);
        scorer.score.score_fleet(context, &mut scores)
    })?;
    calls.call(Point::NormalizeScore, place, listed, |scorer| {
        scorer.score.normalise(context, &mut apart)
    })?;
    for (candidate, score) in candidates.iter_mut().zip(apart) {
        let weighted = score.saturating_mul(weight);
        candidate.score = candidate.score.saturating_add(weighted);
    }
    Ok(())
}
