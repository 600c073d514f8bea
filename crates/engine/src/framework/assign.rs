//! The interface of the plugin for the Assign point, which decides the number of replicas in each selected cluster.

use std::fmt::Debug;

use super::assignment_explanation::DivisionStep;
use super::context::{BindingContext, Share};
use super::error::PluginError;
use super::select::Selection;
use crate::cluster_set::Bits;
use crate::request::ReplicaBounds;

/// A plugin that assigns replicas to the selected clusters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Assign point",
    note = "implement `name` and `assign`"
)]
pub trait Assign: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether the assignment depends on the capacity of clusters. If neither the selection nor the assignment
    /// depends on capacity, the engine calls estimators only to explain a decision.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Returns the share of each cluster: the number of replicas that the cluster gets. A cluster has at most one
    /// share, and the shares may be in any order. A cluster without a share gets no replicas. If the resource has no
    /// replicas, each cluster of the result has a share of 0.
    ///
    /// # Errors
    /// Returns an error if the replicas cannot be assigned to the selected clusters.
    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError>;

    /// Explains the assignment step by step. The engine calls this method only when it explains a decision, before it
    /// calls [`Self::assign`].
    fn explain(&self, context: &AssignContext<'_>, selected: &Selection) -> Vec<DivisionStep> {
        let _ = (context, selected);
        Vec::new()
    }
}

/// The input of an assignment, except for the selected clusters.
#[derive(Clone, Copy, Debug)]
pub struct AssignContext<'a> {
    binding: BindingContext<'a>,
    static_weights: &'a [(Bits, i64)],
    closed: Option<&'a Bits>,
    bounds: &'a [ReplicaBounds],
}

impl<'a> AssignContext<'a> {
    pub(crate) fn new(
        binding: BindingContext<'a>,
        static_weights: &'a [(Bits, i64)],
        closed: Option<&'a Bits>,
        bounds: &'a [ReplicaBounds],
    ) -> Self {
        Self {
            binding,
            static_weights,
            closed,
            bounds,
        }
    }

    /// Returns the context of the attempt.
    pub fn binding(&self) -> BindingContext<'a> {
        self.binding
    }

    /// Returns the static weight rules of the placement. Each entry contains the clusters that a rule matches, and the
    /// weight of the rule.
    pub fn static_weights(&self) -> &'a [(Bits, i64)] {
        self.static_weights
    }

    /// Reports whether a cluster may get more replicas than it has. With the feature gate NoScaleUpOnTaints, a cluster
    /// with a taint that the placement does not tolerate only keeps its replicas.
    pub fn may_grow(&self, cluster: usize) -> bool {
        self.closed.is_none_or(|closed| !closed.contains(cluster))
    }

    /// Returns the limits on the replicas of a cluster, or `None` if the binding has no limits.
    pub fn bounds(&self, cluster: usize) -> Option<&'a ReplicaBounds> {
        let bounds = self.bounds;
        let found = bounds.binary_search_by_key(&cluster, |bounds| bounds.ordinal);
        found.ok().and_then(|index| bounds.get(index))
    }

    /// Returns the minimum number of replicas in a cluster, or 0.
    pub fn minimum(&self, cluster: usize) -> i64 {
        self.bounds(cluster).map_or(0, |bounds| bounds.min)
    }

    /// Returns the maximum number of replicas in a cluster, if it is limited.
    pub fn maximum(&self, cluster: usize) -> Option<i64> {
        self.bounds(cluster)?.max
    }
}
