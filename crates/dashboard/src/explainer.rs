//! The interface to explanations of decisions.

use std::fmt::Debug;

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

/// Explains decisions.
pub trait Explain: Debug + Send + Sync {
    /// Returns the report that `berth explain` prints for the binding, or the reason why there is none.
    fn explain(&self, binding: BindingName) -> BoxFuture<'_, Result<Report, String>>;
}
