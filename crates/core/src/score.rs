//! The second stage: which of the clusters that pass are preferred.

use std::fmt::Debug;

use crate::candidate::Candidate;
use crate::filter::BindingContext;
use crate::fleet::ClusterView;

/// Why a score cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScoreError(pub String);

/// Prefers clusters. The scores of all plugins are added up.
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
    ) -> Result<i64, ScoreError>;

    /// Adds the scores to the candidates, which come by name.
    ///
    /// # Errors
    /// When there is no score for one of them.
    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        candidates: &mut [Candidate],
    ) -> Result<(), ScoreError> {
        for candidate in candidates {
            if let Some(cluster) = context.snapshot().cluster(candidate.ordinal) {
                candidate.score = candidate
                    .score
                    .saturating_add(self.score(context, &cluster)?);
            }
        }
        Ok(())
    }
}

/// ClusterLocality: prefers clusters that hold the workload already.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterLocality;

impl ClusterLocality {
    /// The plugin's name.
    pub const NAME: &'static str = "ClusterLocality";
    /// The score of a cluster that holds the workload.
    pub const SCORE: i64 = 100;
}

impl Score for ClusterLocality {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn score(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<i64, ScoreError> {
        let holds = context
            .request()
            .prior()
            .iter()
            .any(|(name, _)| name == cluster.name());
        Ok(if holds { Self::SCORE } else { 0 })
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        candidates: &mut [Candidate],
    ) -> Result<(), ScoreError> {
        for (name, _) in context.request().prior() {
            let place = context.snapshot().ordinal(name).and_then(|ordinal| {
                candidates
                    .binary_search_by_key(&ordinal, |c| c.ordinal)
                    .ok()
            });
            if let Some(candidate) = place.and_then(|place| candidates.get_mut(place)) {
                candidate.score = candidate.score.saturating_add(Self::SCORE);
            }
        }
        Ok(())
    }
}
