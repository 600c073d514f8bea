//! The plugins of an engine: those of this crate, and those brought along.

use crate::estimate::{Estimator, GeneralEstimator};
use crate::filter::{
    ApiEnablement, ClusterAffinity, ClusterEviction, Filter, SpreadConstraint, TaintToleration,
    WorkloadAffinity, WorkloadAntiAffinity,
};
use crate::options::{Gates, PluginSet};
use crate::score::{ClusterLocality, Score};

/// Why an engine cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Two plugins have the same name.
    #[error("a plugin named {0:?} exists already")]
    DuplicatePlugin(String),
}

/// Plugins that are not part of this crate.
#[derive(Debug, Default)]
pub struct Plugins {
    /// Keep clusters out.
    pub filters: Vec<Filter>,
    /// Prefer clusters.
    pub scores: Vec<Box<dyn Score>>,
    /// Lower the estimates of the general estimator.
    pub estimators: Vec<Box<dyn Estimator>>,
}

impl Plugins {
    /// These plugins after the in-tree ones, without those that are not in use. Estimators are always in use.
    pub(crate) fn with_in_tree(
        self,
        gates: Gates,
        in_use: &PluginSet,
    ) -> Result<Self, EngineError> {
        let mut filters = in_tree_filters(gates);
        for filter in self.filters {
            if filters.iter().any(|known| known.name() == filter.name()) {
                return Err(EngineError::DuplicatePlugin(filter.name().to_owned()));
            }
            filters.push(filter);
        }
        let mut scores: Vec<Box<dyn Score>> = vec![Box::new(ClusterLocality)];
        for score in self.scores {
            if scores.iter().any(|known| known.name() == score.name()) {
                return Err(EngineError::DuplicatePlugin(score.name().to_owned()));
            }
            scores.push(score);
        }
        filters.retain(|filter| in_use.contains(filter.name()));
        scores.retain(|score| in_use.contains(score.name()));
        let general = GeneralEstimator::new(gates.customized_cluster_resource_modeling);
        let mut estimators: Vec<Box<dyn Estimator>> = vec![Box::new(general)];
        estimators.extend(self.estimators);
        Ok(Self {
            filters,
            scores,
            estimators,
        })
    }
}

fn in_tree_filters(gates: Gates) -> Vec<Filter> {
    let mut filters = vec![
        Filter::Binding(Box::new(ApiEnablement)),
        Filter::Placement(Box::new(TaintToleration)),
        Filter::Placement(Box::new(ClusterAffinity)),
        Filter::Placement(Box::new(SpreadConstraint)),
        Filter::Binding(Box::new(ClusterEviction)),
    ];
    if gates.workload_affinity {
        filters.push(Filter::Binding(Box::new(WorkloadAffinity)));
        filters.push(Filter::Binding(Box::new(WorkloadAntiAffinity)));
    }
    filters
}
