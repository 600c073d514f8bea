//! Decisions that wait for a permit.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::points::Decided;
use crate::binding::{Binding, BindingKey};

/// What is said of a waiting decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// These bindings are looked at again; the key of the message says nothing.
    Look(Vec<BindingKey>),
    /// The plugin has nothing against it any more.
    Allow,
    /// It may not pass.
    Reject(String),
}

/// A word of a plugin about a waiting decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) plugin: Arc<str>,
    pub(crate) key: BindingKey,
    pub(crate) word: Word,
}

/// The decisions that wait for a permit, as one plugin sees them.
pub struct Waiting<'a> {
    pub(crate) plugin: Arc<str>,
    /// Those that wait for this plugin, by the key of their binding.
    pub(crate) decided: Vec<&'a Decided>,
    pub(crate) said: Vec<Said>,
}

impl std::fmt::Debug for Waiting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting")
            .field("plugin", &self.plugin)
            .field("decided", &self.decided.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Waiting<'a> {
    /// The decisions that wait for this plugin, by the key of their binding.
    pub fn iter(&self) -> impl Iterator<Item = &'a Decided> {
        self.decided.iter().copied()
    }

    /// This plugin lets a waiting decision pass.
    pub fn allow(&mut self, key: &BindingKey) {
        self.say(key, Word::Allow);
    }

    /// This plugin stops a waiting decision; the text says why, as users read it in the condition.
    pub fn reject(&mut self, key: &BindingKey, why: impl Into<String>) {
        self.say(key, Word::Reject(why.into()));
    }

    fn say(&mut self, key: &BindingKey, word: Word) {
        self.said.push(Said {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            word,
        });
    }
}

/// Allows and rejects waiting decisions from outside a cycle, from any task.
#[derive(Clone, Debug)]
pub struct Permits {
    plugin: Arc<str>,
    sender: mpsc::UnboundedSender<Said>,
}

impl Permits {
    pub(crate) fn new(plugin: &str, sender: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            plugin: plugin.into(),
            sender,
        }
    }

    /// The plugin lets a waiting decision pass.
    pub fn allow(&self, key: &BindingKey) {
        self.say(key, Word::Allow);
    }

    /// The plugin stops a waiting decision; the text says why, as users read it in the condition.
    pub fn reject(&self, key: &BindingKey, why: impl Into<String>) {
        self.say(key, Word::Reject(why.into()));
    }

    /// Somebody who follows bindings has news for [`Follow::refresh`](super::Follow::refresh).
    pub(crate) fn refresh(&self) {
        let nobody = BindingKey {
            namespace: None,
            name: "".into(),
        };
        self.say(&nobody, Word::Look(Vec::new()));
    }

    /// Something that the plugin knows of these bindings has changed: their places in the queue are asked for
    /// again, and those that wait are woken, all at once.
    pub fn look_again(&self, keys: Vec<BindingKey>) {
        if let Some(first) = keys.first().cloned() {
            self.say(&first, Word::Look(keys));
        }
    }

    fn say(&self, key: &BindingKey, word: Word) {
        // Nobody listens only when the service ends.
        let _ = self.sender.send(Said {
            plugin: Arc::clone(&self.plugin),
            key: key.clone(),
            word,
        });
    }
}

/// The bindings that the scheduler knows, for plugins to look at.
pub trait Bindings {
    /// One binding.
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>>;
    /// All of them, in no particular order.
    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_>;
}
