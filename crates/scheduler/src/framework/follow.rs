//! Observer of all bindings, for plugins that index them.

use std::fmt::Debug;

use crate::binding::{Binding, BindingKey};

/// Observes all bindings that the scheduler knows. Runs on the scheduler's task.
#[diagnostic::on_unimplemented(message = "`{Self}` does not follow bindings")]
pub trait Follow: Debug + Send + Sync {
    /// Handles a binding that was added or changed, before the binding is scheduled. At start, it is called for
    /// all existing bindings.
    fn present(&self, binding: &Binding);

    /// Applies what the plugin learned on other tasks, after
    /// [`Permits::look_again`](super::Permits::look_again). Returns the affected bindings; they are requeued
    /// before the next decision.
    fn refresh(&self) -> Vec<BindingKey> {
        Vec::new()
    }

    /// Handles the deletion of a binding.
    fn gone(&self, key: &BindingKey);
}
