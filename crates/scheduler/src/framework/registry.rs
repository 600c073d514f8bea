//! The registry of available plugins and their factories.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::args::{Args, ArgsError};
use super::handle::Handle;
use super::plugin::Plugin;

/// Reason why a plugin cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactoryError {
    /// The arguments of the plugin are invalid.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// A function that creates a plugin from its arguments. The scheduler calls it once for each profile that uses the
/// plugin, and again after a configuration change.
pub type Factory = Arc<dyn Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync>;

/// An error of registering or removing a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins have the same name.
    #[error("a plugin named {0:?} is registered already")]
    Duplicate(String),
    /// No plugin has this name.
    #[error(transparent)]
    Unknown(#[from] UnknownPlugin),
}

/// The error for a name that is not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plugin is named {name:?}; known plugins: {}", known.join(", "))]
pub struct UnknownPlugin {
    /// The unknown name.
    pub name: String,
    /// The registered names.
    pub known: Vec<String>,
}

/// The profiles that use a plugin if the configuration does not name this plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enablement {
    /// Every profile, even if `--plugins` does not list the plugin, because every decision needs a plugin at this
    /// extension point. If another plugin of the same extension point is enabled, that plugin is used instead.
    Base,
    /// Every profile.
    Default,
    /// The profile of the flag `--plugins=*`. The profiles of a configuration file do not use the plugin.
    OutOfTree,
    /// No profile.
    Optional,
}

#[derive(Clone)]
struct Entry {
    factory: Factory,
    enablement: Enablement,
}

/// The available plugins, in the order of their registration.
#[derive(Clone, Default)]
pub struct Registry {
    entries: BTreeMap<Arc<str>, Entry>,
    order: Vec<Arc<str>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.order).finish()
    }
}

impl Registry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a plugin as [`Enablement::OutOfTree`].
    ///
    /// # Errors
    /// When a plugin with this name is already registered.
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        self.register_as(Enablement::OutOfTree, name, factory)
    }

    /// Registers a plugin.
    ///
    /// # Errors
    /// When a plugin with this name is already registered.
    pub fn register_as(
        &mut self,
        enablement: Enablement,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        if self.contains(name) {
            return Err(RegistryError::Duplicate(name.to_owned()));
        }
        self.put(enablement, name.into(), Arc::new(factory));
        Ok(())
    }

    /// Registers a plugin. The name must not be registered yet.
    pub(crate) fn put(&mut self, enablement: Enablement, name: Arc<str>, factory: Factory) {
        self.entries.insert(
            Arc::clone(&name),
            Entry {
                factory,
                enablement,
            },
        );
        self.order.push(name);
    }

    /// Removes a plugin.
    ///
    /// # Errors
    /// When no plugin has this name.
    pub fn unregister(&mut self, name: &str) -> Result<(), UnknownPlugin> {
        self.require(name)?;
        self.order.retain(|known| &**known != name);
        self.entries.remove(name);
        Ok(())
    }

    /// Checks that a plugin is registered.
    ///
    /// # Errors
    /// When the plugin is not registered. The error lists the registered names.
    pub fn require(&self, name: &str) -> Result<(), UnknownPlugin> {
        if self.contains(name) {
            return Ok(());
        }
        Err(UnknownPlugin {
            name: name.to_owned(),
            known: self.names().map(str::to_owned).collect(),
        })
    }

    /// Adds all plugins of another registry after the existing ones.
    ///
    /// # Errors
    /// When both registries contain the same name. No plugin is added in this case.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        if let Some(taken) = other.order.iter().find(|name| self.contains(name)) {
            return Err(RegistryError::Duplicate(taken.to_string()));
        }
        let Self { entries, order } = other;
        self.entries.extend(entries);
        self.order.extend(order);
        Ok(())
    }

    /// Reports whether a plugin is registered.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns the names of all plugins, in the order of their registration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|name| &**name)
    }

    /// Returns the names of the plugins with this enablement, in the order of their registration.
    pub fn with_enablement(&self, enablement: Enablement) -> impl Iterator<Item = &str> {
        self.names()
            .filter(move |name| self.enablement_of(name) == Some(enablement))
    }

    /// Returns the enablement of a plugin.
    pub fn enablement_of(&self, name: &str) -> Option<Enablement> {
        self.entries.get(name).map(|entry| entry.enablement)
    }

    /// Returns the factory of a plugin.
    pub fn factory(&self, name: &str) -> Option<&Factory> {
        self.entries.get(name).map(|entry| &entry.factory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(names: &[&str]) -> Registry {
        let mut registry = Registry::new();
        for name in names {
            let made = (*name).to_owned();
            registry
                .register(name, move |_, _| Ok(Plugin::new(made.as_str())))
                .unwrap();
        }
        registry
    }

    #[test]
    fn duplicate_names_are_refused() {
        let mut one = registry(&["B", "A"]);
        let error = one.register("A", |_, _| Ok(Plugin::new("A"))).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("A".into()));
        let error = one.merge(registry(&["C", "B"])).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("B".into()));
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "A"]);
    }

    #[test]
    fn merged_plugins_come_last() {
        let mut one = registry(&["B", "A"]);
        one.merge(registry(&["D", "C"])).unwrap();
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "A", "D", "C"]);
        one.unregister("A").unwrap();
        let error = one.unregister("A").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no plugin is named \"A\"; known plugins: B, D, C"
        );
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "D", "C"]);
        one.register("A", |_, _| Ok(Plugin::new("A"))).unwrap();
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "D", "C", "A"]);
    }
}
