//! Assign: how many replicas each selected cluster gets.

use std::fmt::Debug;

use super::context::BindingContext;
use super::error::PluginError;
use super::select::Selection;
use crate::bits::Bits;

/// Deals the replicas to the selected clusters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Assign point",
    note = "implement `name` and `assign`"
)]
pub trait Assign: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// Whether the assignment depends on what clusters can take. Where neither this nor the selection does,
    /// nothing is estimated.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Deals the replicas: at most one share for each cluster. Clusters that get none are left out, unless
    /// the workload has no replicas: then each cluster that is used has a share of 0. The clusters may be
    /// put in another order.
    ///
    /// # Errors
    /// When the clusters cannot take the replicas.
    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError>;
}

/// The replicas that a cluster gets, or holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The cluster's place in the snapshot, which is its rank by name.
    pub ordinal: usize,
    /// Its replicas.
    pub replicas: i64,
}

/// What assignment may look at besides the selected clusters.
#[derive(Clone, Copy, Debug)]
pub struct AssignContext<'a> {
    binding: BindingContext<'a>,
    static_weights: &'a [(Bits, i64)],
}

impl<'a> AssignContext<'a> {
    pub(crate) fn new(binding: BindingContext<'a>, static_weights: &'a [(Bits, i64)]) -> Self {
        Self {
            binding,
            static_weights,
        }
    }

    /// What there was to look at before.
    pub fn binding(&self) -> BindingContext<'a> {
        self.binding
    }

    /// The clusters that each rule of static weights matches, with the weight.
    pub fn static_weights(&self) -> &'a [(Bits, i64)] {
        self.static_weights
    }
}
