//! The Lua scripts of all ResourceInterpreterCustomizations, by kind and operation.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::ResourceInterpreterCustomization;
use berth_api::interpreter_customization::CustomizationTarget;

use crate::error::{InterpretError, ScriptError};
use crate::lua::Program;
use crate::operation::Operation;

/// The pause of a script after one of its calls ran out of time. An endless script thus uses little processor time.
const PAUSE: Duration = Duration::from_secs(20);

/// A script of a customization.
#[derive(Debug)]
pub(crate) struct Script {
    customization: String,
    operation: Operation,
    program: Program,
    /// The end of the current pause, if the script ran out of time.
    paused_until: Mutex<Option<Instant>>,
}

impl Script {
    /// Calls `run` with the compiled script, or returns an error if the script is paused.
    pub(crate) fn run<T>(
        &self,
        run: impl FnOnce(&Program) -> Result<T, ScriptError>,
    ) -> Result<T, InterpretError> {
        let result = match self.pause() {
            Some(left) => Err(ScriptError::Paused(left.as_secs() + 1)),
            None => run(&self.program),
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
    single: BTreeMap<Operation, Arc<Script>>,
    /// All scripts for dependencies. The dependencies of a template are the union of the results of these scripts.
    dependencies: Vec<Arc<Script>>,
}

impl KindScripts {
    /// Returns the script of an operation other than [`Operation::InterpretDependency`].
    pub(crate) fn script(&self, operation: Operation) -> Option<&Arc<Script>> {
        self.single.get(&operation)
    }

    /// Returns the scripts that find dependencies.
    pub(crate) fn dependencies(&self) -> &[Arc<Script>] {
        &self.dependencies
    }

    /// Returns the script of a customization for an operation if the script has this text.
    fn find(&self, customization: &str, operation: Operation, text: &str) -> Option<&Arc<Script>> {
        let mut scripts = self.single.values().chain(&self.dependencies);
        scripts.find(|script| {
            script.customization == customization
                && script.operation == operation
                && script.program.text() == text
        })
    }

    /// Reports whether the kind has a script for an operation.
    pub(crate) fn has(&self, operation: Operation) -> bool {
        match operation {
            Operation::InterpretDependency => !self.dependencies.is_empty(),
            other => self.single.contains_key(&other),
        }
    }
}

/// The scripts of all customizations, by kind.
#[derive(Debug, Default)]
pub(crate) struct Customizations {
    kinds: HashMap<CustomizationTarget, KindScripts>,
}

impl Customizations {
    /// Merges the scripts of customizations. If several customizations have a script for an operation of a kind, the
    /// first by name is used. For dependencies, all scripts are used. An unchanged script keeps its compiled form and
    /// its pause.
    pub(crate) fn new(mut list: Vec<ResourceInterpreterCustomization>, old: &Self) -> Self {
        list.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut kinds: HashMap<CustomizationTarget, KindScripts> = HashMap::new();
        for customization in list {
            let spec = customization.spec;
            let name = customization.metadata.name.unwrap_or_default();
            let before = old.kinds.get(&spec.target);
            let scripts = kinds.entry(spec.target).or_default();
            for operation in Operation::ALL {
                let Some(text) = operation.script(&spec.customizations) else {
                    continue;
                };
                let unchanged = before.and_then(|before| before.find(&name, operation, text));
                let script = unchanged.cloned().unwrap_or_else(|| {
                    Arc::new(Script {
                        customization: name.clone(),
                        operation,
                        program: Program::new(text),
                        paused_until: Mutex::default(),
                    })
                });
                if operation == Operation::InterpretDependency {
                    scripts.dependencies.push(script);
                } else {
                    scripts.single.entry(operation).or_insert(script);
                }
            }
        }
        Self { kinds }
    }

    /// Reports whether there are no scripts.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns the scripts for a kind.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn customization(name: &str, script: &str) -> ResourceInterpreterCustomization {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"target": {"apiVersion": "x/v1", "kind": "X"},
            "customizations": {"healthInterpretation": {"luaScript": script},
                "dependencyInterpretation": {"luaScript": script}}}}))
        .unwrap()
    }

    fn health(customizations: &Customizations) -> &Arc<Script> {
        let scripts = customizations.of("x/v1", "X").unwrap();
        scripts.script(Operation::InterpretHealth).unwrap()
    }

    #[test]
    fn unchanged_scripts_stay_compiled() {
        let first = Customizations::new(
            vec![customization("b", "x = 1")],
            &Customizations::default(),
        );
        let added = vec![customization("b", "x = 1"), customization("c", "x = 2")];
        let second = Customizations::new(added, &first);
        assert!(Arc::ptr_eq(health(&first), health(&second)));
        let before = &first.of("x/v1", "X").unwrap().dependencies()[0];
        let after = second.of("x/v1", "X").unwrap().dependencies();
        assert!(Arc::ptr_eq(before, &after[0]) && after.len() == 2);
        let third = Customizations::new(vec![customization("b", "x = 3")], &second);
        assert_eq!(health(&third).program.text(), "x = 3");
        let fourth = Customizations::new(vec![customization("a", "x = 3")], &third);
        assert_eq!(health(&fourth).customization, "a");
    }
}
