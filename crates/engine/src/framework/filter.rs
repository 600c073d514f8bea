//! The interfaces of plugins for the PreFilter and Filter points, which determine the clusters that can run the
//! workload.
//!
//! A filter checks single clusters. It may also evaluate the whole fleet at once. The engine caches the results of
//! filters that depend only on the placement and the fleet, because many decisions can share these results.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::context::{AttemptContext, BindingContext, PlacementContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::cluster_set::Bits;
use crate::fleet::ClusterView;

/// The human-readable reason why a cluster does not pass a filter.
pub type Reason = Cow<'static, str>;

/// A plugin that prepares data for the Filter with the same name, or for a later point.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreFilter point",
    note = "implement `name` and `pre_filter`"
)]
pub trait PreFilter: Debug + Send + Sync {
    /// Returns the plugin name. If the plugin also has a Filter, the Filter has the same name.
    fn name(&self) -> &str;

    /// Prepares data and stores it in `state`.
    ///
    /// # Errors
    /// Returns an error if the plugin must abort the attempt.
    fn pre_filter(
        &self,
        context: &AttemptContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError>;
}

/// The result of a PreFilter plugin: the clusters that this attempt considers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterResult {
    /// All clusters.
    All,
    /// Only these clusters.
    Only(Bits),
    /// All clusters. The engine skips the Filter with the same name in this attempt.
    Skip,
}

/// A filter plugin.
#[derive(Clone, Debug)]
pub enum Filter {
    /// A filter that depends only on the placement and the fleet.
    Placement(Arc<dyn PlacementFilter>),
    /// A filter that also depends on the binding.
    Binding(Arc<dyn BindingFilter>),
}

impl Filter {
    /// Returns the plugin name.
    pub fn name(&self) -> &str {
        match self {
            Self::Placement(filter) => filter.name(),
            Self::Binding(filter) => filter.name(),
        }
    }

    /// Returns the reason as an error if the cluster does not pass.
    pub(crate) fn check(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        match self {
            Self::Placement(filter)
                if filter.spares_prior() && context.request().holds(cluster.name()) =>
            {
                Ok(())
            }
            Self::Placement(filter) => filter.check(&context.attempt().placement(), cluster),
            Self::Binding(filter) => filter.check(context, cluster),
        }
    }
}

/// A filter that depends only on the placement and the fleet.
///
/// The engine caches the result until the labels, the provider, the region, the zones, the repelling taints, the API
/// resources or the deletion timestamp of a cluster change. The filter must therefore read no other data of clusters,
/// such as free capacity or annotations.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a placement filter",
    note = "implement `name` and `check`; implement `mask` too if set operations can compute the result"
)]
pub trait PlacementFilter: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether clusters that already have the workload always pass this filter.
    fn spares_prior(&self) -> bool {
        false
    }

    /// Checks whether the cluster passes.
    ///
    /// # Errors
    /// Returns the human-readable reason if the cluster does not pass.
    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason>;

    /// Returns the clusters that pass. `None` means that all clusters pass.
    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        let snapshot = context.snapshot();
        Some(Bits::from_fn(snapshot.len(), |ordinal| {
            snapshot
                .cluster(ordinal)
                .is_some_and(|cluster| self.check(context, &cluster).is_ok())
        }))
    }
}

/// A filter that depends on the binding or on the state of the attempt. The engine runs it in each attempt, on the clusters
/// that passed the previous filters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a binding filter",
    note = "implement `name` and `check`; implement `restrict` too if set operations can compute the result"
)]
pub trait BindingFilter: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Checks whether the cluster passes. To get the reason, the engine also calls this method for clusters that
    /// [`Self::restrict`] removed.
    ///
    /// # Errors
    /// Returns the human-readable reason if the cluster does not pass.
    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason>;

    /// Describes the inputs of the plugin about a cluster that are not in its Cluster object, one line for each input. The
    /// engine calls this method only for explanations.
    fn inputs(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Vec<String> {
        let _ = (context, cluster);
        Vec::new()
    }

    /// Removes from `candidates` the clusters that do not pass. `current` contains the clusters that already have the
    /// workload.
    ///
    /// # Errors
    /// Returns an error if the plugin must abort the attempt.
    fn restrict(
        &self,
        context: &BindingContext<'_>,
        current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        let _ = current;
        let snapshot = context.snapshot();
        let refused: Vec<usize> = candidates
            .iter()
            .filter(|&ordinal| {
                snapshot
                    .cluster(ordinal)
                    .is_some_and(|cluster| self.check(context, &cluster).is_err())
            })
            .collect();
        for ordinal in refused {
            candidates.remove(ordinal);
        }
        Ok(())
    }
}
