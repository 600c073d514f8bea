//! The first stage: which clusters can take the workload at all.
//!
//! A filter answers for one cluster, and may answer for the whole fleet at once. What depends on the
//! placement alone is computed once for a placement and a fleet; clusters come and go much less often
//! than bindings.

mod api_enablement;
mod cluster_affinity;
mod cluster_eviction;
mod spread_constraint;
mod taint_toleration;
mod workload_affinity;

use std::borrow::Cow;
use std::fmt::Debug;

use crate::bits::Bits;
use crate::fleet::{ClusterView, Snapshot};
use crate::request::{CompiledPlacement, Request};

pub use api_enablement::ApiEnablement;
pub use cluster_affinity::ClusterAffinity;
pub use cluster_eviction::ClusterEviction;
pub use spread_constraint::SpreadConstraint;
pub use taint_toleration::TaintToleration;
pub use workload_affinity::{WorkloadAffinity, WorkloadAntiAffinity};

/// Why a cluster does not pass, as users read it.
pub type Reason = Cow<'static, str>;

/// What a filter that depends on the placement alone may look at.
#[derive(Clone, Copy, Debug)]
pub struct PlacementContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) placement: &'a CompiledPlacement,
    /// The term of `clusterAffinities` in turn.
    pub(crate) term: Option<usize>,
    pub(crate) is_workload: bool,
}

impl<'a> PlacementContext<'a> {
    /// The fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }
}

/// What a filter that depends on the binding may look at.
#[derive(Clone, Copy, Debug)]
pub struct BindingContext<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) request: &'a Request,
}

impl<'a> BindingContext<'a> {
    /// The fleet.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The binding.
    pub fn request(&self) -> &'a Request {
        self.request
    }
}

/// Keeps clusters out.
#[derive(Debug)]
pub enum Filter {
    /// Depends on the placement and the fleet alone.
    Placement(Box<dyn PlacementFilter>),
    /// Depends on the binding too.
    Binding(Box<dyn BindingFilter>),
}

/// A filter whose answer depends on the placement and the fleet alone. It is remembered with the placement.
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
        let snapshot = context.snapshot;
        Some(Bits::from_fn(snapshot.len(), |ordinal| {
            snapshot
                .cluster(ordinal)
                .is_some_and(|cluster| self.check(context, &cluster).is_ok())
        }))
    }
}

/// A filter whose answer depends on the binding.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no filter over bindings",
    note = "implement `name` and `check`; `restrict` is worth it for answers that set operations can give"
)]
pub trait BindingFilter: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// Why the cluster does not pass, if it does not.
    ///
    /// # Errors
    /// The reason, as users read it.
    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason>;

    /// Takes the clusters that do not pass out of the candidates. `prior` holds the clusters that hold the
    /// workload already.
    fn restrict(&self, context: &BindingContext<'_>, prior: &Bits, candidates: &mut Bits) {
        let _ = prior;
        let snapshot = context.snapshot;
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
    }
}

/// Whether the binding is in the cluster already.
pub(crate) fn holds(request: &Request, cluster: &ClusterView<'_>) -> bool {
    request.prior.iter().any(|(name, _)| name == cluster.name())
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
        placement: &PlacementContext<'_>,
        binding: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        match self {
            Self::Placement(filter) if filter.spares_prior() && holds(binding.request, cluster) => {
                Ok(())
            }
            Self::Placement(filter) => filter.check(placement, cluster),
            Self::Binding(filter) => filter.check(binding, cluster),
        }
    }
}
