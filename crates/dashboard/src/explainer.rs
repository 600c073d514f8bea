//! The interface to explanations of decisions.

use std::fmt::Debug;

use berth_core::Fleet;
use berth_explain::Report;
use futures::future::BoxFuture;

/// The name of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingName {
    /// The namespace of a ResourceBinding; none for a ClusterResourceBinding.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// The extent of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The decision only.
    None,
    /// The decision, and the smallest changes that would alter it.
    Changes,
}

/// Explains decisions.
pub trait Explain: Debug + Send + Sync {
    /// Returns the report that `berth explain` prints for the binding, or the reason why there is none. The fleet keeps
    /// its objects.
    fn explain(
        &self,
        fleet: Fleet,
        binding: BindingName,
        search: Search,
    ) -> BoxFuture<'_, Result<Report, String>>;
}
