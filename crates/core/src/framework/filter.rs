//! The PreFilter and Filter points: the clusters that can run the workload.
//!
//! A filter checks single clusters and may also evaluate the whole fleet at once. Results that depend only on
//! the placement are cached, because clusters change less often than bindings.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::context::{BindingContext, CycleContext, PlacementContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::bits::Bits;
use crate::fleet::ClusterView;

/// The human-readable reason why a cluster does not pass.
pub type Reason = Cow<'static, str>;

/// Prepares data for its Filter or a later point.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreFilter point",
    note = "implement `name` and `pre_filter`"
)]
pub trait PreFilter: Debug + Send + Sync {
    /// Returns the plugin name, which its Filter shares.
    fn name(&self) -> &str;

    /// Prepares data and stores it in `state`.
    ///
    /// # Errors
    /// When the cycle cannot go on.
    fn pre_filter(
        &self,
        context: &CycleContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError>;
}

/// The clusters to consider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterResult {
    /// All clusters.
    All,
    /// These clusters only.
    Only(Bits),
    /// All clusters; the Filter of this plugin is skipped in this cycle.
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

    /// Returns the reason why the cluster does not pass.
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
            Self::Placement(filter) => filter.check(&context.cycle().placement(), cluster),
            Self::Binding(filter) => filter.check(context, cluster),
        }
    }
}

/// A filter that depends only on the placement and the fleet.
///
/// Its result is cached until the fleet changes in anything but free capacity, so it must not depend on
/// anything else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter over placements",
    note = "implement `name` and `check`; `mask` is worth it for answers that set operations can give"
)]
pub trait PlacementFilter: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether clusters that already hold the workload always pass.
    fn spares_prior(&self) -> bool {
        false
    }

    /// Checks whether the cluster passes.
    ///
    /// # Errors
    /// The human-readable reason why it does not.
    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason>;

    /// Returns the clusters that pass; `None` means all.
    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        let snapshot = context.snapshot();
        Some(Bits::from_fn(snapshot.len(), |ordinal| {
            snapshot
                .cluster(ordinal)
                .is_some_and(|cluster| self.check(context, &cluster).is_ok())
        }))
    }
}

/// A filter that depends on the binding or the state of the cycle. It runs in each cycle on the clusters that
/// passed the previous filters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter over bindings",
    note = "implement `name` and `check`; `restrict` is worth it for answers that set operations can give"
)]
pub trait BindingFilter: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Checks whether the cluster passes. Also called for clusters that [`Self::restrict`] removed, to get the
    /// reason.
    ///
    /// # Errors
    /// The human-readable reason why it does not.
    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason>;

    /// Removes the clusters that do not pass from the candidates. `prior` contains the clusters that already
    /// hold the workload.
    ///
    /// # Errors
    /// When the cycle cannot go on.
    fn restrict(
        &self,
        context: &BindingContext<'_>,
        prior: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        let _ = prior;
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
            candidates.set(ordinal, false);
        }
        Ok(())
    }
}
