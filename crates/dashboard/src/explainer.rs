//! The trait [`Explain`], through which the dashboard gets the explanation of a scheduling decision.

use std::fmt::Debug;

use berth_core::Fleet;
use berth_explain::Report;
use futures::future::BoxFuture;

/// The name of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingName {
    /// The namespace of a ResourceBinding, or `None` for a ClusterResourceBinding.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

/// The extent of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The decision.
    Decision,
    /// The decision, and the smallest changes that would alter the decision.
    DecisionAndChanges,
}

/// An explainer of scheduling decisions.
pub trait Explain: Debug + Send + Sync {
    /// Returns the report that `berth explain` prints for the binding, or the reason why no report is possible. The
    /// fleet must have the option [`Fleet::keeping_objects`].
    fn explain(
        &self,
        fleet: Fleet,
        binding: BindingName,
        extent: Extent,
    ) -> BoxFuture<'_, Result<Report, String>>;
}
