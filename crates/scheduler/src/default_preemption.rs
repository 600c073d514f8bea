//! The plugin DefaultPreemption, which evicts bindings of lower priority so that another binding fits.
//!
//! An assignment is the replicas of one binding in one cluster. The plugin searches for a small set of assignments of
//! lower priority whose removal makes the binding fit. The scheduler then evicts these assignments. The plugin is
//! stateless: it reads earlier preemptions from the bindings.

mod candidates;
mod search;

use berth_api::Binding;
use berth_api::well_known::PREEMPTIBLE;
use berth_engine::{CycleState, PluginError};

use crate::framework::{Nomination, PostFilter, PostFilterContext};

/// The plugin DefaultPreemption, which evicts bindings of lower `schedulePriority`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefaultPreemption;

impl DefaultPreemption {
    /// Name of the plugin.
    pub(crate) const NAME: &'static str = "DefaultPreemption";
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let candidates = candidates::of(context);
        if candidates.is_empty() {
            return Ok(None);
        }
        let victims = search::smallest(candidates, |victims| {
            context.without(victims).result.is_ok()
        });
        Ok(victims.map(|victims| Nomination { victims }))
    }
}

/// Reports whether the binding may be preempted. An annotation or the deletion of the binding prevents preemption.
fn is_preemptible(binding: &Binding) -> bool {
    binding.annotation(PREEMPTIBLE) != "false" && !binding.deleting()
}
