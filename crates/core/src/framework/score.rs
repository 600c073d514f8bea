//! PreScore and Score: which of the clusters that pass are preferred.

use std::fmt::Debug;

use super::context::{BindingContext, CycleContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::candidate::Candidate;
use crate::fleet::ClusterView;

/// Works out what its Score, or a later point, needs for these candidates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreScore point",
    note = "implement `name` and `pre_score`"
)]
pub trait PreScore: Debug + Send + Sync {
    /// The plugin's name. Its Score has the same one.
    fn name(&self) -> &str;

    /// Works out what is needed and keeps it in `state`. The candidates come by name; what they can take is
    /// not known yet.
    ///
    /// # Errors
    /// When nothing can be decided.
    fn pre_score(
        &self,
        context: &CycleContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError>;
}

/// Whether there is something to score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreResult {
    /// The Score of this plugin is asked.
    Score,
    /// The Score of this plugin is not asked in this cycle.
    Skip,
}

/// Prefers clusters. The scores of all plugins, each times its weight, are added up.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no score",
    note = "implement `name` and `score`; `score_fleet` is worth it when few clusters have a score"
)]
pub trait Score: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// The score of one cluster, 0 to 100 by custom.
    ///
    /// # Errors
    /// When there is none; nothing is decided then.
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
        for place in 0..scores.candidates().len() {
            let candidate = scores.candidates().get(place);
            let cluster =
                candidate.and_then(|candidate| context.snapshot().cluster(candidate.ordinal));
            if let Some(cluster) = cluster {
                scores.add(place, self.score(context, &cluster)?);
            }
        }
        Ok(())
    }

    /// Whether [`Self::normalise`] has something to do.
    fn normalises(&self) -> bool {
        false
    }

    /// Brings the scores into one range, before the weight is applied. They come in the order of the
    /// candidates, which is by name.
    ///
    /// # Errors
    /// When nothing can be decided.
    fn normalise(
        &self,
        context: &BindingContext<'_>,
        scores: &mut [i64],
    ) -> Result<(), PluginError> {
        let _ = (context, scores);
        Ok(())
    }
}

/// The candidates, and where a plugin puts its scores. Without a score a candidate has 0.
#[derive(Debug)]
pub struct Scores<'a> {
    candidates: &'a mut [Candidate],
    weight: i64,
    /// Scores that are still to be normalised; the others are added to those of the candidates at once.
    apart: Option<&'a mut [i64]>,
}

impl<'a> Scores<'a> {
    pub(crate) fn onto(candidates: &'a mut [Candidate], weight: i64) -> Self {
        Self {
            candidates,
            weight,
            apart: None,
        }
    }

    pub(crate) fn apart(candidates: &'a mut [Candidate], scores: &'a mut [i64]) -> Self {
        Self {
            candidates,
            weight: 1,
            apart: Some(scores),
        }
    }

    /// The candidates, by name. Their scores are not final.
    pub fn candidates(&self) -> &[Candidate] {
        self.candidates
    }

    /// The place of a cluster among the candidates.
    pub fn place_of(&self, ordinal: usize) -> Option<usize> {
        self.candidates
            .binary_search_by_key(&ordinal, |candidate| candidate.ordinal)
            .ok()
    }

    /// Adds to the score of the candidate at a place; a place beyond the candidates is ignored.
    pub fn add(&mut self, place: usize, score: i64) {
        let weighted = score.saturating_mul(self.weight);
        let sum = match &mut self.apart {
            Some(scores) => scores.get_mut(place),
            None => self.candidates.get_mut(place).map(|one| &mut one.score),
        };
        if let Some(sum) = sum {
            *sum = sum.saturating_add(weighted);
        }
    }
}
