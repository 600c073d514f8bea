//! The plugin PrioritySort, which is the default queue order.

use super::points::{QueueSort, Rank};
use crate::binding::Binding;

/// The plugin PrioritySort, which orders bindings by the priority in their spec.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrioritySort;

impl PrioritySort {
    /// Name of the plugin.
    pub const NAME: &'static str = "PrioritySort";
}

impl QueueSort for PrioritySort {
    fn rank(&self, binding: &Binding) -> Rank {
        Rank::of(binding.spec.priority().into())
    }
}
