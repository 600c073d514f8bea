//! The filter plugin ClusterEviction, which rejects the clusters from which the workload is being evicted.

use crate::{BindingContext, BindingFilter, Bits, ClusterView, PluginError, Reason};

/// A filter that rejects the clusters from which the workload is being evicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterEviction;

impl ClusterEviction {
    /// The plugin's name.
    pub const NAME: &'static str = "ClusterEviction";
    const REASON: &'static str = "cluster(s) is in the process of eviction";
}

impl BindingFilter for ClusterEviction {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        if context
            .request()
            .evicting()
            .iter()
            .any(|name| name == cluster.name())
        {
            Err(Self::REASON.into())
        } else {
            Ok(())
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        for name in context.request().evicting() {
            if let Some(ordinal) = context.snapshot().ordinal(name) {
                candidates.remove(ordinal);
            }
        }
        Ok(())
    }
}
