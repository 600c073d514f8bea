//! The trait with which a plugin observes all bindings, for example to index them.

use std::fmt::Debug;

use crate::binding::{Binding, BindingKey};

/// Observes all bindings that the scheduler knows. The scheduler calls the methods on its own task.
#[diagnostic::on_unimplemented(message = "`{Self}` does not observe bindings")]
pub trait Follow: Debug + Send + Sync {
    /// Handles a binding that was added or changed, before the binding is scheduled. At start, the scheduler calls this
    /// method for all existing bindings.
    fn present(&self, binding: &Binding);

    /// Applies the updates that the plugin collected on other tasks. Returns the affected bindings, which the scheduler
    /// requeues before the next decision. The scheduler calls this method after
    /// [`Permits::look_again`](super::Permits::look_again).
    fn refresh(&self) -> Vec<BindingKey> {
        Vec::new()
    }

    /// Handles the deletion of a binding.
    fn gone(&self, key: &BindingKey);
}
