//! The PreScore and Score points, which rank the passing clusters.

use std::fmt::Debug;

use super::context::{BindingContext, CycleContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::candidate::Candidate;
use crate::fleet::ClusterView;

/// Prepares data for its Score or a later point.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreScore point",
    note = "implement `name` and `pre_score`"
)]
pub trait PreScore: Debug + Send + Sync {
    /// Returns the plugin name, which its Score shares.
    fn name(&self) -> &str;

    /// Prepares data and stores it in `state`. The candidates are sorted by name and not yet estimated.
    ///
    /// # Errors
    /// When the cycle cannot go on.
    fn pre_score(
        &self,
        context: &CycleContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError>;
}

/// The result of PreScore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreResult {
    /// The Score of this plugin runs.
    Score,
    /// The Score of this plugin is skipped in this cycle.
    Skip,
}

/// Ranks clusters. The engine adds up the weighted scores of all plugins.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no score",
    note = "implement `name` and `score`; `score_fleet` is worth it when few clusters have a score"
)]
pub trait Score: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Returns the score of one cluster, by convention 0 to 100.
    ///
    /// # Errors
    /// When there is no score; the cycle is then aborted.
    fn score(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<i64, PluginError>;

    /// Adds the scores of all candidates.
    ///
    /// # Errors
    /// When there is no score for one of them.
    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        for index in 0..scores.candidates().len() {
            let candidate = scores.candidates().get(index);
            let cluster =
                candidate.and_then(|candidate| context.snapshot().cluster(candidate.ordinal));
            if let Some(cluster) = cluster {
                scores.add(index, self.score(context, &cluster)?);
            }
        }
        Ok(())
    }

    /// Reports whether [`Self::normalise`] must be called.
    fn normalises(&self) -> bool {
        false
    }

    /// Scales the scores to a common range before they are weighted. They are in the order of the candidates, by
    /// name.
    ///
    /// # Errors
    /// When the cycle cannot go on.
    fn normalise(
        &self,
        context: &BindingContext<'_>,
        scores: &mut [i64],
    ) -> Result<(), PluginError> {
        let _ = (context, scores);
        Ok(())
    }
}

/// The candidates, and the scores that a plugin gives them. Candidates without a score get 0.
#[derive(Debug)]
pub struct Scores<'a> {
    candidates: &'a mut [Candidate],
    weight: i64,
    /// The scores of a plugin that normalises. `None` adds scores directly to the candidates.
    separate: Option<&'a mut [i64]>,
}

impl<'a> Scores<'a> {
    pub(crate) fn onto(candidates: &'a mut [Candidate], weight: i64) -> Self {
        Self {
            candidates,
            weight,
            separate: None,
        }
    }

    pub(crate) fn separate(candidates: &'a mut [Candidate], scores: &'a mut [i64]) -> Self {
        Self {
            candidates,
            weight: 1,
            separate: Some(scores),
        }
    }

    /// Returns the candidates, by name. Their scores are not final, because other plugins may run later.
    pub fn candidates(&self) -> &[Candidate] {
        self.candidates
    }

    /// Returns the index of a cluster among the candidates.
    pub fn place_of(&self, ordinal: usize) -> Option<usize> {
        self.candidates
            .binary_search_by_key(&ordinal, |candidate| candidate.ordinal)
            .ok()
    }

    /// Adds to the score of the candidate at an index; ignores an index out of range.
    pub fn add(&mut self, index: usize, score: i64) {
        let weighted = score.saturating_mul(self.weight);
        let sum = match &mut self.separate {
            Some(scores) => scores.get_mut(index),
            None => self
                .candidates
                .get_mut(index)
                .map(|candidate| &mut candidate.score),
        };
        if let Some(sum) = sum {
            *sum = sum.saturating_add(weighted);
        }
    }
}
