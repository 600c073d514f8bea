//! The score plugin ClusterLocality, which prefers clusters that already have the workload.

use crate::{BindingContext, ClusterView, PluginError, Score, Scores};

/// A score plugin that prefers clusters that already have the workload.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterLocality;

impl ClusterLocality {
    /// The plugin's name.
    pub const NAME: &'static str = "ClusterLocality";
    /// The score of a cluster that already has the workload.
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
    ) -> Result<i64, PluginError> {
        let holds = context.request().holds(cluster.name());
        Ok(if holds { Self::SCORE } else { 0 })
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        for share in context.current() {
            if let Some(index) = scores.place_of(share.ordinal) {
                scores.add(index, Self::SCORE);
            }
        }
        Ok(())
    }
}
