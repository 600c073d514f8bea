//! The scripts of all customizations, by kind and operation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::ResourceInterpreterCustomization;
use berth_api::interpreter_customization::CustomizationTarget;

use crate::error::{InterpretError, ScriptError};
use crate::operation::Operation;

/// The pause after a call that ran out of time. A looping script thus uses a small part of a processor.
const PAUSE: Duration = Duration::from_secs(20);

/// A script of a customization.
#[derive(Debug)]
pub(crate) struct Script {
    customization: String,
    operation: Operation,
    text: String,
    /// The end of the pause after a call that ran out of time.
    paused_until: Mutex<Option<Instant>>,
}

impl Script {
    /// Runs a function with the text of the script, unless the script is paused.
    pub(crate) fn run<T>(
        &self,
        run: impl FnOnce(&str) -> Result<T, ScriptError>,
    ) -> Result<T, InterpretError> {
        let result = match self.pause() {
            Some(left) => Err(ScriptError::Paused(left.as_secs() + 1)),
            None => run(&self.text),
        };
        if matches!(result, Err(ScriptError::Timeout(_))) {
            *self.lock() = Some(Instant::now() + PAUSE);
        }
        result.map_err(|source| InterpretError::Script {
            customization: self.customization.clone(),
            operation: self.operation,
            source,
        })
    }

    fn pause(&self) -> Option<Duration> {
        let until = (*self.lock())?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.paused_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scripts of one kind.
#[derive(Debug, Default)]
pub(crate) struct KindScripts {
    single: BTreeMap<Operation, Script>,
    /// Dependencies are the union of those of all customizations.
    dependencies: Vec<Script>,
}

impl KindScripts {
    /// Returns the script of an operation other than [`Operation::InterpretDependency`].
    pub(crate) fn script(&self, operation: Operation) -> Option<&Script> {
        self.single.get(&operation)
    }

    /// Returns the scripts that find dependencies.
    pub(crate) fn dependencies(&self) -> &[Script] {
        &self.dependencies
    }

    /// Reports whether there is a script for an operation.
    pub(crate) fn has(&self, operation: Operation) -> bool {
        match operation {
            Operation::InterpretDependency => !self.dependencies.is_empty(),
            other => self.single.contains_key(&other),
        }
    }
}

/// The scripts of all customizations.
#[derive(Debug, Default)]
pub(crate) struct Customizations {
    kinds: HashMap<CustomizationTarget, KindScripts>,
}

impl Customizations {
    /// Merges customizations. If several have a script for one operation of a kind, the first by name counts.
    pub(crate) fn new(mut list: Vec<ResourceInterpreterCustomization>) -> Self {
        list.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut kinds: HashMap<CustomizationTarget, KindScripts> = HashMap::new();
        for customization in list {
            let spec = customization.spec;
            let name = customization.metadata.name.unwrap_or_default();
            let scripts = kinds.entry(spec.target).or_default();
            for operation in Operation::ALL {
                let Some(text) = operation.script(&spec.customizations) else {
                    continue;
                };
                let script = Script {
                    customization: name.clone(),
                    operation,
                    text: text.to_owned(),
                    paused_until: Mutex::default(),
                };
                if operation == Operation::InterpretDependency {
                    scripts.dependencies.push(script);
                } else {
                    scripts.single.entry(operation).or_insert(script);
                }
            }
        }
        Self { kinds }
    }

    /// Returns the scripts of a kind.
    pub(crate) fn of(&self, api_version: &str, kind: &str) -> Option<&KindScripts> {
        if self.kinds.is_empty() {
            return None;
        }
        self.kinds.get(&CustomizationTarget {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }
}
