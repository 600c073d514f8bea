//! The plugins that an engine runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assign::Assign;
use super::filter::{Filter, PreFilter};
use super::score::{PreScore, Score};
use super::select::Select;
use crate::estimate::Estimator;
use crate::options::PluginSet;

/// Why an engine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Two plugins of a list have the same name.
    #[error("a plugin named {0:?} exists already")]
    DuplicatePlugin(String),
}

/// A plugin with the weight that its scores have.
#[derive(Clone, Debug)]
pub struct Weighted<P> {
    /// The plugin.
    pub plugin: P,
    /// What its scores are multiplied by; with 0 they count for nothing.
    pub weight: u32,
}

/// The plugins that an engine runs, each list in the order in which it is called. The engine adds nothing:
/// [`Plugins::in_tree`] has the plugins of this crate.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// Work out what filters need.
    pub pre_filters: Vec<Arc<dyn PreFilter>>,
    /// Keep clusters out.
    pub filters: Vec<Filter>,
    /// Work out what scores need.
    pub pre_scores: Vec<Arc<dyn PreScore>>,
    /// Prefer clusters.
    pub scores: Vec<Weighted<Arc<dyn Score>>>,
    /// Tell what clusters can take; the least answer counts.
    pub estimators: Vec<Arc<dyn Estimator>>,
    /// Selects among the candidates.
    pub select: Arc<dyn Select>,
    /// Deals the replicas.
    pub assign: Arc<dyn Assign>,
}

impl Plugins {
    /// Drops the plugins that are not in use, at every point where there may be none. Estimators stay.
    pub fn retain(&mut self, in_use: &PluginSet) {
        self.pre_filters
            .retain(|plugin| in_use.contains(plugin.name()));
        self.filters.retain(|plugin| in_use.contains(plugin.name()));
        self.pre_scores
            .retain(|plugin| in_use.contains(plugin.name()));
        self.scores
            .retain(|score| in_use.contains(score.plugin.name()));
    }

    /// Refuses lists in which two plugins have the same name.
    pub(crate) fn check_names(&self) -> Result<(), EngineError> {
        unique(self.pre_filters.iter().map(|plugin| plugin.name()))?;
        unique(self.filters.iter().map(Filter::name))?;
        unique(self.pre_scores.iter().map(|plugin| plugin.name()))?;
        unique(self.scores.iter().map(|score| score.plugin.name()))?;
        unique(self.estimators.iter().map(|estimator| estimator.name()))
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), EngineError> {
    let mut known = BTreeSet::new();
    for name in names {
        if !known.insert(name) {
            return Err(EngineError::DuplicatePlugin(name.to_owned()));
        }
    }
    Ok(())
}
