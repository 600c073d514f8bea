//! DefaultPreemption: a binding that fits nowhere takes the room of bindings that matter less.
//!
//! It finds the smallest set of assignments (a binding's replicas in one cluster) of lower priority whose
//! removal makes the binding fit. What happens to them then is the owner's business. It keeps no state: what
//! was preempted before is read from the bindings.

mod candidates;
mod search;

use berth_api::well_known::PREEMPTIBLE;
use berth_core::{CycleState, PluginError};

use crate::binding::Binding;
use crate::framework::{Nomination, PostFilter, PostFilterContext};

/// The reason of the eviction tasks of what is preempted.
pub const REASON: &str = "Preempted";

/// DefaultPreemption: makes room for bindings of higher `schedulePriority`.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultPreemption;

impl DefaultPreemption {
    /// The plugin's name.
    pub const NAME: &'static str = "DefaultPreemption";
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

/// Whether the binding may be preempted at all.
fn is_preemptible(binding: &Binding) -> bool {
    binding.annotation(PREEMPTIBLE) != "false" && !binding.deleting()
}
