//! [`Plugins`]: the plugins that a caller passes to create an engine, in one list for each extension point that allows
//! several plugins.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assign::Assign;
use super::filter::{Filter, PreFilter};
use super::score::{PreScore, Score};
use super::select::Select;
use crate::estimate::Estimator;
use crate::options::PluginSet;

/// The reason why an engine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Two plugins in the list of one extension point have the same name.
    #[error("a plugin named {0:?} exists already")]
    DuplicatePlugin(String),
}

/// A plugin and the weight of its scores.
#[derive(Clone, Debug)]
pub struct Weighted<P> {
    /// The plugin.
    pub plugin: P,
    /// The factor by which the engine multiplies the scores of the plugin. With 0, the scores have no effect.
    pub weight: u32,
}

/// The plugins of an engine, in call order. The engine calls no other plugins. [`Plugins::in_tree`] returns the plugins
/// of this crate.
#[derive(Clone, Debug)]
pub struct Plugins {
    /// The plugins that prepare data for filters.
    pub pre_filters: Vec<Arc<dyn PreFilter>>,
    /// The plugins that reject clusters.
    pub filters: Vec<Filter>,
    /// The plugins that prepare data for scores.
    pub pre_scores: Vec<Arc<dyn PreScore>>,
    /// The plugins that rank clusters.
    pub scores: Vec<Weighted<Arc<dyn Score>>>,
    /// The plugins that estimate capacity. The engine uses the lowest estimate.
    pub estimators: Vec<Arc<dyn Estimator>>,
    /// The plugin that selects clusters.
    pub select: Arc<dyn Select>,
    /// The plugin that assigns replicas.
    pub assign: Arc<dyn Assign>,
}

impl Plugins {
    /// Removes disabled plugins. Estimators and the plugins for Select and Assign cannot be disabled.
    pub fn retain(&mut self, enabled: &PluginSet) {
        self.pre_filters
            .retain(|plugin| enabled.contains(plugin.name()));
        self.filters
            .retain(|plugin| enabled.contains(plugin.name()));
        self.pre_scores
            .retain(|plugin| enabled.contains(plugin.name()));
        self.scores
            .retain(|score| enabled.contains(score.plugin.name()));
    }

    /// Returns an error if two plugins in the list of one extension point have the same name.
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
