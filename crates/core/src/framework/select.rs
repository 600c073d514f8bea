//! Select: which of the candidates are used.

use std::fmt::Debug;

use super::context::BindingContext;
use super::error::PluginError;
use crate::candidate::Candidate;

/// Selects clusters among the candidates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no Select point",
    note = "implement `name` and `select`"
)]
pub trait Select: Debug + Send + Sync {
    /// The plugin's name.
    fn name(&self) -> &str;

    /// Whether the selection depends on what clusters can take. Where neither this nor the assignment does,
    /// nothing is estimated.
    fn needs_estimates(&self, context: &BindingContext<'_>) -> bool {
        let _ = context;
        true
    }

    /// Selects among the candidates, which come by name.
    ///
    /// # Errors
    /// When the workload cannot be placed on them.
    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError>;
}

/// The clusters that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The clusters.
    pub clusters: Vec<Candidate>,
    /// The order that they come in.
    pub order: Order,
}

/// The order that selected clusters come in. Of clusters that can take the same, the first is filled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By name, because nothing was selected among the candidates: the order of preference is meant, and
    /// found where it is needed.
    ByName,
    /// As selection left them.
    AsSelected,
}
