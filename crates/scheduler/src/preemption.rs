//! The plugin DefaultPreemption: evicts bindings of lower priority for a binding that fits nowhere.
//!
//! It finds the smallest set of assignments (a binding's replicas in one cluster) of lower priority whose
//! removal makes the binding fit. The scheduler then evicts them. The plugin is stateless: earlier preemptions
//! are read from the bindings.

mod candidates;
mod search;

use berth_api::well_known::PREEMPTIBLE;
use berth_core::{CycleState, PluginError};

use crate::binding::Binding;
use crate::framework::{Nomination, PostFilter, PostFilterContext};

/// DefaultPreemption: makes room for bindings of higher `schedulePriority`.
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

/// Reports whether the binding may be preempted.
fn is_preemptible(binding: &Binding) -> bool {
    binding.annotation(PREEMPTIBLE) != "false" && !binding.deleting()
}
