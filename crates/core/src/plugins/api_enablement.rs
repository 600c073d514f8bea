//! The filter plugin APIEnablement, which requires that a cluster serves the kind of the resource.

use crate::{BindingContext, BindingFilter, Bits, ClusterView, PluginError, Reason};

/// A filter that rejects clusters that do not serve the kind of the resource. A cluster that already has the workload
/// passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiEnablement;

impl ApiEnablement {
    /// The plugin's name.
    pub const NAME: &'static str = "APIEnablement";
    const REASON: &'static str = "cluster(s) did not have the API resource";
}

impl BindingFilter for ApiEnablement {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let (api_version, kind) = context.request().resource();
        if cluster.serves(api_version, kind) || context.request().holds(cluster.name()) {
            Ok(())
        } else {
            Err(Self::REASON.into())
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        let (api_version, kind) = context.request().resource();
        match context.snapshot().serving(api_version, kind) {
            Some(serving) => candidates.intersect_either(serving, current),
            None => candidates.intersect(current),
        }
        Ok(())
    }
}
