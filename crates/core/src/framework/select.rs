//! The Select point, which chooses among the candidates.

use std::fmt::Debug;

use super::choice::SelectionExplanation;
use super::context::BindingContext;
use super::error::PluginError;
use crate::candidate::Candidate;

/// Selects clusters among the candidates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Select point",
    note = "implement `name` and `select`"
)]
pub trait Select: Debug + Send + Sync {
    /// Returns the plugin name.
    fn name(&self) -> &str;

    /// Reports whether the selection depends on capacity. Nothing is estimated if neither selection nor
    /// assignment need it.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Selects among the candidates, which are sorted by name.
    ///
    /// # Errors
    /// When the workload cannot be placed on them.
    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError>;

    /// Explains the selection among the candidates, or returns `None` if there is nothing to choose. Called only for
    /// explanations, before [`Self::select`].
    fn explain(
        &self,
        context: &BindingContext<'_>,
        candidates: &[Candidate],
    ) -> Option<SelectionExplanation> {
        let _ = (context, candidates);
        None
    }
}

/// The selected clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The clusters.
    pub clusters: Vec<Candidate>,
    /// The order of the clusters.
    pub order: Order,
}

/// The order of selected clusters. Assignment prefers the earlier of two equal clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The order of names. It is used when all candidates are selected.
    ByName,
    /// The order in which the plugin returned the clusters.
    AsSelected,
}
