//! The [`Interpreter`]: it selects for each operation and kind the script, webhook or built-in rule, in this order of
//! precedence.

mod webhook_operations;

use std::sync::{Arc, PoisonError, RwLock};

use berth_api::ResourceInterpreterCustomization;
use berth_api::binding::{AggregatedStatusItem, Component};
use berth_api::dependency::DependentObjectReference;
use berth_api::protected_fields::changed_identity;
use berth_apimachinery::json_fields::kind_of;
use berth_apimachinery::json_size::json_size;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::customizations::Customizations;
use crate::error::InterpretError;
use crate::lua::Program;
use crate::operation::Operation;
use crate::third_party::{Aggregation, Kind};
use crate::webhooks::{Answer, Answers, Configurations, WebhookError};
use crate::workload_requirements::Interpretation;
use crate::{native, scripted};

/// Reports whether a built-in rule reads the replicas or components of a kind.
pub fn has_built_in_replicas(api_version: &str, kind: &str) -> bool {
    native::is_interpreted(api_version, kind)
        || is_third_party(api_version, kind, Operation::InterpretReplica)
        || is_third_party(api_version, kind, Operation::InterpretComponent)
}

fn is_third_party(api_version: &str, kind: &str, operation: Operation) -> bool {
    Kind::of(api_version, kind).is_some_and(|kind| kind.has(operation))
}

