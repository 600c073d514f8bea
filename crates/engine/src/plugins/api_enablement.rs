//! The filter plugin APIEnablement, which requires that a cluster serves the kind of the resource.

use berth_api::feature_gates::EngineGates;

use crate::{BindingContext, BindingFilter, Bits, ClusterView, PluginError, Reason};

/// A filter that rejects clusters that do not serve the kind of the resource. A cluster that already has the workload
/// passes. With the feature gate FollowMemberAPIs, it passes only while its reported APIs are incomplete.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiEnablement {
    follows_members: bool,
}

impl ApiEnablement {
    /// The plugin's name.
    pub const NAME: &'static str = "APIEnablement";
    const REASON: &'static str = "cluster(s) did not have the API resource";

    /// Creates the plugin. Its behaviour depends on the feature gate FollowMemberAPIs.
    pub fn new(gates: EngineGates) -> Self {
        Self {
            follows_members: gates.follow_member_apis,
        }
    }
}

impl BindingFilter for ApiEnablement {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn check(&self, context: &BindingContext<'_>, cluster: &ClusterView<'_>) -> Result<(), Reason> {
        let (api_version, kind) = context.request().resource();
        let lost = || {
            let complete = context.snapshot().with_complete_apis();
            self.follows_members && complete.contains(cluster.ordinal())
        };
        if cluster.serves(api_version, kind) || (context.request().holds(cluster.name()) && !lost())
        {
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
        let serving = context.snapshot().serving(api_version, kind);
        if self.follows_members && !current.is_empty() {
            let mut kept = current.clone();
            kept.subtract(context.snapshot().with_complete_apis());
            restrict(candidates, serving, &kept);
        } else {
            restrict(candidates, serving, current);
        }
        Ok(())
    }
}

/// Keeps the candidates that serve the kind or that pass in any case.
fn restrict(candidates: &mut Bits, serving: Option<&Bits>, kept: &Bits) {
    match serving {
        Some(serving) => candidates.intersect_either(serving, kept),
        None => candidates.intersect(kept),
    }
}
