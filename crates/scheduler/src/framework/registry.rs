//! The registry: which plugins there are, and how they are made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::args::{Args, ArgsError};
use super::handle::Handle;
use super::plugin::Plugin;

/// Why a plugin cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactoryError {
    /// Its arguments are wrong.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// Something else, in the plugin's words.
    #[error("{0}")]
    Other(String),
}

/// Makes a plugin of its arguments. It is called once for each profile that uses the plugin, and again
/// after the configuration has changed.
pub type Factory = Arc<dyn Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync>;

/// A plugin that cannot be registered or taken out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Two plugins have the same name.
    #[error("a plugin named {0:?} is registered already")]
    Duplicate(String),
    /// No plugin has the name.
    #[error(transparent)]
    Unknown(#[from] UnknownPlugin),
}

/// A name that no plugin has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no plugin is named {name:?}: there are {}", known.join(", "))]
pub struct UnknownPlugin {
    /// The name.
    pub name: String,
    /// The names that plugins have.
    pub known: Vec<String>,
}

/// Where a plugin runs without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// In every profile, and `--plugins` says nothing about it: no decision can be made without one of its
    /// sort. It gives way to another plugin that does the same.
    Base,
    /// In every profile.
    Default,
    /// Where `--plugins` says `*`, but in no profile of a configuration file.
    OutOfTree,
    /// Nowhere.
    Optional,
}

#[derive(Clone)]
struct Entry {
    factory: Factory,
    standing: Standing,
}

/// The plugins there are, by name, in the order in which they were registered.
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
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a plugin, as [`Standing::OutOfTree`].
    ///
    /// # Errors
    /// When the name is taken.
    pub fn register(
        &mut self,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        self.register_as(Standing::OutOfTree, name, factory)
    }

    /// Adds a plugin.
    ///
    /// # Errors
    /// When the name is taken.
    pub fn register_as(
        &mut self,
        standing: Standing,
        name: &str,
        factory: impl Fn(&Args, &Handle) -> Result<Plugin, FactoryError> + Send + Sync + 'static,
    ) -> Result<(), RegistryError> {
        if self.contains(name) {
            return Err(RegistryError::Duplicate(name.to_owned()));
        }
        self.put(standing, name.into(), Arc::new(factory));
        Ok(())
    }

    /// Adds a plugin whose name is not taken.
    pub(super) fn put(&mut self, standing: Standing, name: Arc<str>, factory: Factory) {
        self.entries
            .insert(Arc::clone(&name), Entry { factory, standing });
        self.order.push(name);
    }

    /// Takes a plugin out.
    ///
    /// # Errors
    /// When no plugin has the name.
    pub fn unregister(&mut self, name: &str) -> Result<(), UnknownPlugin> {
        self.known(name)?;
        self.order.retain(|known| &**known != name);
        self.entries.remove(name);
        Ok(())
    }

    /// Checks that a plugin has the name.
    ///
    /// # Errors
    /// When none has; the error lists the names that there are.
    pub fn known(&self, name: &str) -> Result<(), UnknownPlugin> {
        if self.contains(name) {
            return Ok(());
        }
        Err(UnknownPlugin {
            name: name.to_owned(),
            known: self.names().map(str::to_owned).collect(),
        })
    }

    /// Adds all plugins of another registry, after those of this one.
    ///
    /// # Errors
    /// When a name is taken; nothing is added then.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        if let Some(taken) = other.order.iter().find(|name| self.contains(name)) {
            return Err(RegistryError::Duplicate(taken.to_string()));
        }
        let Self { entries, order } = other;
        self.entries.extend(entries);
        self.order.extend(order);
        Ok(())
    }

    /// Whether a plugin is registered.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The names, in the order in which they were registered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(|name| &**name)
    }

    /// The names of those that stand so, in the order in which they were registered.
    pub fn standing(&self, standing: Standing) -> impl Iterator<Item = &str> {
        self.names()
            .filter(move |name| self.standing_of(name) == Some(standing))
    }

    /// Where a plugin runs without being named.
    pub fn standing_of(&self, name: &str) -> Option<Standing> {
        self.entries.get(name).map(|entry| entry.standing)
    }

    /// How a plugin is made.
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
    fn names_are_unique() {
        let mut one = registry(&["B", "A"]);
        let error = one.register("A", |_, _| Ok(Plugin::new("A"))).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("A".into()));
        let error = one.merge(registry(&["C", "B"])).unwrap_err();
        assert_eq!(error, RegistryError::Duplicate("B".into()));
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "A"]);
    }

    #[test]
    fn merged_plugins_come_after() {
        let mut one = registry(&["B", "A"]);
        one.merge(registry(&["D", "C"])).unwrap();
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "A", "D", "C"]);
        one.unregister("A").unwrap();
        let error = one.unregister("A").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no plugin is named \"A\": there are B, D, C"
        );
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "D", "C"]);
        one.register("A", |_, _| Ok(Plugin::new("A"))).unwrap();
        assert_eq!(one.names().collect::<Vec<_>>(), ["B", "D", "C", "A"]);
    }
}
