//! Plugins that keep an index of bindings are told of every one.

use std::fmt::Debug;

use crate::binding::{Binding, BindingKey};

/// Follows the bindings that the scheduler knows. Runs on the owner's task.
#[diagnostic::on_unimplemented(message = "`{Self}` does not follow bindings")]
pub trait Follow: Debug + Send + Sync {
    /// A binding is there, in this state; told again at each change, before the binding is decided about, and
    /// of all that are there when the plugin begins.
    fn present(&self, binding: &Binding);

    /// The plugin has asked to look again: it takes over what it has learned on other tasks. Returns the
    /// bindings that this concerns, all of which are looked at before anything else is decided.
    fn refresh(&self) -> Vec<BindingKey> {
        Vec::new()
    }

    /// A binding is gone.
    fn gone(&self, key: &BindingKey);
}
