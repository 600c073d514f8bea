//! The interpreter: the first layer with a rule decides.

use std::sync::{Arc, PoisonError, RwLock};

use berth_api::ResourceInterpreterCustomization;
use berth_api::binding::{AggregatedStatusItem, Component};
use berth_api::dependency::DependentObjectReference;
use berth_apimachinery::json_fields::kind_of;
use berth_apimachinery::json_size::json_size;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::customizations::Customizations;
use crate::error::InterpretError;
use crate::interpretation::Interpretation;
use crate::operation::Operation;
use crate::{native, scripted};

/// Reports whether replicas of a kind can be read without a customization.
pub fn has_built_in_replicas(api_version: &str, kind: &str) -> bool {
    native::is_interpreted(api_version, kind)
}

/// The interpreter of all kinds. Clones share the customizations.
#[derive(Clone, Debug, Default)]
pub struct Interpreter {
    customizations: Arc<RwLock<Arc<Customizations>>>,
}

impl Interpreter {
    /// Creates an interpreter with these customizations.
    pub fn with(customizations: Vec<ResourceInterpreterCustomization>) -> Self {
        let interpreter = Self::default();
        interpreter.load(customizations);
        interpreter
    }

    /// Replaces all customizations.
    pub fn load(&self, customizations: Vec<ResourceInterpreterCustomization>) {
        let new = Arc::new(Customizations::new(customizations));
        let slot = self.customizations.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn scripts(&self) -> Arc<Customizations> {
        let slot = self.customizations.read();
        Arc::clone(&slot.unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports whether a customization has a script for an operation of a kind.
    pub fn is_customized(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let scripts = self.scripts();
        scripts
            .of(api_version, kind)
            .is_some_and(|scripts| scripts.has(operation))
    }

    /// Reports whether replicas can be read from templates of a kind.
    pub fn has_replicas(&self, api_version: &str, kind: &str) -> bool {
        has_built_in_replicas(api_version, kind)
            || self.is_customized(api_version, kind, Operation::InterpretReplica)
    }

    /// Reports whether components can be read from templates of a kind.
    pub fn has_components(&self, api_version: &str, kind: &str) -> bool {
        self.is_customized(api_version, kind, Operation::InterpretComponent)
    }

    /// Reports whether objects of a kind have a health rule.
    pub fn has_health(&self, api_version: &str, kind: &str) -> bool {
        native::has_health_rule(api_version, kind)
            || self.is_customized(api_version, kind, Operation::InterpretHealth)
    }

    /// Reads replicas and requirements from a template; none for kinds without replicas.
    ///
    /// # Errors
    /// When the template is malformed, or a script fails.
    pub fn replicas(
        &self,
        api_version: &str,
        kind: &str,
        template: &Value,
    ) -> Result<Option<Interpretation>, InterpretError> {
        let run = |script: &str| scripted::replicas(script, template);
        match self.run(api_version, kind, Operation::InterpretReplica, run)? {
            Some(interpretation) => Ok(Some(interpretation)),
            None => native::interpret(api_version, kind, template),
        }
    }

    /// Reads the components of a template; none for kinds without a rule.
    ///
    /// # Errors
    /// When a script fails.
    pub fn components(
        &self,
        api_version: &str,
        kind: &str,
        template: &Value,
    ) -> Result<Option<Vec<Component>>, InterpretError> {
        let run = |script: &str| scripted::components(script, template);
        self.run(api_version, kind, Operation::InterpretComponent, run)
    }

    /// Sets the replicas of a manifest.
    ///
    /// # Errors
    /// When a script fails.
    pub fn revise_replicas(
        &self,
        manifest: &mut Value,
        replicas: i32,
    ) -> Result<(), InterpretError> {
        let (api_version, kind) = kind_of(manifest);
        let run = |script: &str| scripted::revise(script, manifest, replicas);
        match self.run(api_version, kind, Operation::ReviseReplica, run)? {
            Some(revised) => *manifest = revised,
            None => native::revise_replicas(manifest, replicas),
        }
        Ok(())
    }

    /// Copies the fields that the member owns from the observed object to the desired one.
    ///
    /// # Errors
    /// When a script fails.
    pub fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), InterpretError> {
        native::retain_metadata(desired, observed);
        let (api_version, kind) = kind_of(desired);
        let run = |script: &str| scripted::retain(script, desired, observed);
        match self.run(api_version, kind, Operation::Retain, run)? {
            Some(retained) => *desired = retained,
            None => native::retain_fields(desired, observed),
        }
        Ok(())
    }

    /// Returns the status to report; none if it is missing, too large, or not reported for the kind.
    ///
    /// # Errors
    /// When a script fails.
    pub fn reflect(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        let (api_version, kind) = kind_of(object);
        let run = |script: &str| scripted::reflect(script, object);
        Ok(
            match self.run(api_version, kind, Operation::InterpretStatus, run)? {
                Some(report) => {
                    Some(report).filter(|report| json_size(report) <= native::MAX_REPORT_BYTES)
                }
                None => native::reflect(object),
            },
        )
    }

    /// Returns the new status of a template; none if it is unchanged or its kind has no rule.
    ///
    /// # Errors
    /// When a script fails.
    pub fn aggregate(
        &self,
        template: &Value,
        items: &[AggregatedStatusItem],
        now: &Time,
    ) -> Result<Option<Value>, InterpretError> {
        let (api_version, kind) = kind_of(template);
        let run = |script: &str| scripted::aggregate(script, template, items);
        let Some(mut aggregated) = self.run(api_version, kind, Operation::AggregateStatus, run)?
        else {
            return Ok(native::aggregate(template, items, now));
        };
        let status = aggregated.get_mut("status").map(Value::take);
        let status = status.filter(Value::is_object);
        let old = template.get("status").filter(|status| status.is_object());
        Ok(status.and_then(|status| native::changed_status(old, status)))
    }

    /// Reports whether an object is healthy. An object without a rule always is.
    ///
    /// # Errors
    /// When a script fails.
    pub fn is_healthy(&self, object: &Value) -> Result<bool, InterpretError> {
        let (api_version, kind) = kind_of(object);
        let run = |script: &str| scripted::health(script, object);
        let healthy = self.run(api_version, kind, Operation::InterpretHealth, run)?;
        Ok(healthy.unwrap_or_else(|| native::is_healthy(object)))
    }

    /// Returns the sorted dependencies of a template; none for kinds without a rule.
    ///
    /// # Errors
    /// When the template is malformed, or a script fails.
    pub fn dependencies(
        &self,
        template: &Value,
    ) -> Result<Option<Vec<DependentObjectReference>>, InterpretError> {
        let (api_version, kind) = kind_of(template);
        let scripts = self.scripts();
        let scripts = scripts.of(api_version, kind);
        let scripts = scripts.map_or(&[][..], |scripts| scripts.dependencies());
        if scripts.is_empty() {
            return native::dependencies(template);
        }
        let mut all = Vec::new();
        for script in scripts {
            all.extend(script.run(|text| scripted::dependencies(text, template))?);
        }
        let key = |item: &DependentObjectReference| {
            let DependentObjectReference {
                api_version,
                kind,
                namespace,
                name,
                ..
            } = item.clone();
            (api_version, kind, namespace, name)
        };
        all.sort_by_key(key);
        all.dedup();
        Ok(Some(all))
    }

    /// Runs the script of an operation, if there is one.
    fn run<T>(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
        run: impl FnOnce(&str) -> Result<T, crate::ScriptError>,
    ) -> Result<Option<T>, InterpretError> {
        let scripts = self.scripts();
        let script = scripts
            .of(api_version, kind)
            .and_then(|scripts| scripts.script(operation));
        script.map(|script| script.run(run)).transpose()
    }
}

#[cfg(test)]
mod tests;