/// The interpreter of all kinds. Clones share the customizations and webhooks.
#[derive(Clone, Debug, Default)]
pub struct Interpreter {
    customizations: Arc<RwLock<Arc<Customizations>>>,
    webhooks: Arc<RwLock<Arc<Configurations>>>,
    /// The responses of webhooks. Without `Answers`, an operation of a webhook fails.
    answers: Option<Answers>,
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
        let old = self.scripts();
        let new = Arc::new(Customizations::new(customizations, &old));
        let slot = self.customizations.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = new;
    }

    fn scripts(&self) -> Arc<Customizations> {
        let slot = self.customizations.read();
        Arc::clone(&slot.unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports whether any customization has a script.
    pub fn has_scripts(&self) -> bool {
        !self.scripts().is_empty()
    }

    /// Reports whether a customization or a webhook performs an operation for a kind.
    pub fn is_customized(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.has_script(api_version, kind, operation)
            || self.has_webhook(api_version, kind, operation)
    }

    /// Reports whether a customization has a script for an operation of a kind.
    pub fn has_script(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        let scripts = self.scripts();
        scripts
            .of(api_version, kind)
            .is_some_and(|scripts| scripts.has(operation))
    }

    /// Reports whether the interpreter can read replicas from templates of a kind, or has a built-in rule for the
    /// components of the kind.
    pub fn has_replicas(&self, api_version: &str, kind: &str) -> bool {
        has_built_in_replicas(api_version, kind)
            || self.is_customized(api_version, kind, Operation::InterpretReplica)
    }

    /// Reports whether the interpreter can read components from templates of a kind.
    pub fn has_components(&self, api_version: &str, kind: &str) -> bool {
        self.is_customized(api_version, kind, Operation::InterpretComponent)
            || is_third_party(api_version, kind, Operation::InterpretComponent)
    }

    /// Reports whether the interpreter has a health rule for a kind.
    pub fn has_health(&self, api_version: &str, kind: &str) -> bool {
        native::has_health_rule(api_version, kind)
            || is_third_party(api_version, kind, Operation::InterpretHealth)
            || self.is_customized(api_version, kind, Operation::InterpretHealth)
    }

    /// Reads the replicas and requirements of a template. Returns `None` for kinds without replicas.
    ///
    /// # Errors
    /// When the template is malformed, or a script or a webhook fails.
    pub fn replicas(
        &self,
        api_version: &str,
        kind: &str,
        template: &Value,
    ) -> Result<Option<Interpretation>, InterpretError> {
        let run = |script: &Program| scripted::replicas(script, template);
        if let Some(read) = self.run(api_version, kind, Operation::InterpretReplica, run)? {
            return Ok(Some(read));
        }
        let read = |answer| match answer {
            Answer::Replicas(read) => Ok(read),
            _ => Err(WebhookError::mismatch()),
        };
        let operation = Operation::InterpretReplica;
        if let Some(read) = self.ask((api_version, kind), operation, template, |r| r, read)? {
            return Ok(Some(read));
        }
        match Kind::of(api_version, kind).and_then(|kind| kind.replicas) {
            Some(read) => read(template).map(Some),
            None => native::interpret(api_version, kind, template),
        }
    }

    /// Reads the components of a template. Returns `None` for kinds without a rule.
    ///
    /// # Errors
    /// When the template is malformed, or a script or a webhook fails.
    pub fn components(
        &self,
        api_version: &str,
        kind: &str,
        template: &Value,
    ) -> Result<Option<Vec<Component>>, InterpretError> {
        let run = |script: &Program| scripted::components(script, template);
        if let Some(read) = self.run(api_version, kind, Operation::InterpretComponent, run)? {
            return Ok(Some(read));
        }
        let read = |answer| match answer {
            Answer::Components(read) => Ok(read),
            _ => Err(WebhookError::mismatch()),
        };
        let operation = Operation::InterpretComponent;
        if let Some(read) = self.ask((api_version, kind), operation, template, |r| r, read)? {
            return Ok(Some(read));
        }
        let read = Kind::of(api_version, kind).and_then(|kind| kind.components);
        read.map(|read| read(template)).transpose()
    }

    /// Sets the replicas of a manifest.
    ///
    /// # Errors
    /// When a script or a webhook fails.
    pub fn revise_replicas(
        &self,
        manifest: &mut Value,
        replicas: i32,
    ) -> Result<(), InterpretError> {
        let (api_version, kind) = kind_of(manifest);
        let run = |script: &Program| scripted::revise(script, manifest, replicas);
        let built_in = Kind::of(api_version, kind).and_then(|kind| kind.revise);
        let revised = match self.run(api_version, kind, Operation::ReviseReplica, run)? {
            Some(revised) => Some(revised),
            None => self.ask_patch(Operation::ReviseReplica, manifest, |request| {
                request.with_replicas(replicas)
            })?,
        };
        match revised {
            Some(revised) => {
                check_identity(Operation::ReviseReplica, manifest, &revised)?;
                *manifest = revised;
            }
            None => built_in.unwrap_or(native::revise_replicas)(manifest, replicas),
        }
        Ok(())
    }

    /// Copies the fields that the member cluster owns from the observed object to the desired object.
    ///
    /// # Errors
    /// When a script or a webhook fails.
    pub fn retain(&self, desired: &mut Value, observed: &Value) -> Result<(), InterpretError> {
        native::retain_metadata(desired, observed);
        let (api_version, kind) = kind_of(desired);
        let run = |script: &Program| scripted::retain(script, desired, observed);
        let built_in = Kind::of(api_version, kind).and_then(|kind| kind.retain);
        let retained = match self.run(api_version, kind, Operation::Retain, run)? {
            Some(retained) => Some(retained),
            None => self.ask_patch(Operation::Retain, desired, |request| {
                request.with_observed(observed)
            })?,
        };
        match retained {
            Some(retained) => {
                check_identity(Operation::Retain, desired, &retained)?;
                *desired = retained;
            }
            None => built_in.unwrap_or(native::retain_fields)(desired, observed),
        }
        Ok(())
    }

    /// Returns the status that a member reports for an object. Returns `None` if the status is absent, too large, or
    /// not reported for the kind.
    ///
    /// # Errors
    /// When a script or a webhook fails.
    pub fn reflect(&self, object: &Value) -> Result<Option<Value>, InterpretError> {
        let (api_version, kind) = kind_of(object);
        let run = |script: &Program| scripted::reflect(script, object);
        let read = |answer| match answer {
            Answer::Status(status) => Ok(status),
            _ => Err(WebhookError::mismatch()),
        };
        let operation = Operation::InterpretStatus;
        let report = match self.run(api_version, kind, operation, run)? {
            Some(report) => Some(report),
            None => self.ask((api_version, kind), operation, object, |r| r, read)?,
        };
        let built_in = || Kind::of(api_version, kind).and_then(|kind| kind.report(object));
        Ok(match report.or_else(built_in) {
            Some(report) => {
                Some(report).filter(|report| json_size(report) <= native::MAX_REPORT_BYTES)
            }
            None => native::reflect(object),
        })
    }

    /// Returns the new status of a template. Returns `None` if the status is unchanged, or if the kind has no rule.
    ///
    /// # Errors
    /// When a script or a webhook fails.
    pub fn aggregate(
        &self,
        template: &Value,
        items: &[AggregatedStatusItem],
        now: &Time,
    ) -> Result<Option<Value>, InterpretError> {
        let (api_version, kind) = kind_of(template);
        let run = |script: &Program| scripted::aggregate(script, template, items);
        let aggregated = match self.run(api_version, kind, Operation::AggregateStatus, run)? {
            Some(aggregated) => Some(aggregated),
            None => self.ask_patch(Operation::AggregateStatus, template, |request| {
                request.with_items(items)
            })?,
        };
        let status = if let Some(mut aggregated) = aggregated {
            let status = aggregated.get_mut("status").map(Value::take);
            status.filter(Value::is_object)
        } else if let Some(rules) = Kind::of(api_version, kind)
            && rules.aggregate.is_some()
        {
            rules.status(Aggregation {
                template,
                items,
                now: &now.0.to_string(),
            })
        } else {
            return Ok(native::aggregate(template, items, now));
        };
        let old = template.get("status").filter(|status| status.is_object());
        Ok(status.and_then(|status| native::changed_status(old, status)))
    }

    /// Reports whether an object is healthy. Objects of kinds without a health rule are always healthy.
    ///
    /// # Errors
    /// When the object lacks a field that the rule needs, or a script or a webhook fails.
    pub fn is_healthy(&self, object: &Value) -> Result<bool, InterpretError> {
        let (api_version, kind) = kind_of(object);
        let run = |script: &Program| scripted::health(script, object);
        let read = |answer| match answer {
            Answer::Health(healthy) => Ok(healthy),
            _ => Err(WebhookError::mismatch()),
        };
        let operation = Operation::InterpretHealth;
        let healthy = match self.run(api_version, kind, operation, run)? {
            Some(healthy) => Some(healthy),
            None => self.ask((api_version, kind), operation, object, |r| r, read)?,
        };
        let built_in = Kind::of(api_version, kind).and_then(|kind| kind.health);
        match (healthy, built_in) {
            (Some(healthy), _) => Ok(healthy),
            (None, Some(judge)) => judge(object),
            (None, None) => Ok(native::is_healthy(object)),
        }
    }

    /// Returns the dependencies of a template in a fixed order. Returns `None` for kinds without a rule.
    ///
    /// # Errors
    /// When the template is malformed, or a script or a webhook fails.
    pub fn dependencies(
        &self,
        template: &Value,
    ) -> Result<Option<Vec<DependentObjectReference>>, InterpretError> {
        let (api_version, kind) = kind_of(template);
        let all_scripts = self.scripts();
        let of_kind = all_scripts.of(api_version, kind);
        let scripts = of_kind.map_or(&[][..], |scripts| scripts.dependencies());
        let built_in = Kind::of(api_version, kind).and_then(|kind| kind.dependencies);
        let mut all = if !scripts.is_empty() {
            Vec::new()
        } else if let Some(found) = self.ask_dependencies((api_version, kind), template)? {
            found
        } else if let Some(find) = built_in {
            find(template)?
        } else {
            return native::dependencies(template);
        };
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

    /// Runs the script for an operation of a kind. Returns `None` if there is no such script.
    fn run<T>(
        &self,
        api_version: &str,
        kind: &str,
        operation: Operation,
        run: impl FnOnce(&Program) -> Result<T, crate::ScriptError>,
    ) -> Result<Option<T>, InterpretError> {
        let scripts = self.scripts();
        let script = scripts
            .of(api_version, kind)
            .and_then(|scripts| scripts.script(operation));
        script.map(|script| script.run(run)).transpose()
    }
}

/// Checks that a script or a webhook returned the same object. Another object would be created in the member, and the
/// present one would be left behind. A returned UID is ignored.
fn check_identity(
    operation: Operation,
    before: &Value,
    after: &Value,
) -> Result<(), InterpretError> {
    match changed_identity(before, after) {
        Some(field) if field != "/metadata/uid" => {
            Err(InterpretError::Identity { operation, field })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
