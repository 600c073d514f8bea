//! PrioritySort: the order of the queue where nothing else is configured.

use super::points::{QueueSort, Rank};
use crate::binding::Binding;

/// PrioritySort: bindings of higher priority go first.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrioritySort;

impl PrioritySort {
    /// The plugin's name.
    pub const NAME: &'static str = "PrioritySort";
}

impl QueueSort for PrioritySort {
    fn rank(&self, binding: &Binding) -> Rank {
        Rank::of(binding.spec.priority().into())
    }
}
