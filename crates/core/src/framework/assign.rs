//! The Assign point, which decides the number of replicas in each selected cluster.

use std::fmt::Debug;

use super::context::{BindingContext, Share};
use super::division::DivisionStep;
use super::error::PluginError;
use super::select::Selection;
use crate::bits::Bits;

/// Assigns replicas to the selected clusters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Assign point",
    note = "implement `name` and `assign`"
)]
pub trait Assign: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether the assignment depends on capacity. Nothing is estimated if neither selection nor
    /// assignment need it.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Assigns the replicas, with at most one share for each cluster, in any order. Clusters without replicas
    /// are left out. A resource without replicas has a share of 0 in each cluster.
    ///
    /// # Errors
    /// When the clusters cannot take the replicas.
    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError>;

    /// Explains the assignment step by step. Called only for explanations, before [`Self::assign`].
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
}

impl<'a> AssignContext<'a> {
    pub(crate) fn new(binding: BindingContext<'a>, static_weights: &'a [(Bits, i64)]) -> Self {
        Self {
            binding,
            static_weights,
        }
    }

    /// Returns the context of the cycle.
    pub fn binding(&self) -> BindingContext<'a> {
        self.binding
    }

    /// Returns the clusters that each static weight rule matches, with the weight.
    pub fn static_weights(&self) -> &'a [(Bits, i64)] {
        self.static_weights
    }
}
