//! PreFilter and Filter: which clusters can take the workload at all.
//!
//! A filter answers for one cluster, and may answer for the whole fleet at once. What depends on the
//! placement alone is computed once for a placement and a fleet; clusters come and go much less often
//! than bindings.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use super::context::{BindingContext, CycleContext, PlacementContext};
use super::cycle_state::CycleState;
use super::error::PluginError;
use crate::bits::Bits;
use crate::fleet::ClusterView;

/// Why a cluster does not pass, as users read it.
pub type Reason = Cow<'static, str>;

/// Works out what its Filter, or a later point, needs for this binding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no PreFilter point",
    note = "implement `name` and `pre_filter`"
)]
pub trait PreFilter: Debug + Send + Sync {
    /// The plugin's name. Its Filter has the same one.
    fn name(&self) -> &str;

    /// Works out what is needed and keeps it in `state`.
    ///
    /// # Errors
    /// When nothing can be decided.
    fn pre_filter(
        &self,
        context: &CycleContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError>;
}

/// Which clusters are worth a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreFilterResult {
    /// All of them.
    All,
    /// These alone.
    Only(Bits),
    /// All of them, and the Filter of this plugin is not asked in this cycle.
    Skip,
}

/// Keeps clusters out.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Depends on the placement and the fleet alone.
    Placement(Arc<dyn PlacementFilter>),
    /// Depends on the binding too.
    Binding(Arc<dyn BindingFilter>),
}

impl Filter {
    /// The plugin's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Placement(filter) => filter.name(),
            Self::Binding(filter) => filter.name(),
        }
    }

    /// Why the cluster does not pass, if it does not.
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

/// A filter whose answer depends on the placement and the fleet alone. It is remembered with the placement
/// until the fleet changes in something but free capacity, so it must not depend on anything else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter over placements",
    note = "implement `name` and `check`; `mask` is worth it for answers that set operations can give"
)]
pub trait PlacementFilter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// Whether clusters that hold the workload already pass in any case.
    fn spares_prior(&self) -> bool {
        false
    }

    /// Why the cluster does not pass, if it does not.
    ///
    /// # Errors
    /// The reason, as users read it.
    fn check(
        &self,
        context: &PlacementContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason>;

    /// The clusters that pass; None means all.
    fn mask(&self, context: &PlacementContext<'_>) -> Option<Bits> {
        let snapshot = context.snapshot();
        Some(Bits::from_fn(snapshot.len(), |ordinal| {
            snapshot
                .cluster(ordinal)
                .is_some_and(|cluster| self.check(context, &cluster).is_ok())
        }))
    }
}

/// A filter whose answer depends on the binding, or on what was handed on in this cycle. It is asked anew
/// in each cycle, about the clusters that the filters before it let pass.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter over bindings",
    note = "implement `name` and `check`; `restrict` is worth it for answers that set operations can give"
)]
pub trait BindingFilter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// Why the cluster does not pass, if it does not. It is asked for the reasons of clusters that
    /// [`Self::restrict`] has taken out, too.
    ///
    /// # Errors
    /// The reason, as users read it.
    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason>;

    /// Takes the clusters that do not pass out of the candidates. `prior` holds the clusters that hold the
    /// workload already.
    ///
    /// # Errors
    /// When nothing can be decided.
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
