//! The interface of the plugin for the Select point, which selects clusters among the candidates.

use std::fmt::Debug;

use super::context::BindingContext;
use super::error::PluginError;
use super::selection_explanation::SelectionExplanation;
use crate::candidate::Candidate;

/// A plugin that selects clusters among the candidates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Select point",
    note = "implement `name` and `select`"
)]
pub trait Select: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether the selection depends on the capacity of clusters. If neither the selection nor the assignment
    /// depends on capacity, the engine calls estimators only to explain a decision.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Selects clusters among the candidates, which are sorted by name.
    ///
    /// # Errors
    /// Returns an error if the workload cannot be placed on the candidates.
    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError>;

    /// Explains the selection among the candidates. Returns `None` if there is no choice between candidates. The engine
    /// calls this method only when it explains a decision, before it calls [`Self::select`].
    fn explain(
        &self,
        context: &BindingContext<'_>,
        candidates: &[Candidate],
    ) -> Option<SelectionExplanation> {
        let _ = (context, candidates);
        None
    }
}

/// The selected clusters and their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The selected clusters.
    pub clusters: Vec<Candidate>,
    /// The order of the clusters.
    pub order: Order,
}

/// The order of the selected clusters. If an aggregated assignment must choose between clusters of equal weight, this
/// order decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of names, because all candidates are selected. Before such a choice, the assignment sorts the clusters
    /// by [`Candidate::preference`].
    ByName,
    /// The order in which the plugin returned the clusters.
    AsSelected,
}
