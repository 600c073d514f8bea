//! The interfaces of plugins for the PreScore and Score points, which rank the clusters that passed the filters.

use std::fmt::Debug;

use super::context::{AttemptContext, BindingContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::candidate::Candidate;
use crate::fleet::ClusterView;

/// A plugin that prepares data for the Score with the same name, or for a later point.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreScore point",
    note = "implement `name` and `pre_score`"
)]
pub trait PreScore: Debug + Send + Sync {
    /// Returns the plugin name. If the plugin also has a Score, the Score has the same name.
    fn name(&self) -> &str;

    /// Prepares data and stores it in `state`. The candidates are sorted by name. Their capacity is not estimated yet.
    ///
    /// # Errors
    /// Returns an error if the plugin must abort the attempt.
    fn pre_score(
        &self,
        context: &AttemptContext<'_>,
        candidates: &[Candidate],
        state: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError>;
}

/// The result of a PreScore plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreResult {
    /// The engine calls the Score with the same name.
    Score,
    /// The engine skips the Score with the same name in this attempt.
    Skip,
}

/// A plugin that ranks clusters. The engine adds up the weighted scores of all plugins.
///
/// ```
/// use berth_engine::{BindingContext, ClusterView, PluginError, Score};
///
/// /// Prefers clusters with the label `tier=gold`.
/// #[derive(Debug)]
/// struct Gold;
///
/// impl Score for Gold {
///     fn name(&self) -> &str {
///         "Gold"
///     }
///
///     fn score(
///         &self,
///         _: &BindingContext<'_>,
///         cluster: &ClusterView<'_>,
///     ) -> Result<i64, PluginError> {
///         Ok(if cluster.label("tier") == Some("gold") { 100 } else { 0 })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a score plugin",
    note = "implement `name` and `score`; implement `score_fleet` too if few clusters have a score"
)]
pub trait Score: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Returns the score of one cluster. By convention, scores are between 0 and 100.
    ///
    /// # Errors
    /// Returns an error if the plugin cannot score the cluster. The engine then aborts the attempt.
    fn score(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<i64, PluginError>;

    /// Adds the scores of all candidates to `scores`.
    ///
    /// # Errors
    /// Returns an error if the plugin cannot score one of the candidates.
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

    /// Describes the inputs of the plugin about a cluster that are not in its Cluster object, one line for each input. The
    /// engine calls this method only for explanations.
    fn inputs(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Vec<String> {
        let _ = (context, cluster);
        Vec::new()
    }

    /// Reports whether the engine must call [`Self::normalise`].
    fn normalises(&self) -> bool {
        false
    }

    /// Scales the scores of this plugin to a common range, before the engine multiplies them by the weight. `scores`
    /// contains one score for each candidate, in the order of cluster names.
    ///
    /// # Errors
    /// Returns an error if the plugin must abort the attempt.
    fn normalise(
        &self,
        context: &BindingContext<'_>,
        scores: &mut [i64],
    ) -> Result<(), PluginError> {
        let _ = (context, scores);
        Ok(())
    }
}

/// The candidates, and the scores that one plugin gives to them. A candidate without a score gets 0.
#[derive(Debug)]
pub struct Scores<'a> {
    candidates: &'a mut [Candidate],
    weight: i64,
    /// The scores, if the plugin normalises its scores. `None` means that scores are added directly to the candidates.
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

    /// Returns the candidates, sorted by name. Their scores are not final, because other plugins may run later.
    pub fn candidates(&self) -> &[Candidate] {
        self.candidates
    }

    /// Returns the index of a cluster among the candidates.
    pub fn place_of(&self, ordinal: usize) -> Option<usize> {
        self.candidates
            .binary_search_by_key(&ordinal, |candidate| candidate.ordinal)
            .ok()
    }

    /// Adds `score` to the score of the candidate at `index`. Ignores an index that is out of range.
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
