//! Rules for kinds of other projects, as pure functions over JSON. The rules give the same results as the
//! customizations that Karmada ships.
//!
//! | module | contents |
//! |---|---|
//! | `kruise`, `argo`, `volcano`, `flink`, `spark`, `ray`, `kubeflow`, `kyverno`, `flux` | the rules for the kinds of a project |
//! | `reports` | sums, latest values and merged conditions of the members' reports |
//! | `pods` | replicas, components and dependencies of pod templates |
//! | `pruning` | removal of empty fields |

mod argo;
mod flink;
mod flux;
mod kruise;
mod kubeflow;
mod kyverno;
mod pods;
mod pruning;
mod ray;
mod reports;
mod spark;
mod volcano;

use std::collections::HashMap;
use std::sync::LazyLock;

use berth_api::binding::{AggregatedStatusItem, Component};
use berth_api::dependency::DependentObjectReference;
use serde_json::{Map, Value};

use crate::error::InterpretError;
use crate::operation::Operation;
use crate::workload_requirements::Interpretation;

type Fields = Map<String, Value>;
type Components = Vec<Component>;
type References = Vec<DependentObjectReference>;
type Result<T> = std::result::Result<T, InterpretError>;

/// The input of the aggregation of a template's status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation<'a> {
    pub(crate) template: &'a Value,
    pub(crate) items: &'a [AggregatedStatusItem],
    /// The current time, for conditions.
    pub(crate) now: &'a str,
}

/// The rules for a kind. The native rules perform an operation that has no rule here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    api_version: &'static str,
    name: &'static str,
    pub(crate) replicas: Option<fn(&Value) -> Result<Interpretation>>,
    pub(crate) components: Option<fn(&Value) -> Result<Components>>,
    pub(crate) revise: Option<fn(&mut Value, i32)>,
    pub(crate) retain: Option<fn(&mut Value, &Value)>,
    /// Returns the status that a member reports for an object.
    pub(crate) reflect: Option<fn(&Value, &Value) -> Fields>,
    /// Returns the new status of a template, or `None` if the status must not change.
    pub(crate) aggregate: Option<fn(Aggregation<'_>) -> Option<Fields>>,
    pub(crate) health: Option<fn(&Value) -> Result<bool>>,
    pub(crate) dependencies: Option<fn(&Value) -> Result<References>>,
}

impl Kind {
    /// Creates a kind without rules.
    const fn new(api_version: &'static str, name: &'static str) -> Self {
        Self {
            api_version,
            name,
            replicas: None,
            components: None,
            revise: None,
            retain: None,
            reflect: None,
            aggregate: None,
            health: None,
            dependencies: None,
        }
    }

    /// Returns the rules for a kind.
    pub(crate) fn of(api_version: &str, kind: &str) -> Option<&'static Self> {
        KINDS.get(&(api_version, kind)).copied()
    }

    /// Reports whether the kind has a rule for an operation.
    pub(crate) fn has(&self, operation: Operation) -> bool {
        match operation {
            Operation::InterpretReplica => self.replicas.is_some(),
            Operation::InterpretComponent => self.components.is_some(),
            Operation::ReviseReplica => self.revise.is_some(),
            Operation::Retain => self.retain.is_some(),
            Operation::InterpretStatus => self.reflect.is_some(),
            Operation::AggregateStatus => self.aggregate.is_some(),
            Operation::InterpretHealth => self.health.is_some(),
            Operation::InterpretDependency => self.dependencies.is_some(),
        }
    }

    /// Returns the status that a member reports for an object, without empty fields.
    pub(crate) fn report(&self, object: &Value) -> Option<Value> {
        let reflect = self.reflect?;
        let status = object.get("status").filter(|status| status.is_object());
        let mut report = status.map_or_else(Fields::new, |status| reflect(object, status));
        pruning::drop_empty(&mut report);
        Some(Value::Object(report))
    }

    /// Returns the new status of a template without empty fields, or `None` if the status must not change.
    pub(crate) fn status(&self, aggregation: Aggregation<'_>) -> Option<Value> {
        let mut status = self.aggregate?(aggregation)?;
        pruning::drop_empty(&mut status);
        Some(Value::Object(status))
    }
}

/// The rules for all kinds, by API version and kind.
static KINDS: LazyLock<HashMap<(&'static str, &'static str), &'static Kind>> =
    LazyLock::new(|| {
        let projects: [&'static [Kind]; 9] = [
            &argo::KINDS,
            &flink::KINDS,
            &flux::KINDS,
            &kruise::KINDS,
            &kubeflow::KINDS,
            &kyverno::KINDS,
            &ray::KINDS,
            &spark::KINDS,
            &volcano::KINDS,
        ];
        let kinds = projects.into_iter().flatten();
        kinds
            .map(|kind| ((kind.api_version, kind.name), kind))
            .collect()
    });

/// Returns a number that an object must have.
fn required(object: &Value, pointer: &'static str) -> Result<i64> {
    let number = object.pointer(pointer).and_then(Value::as_i64);
    number.ok_or_else(|| missing(pointer))
}

/// Returns the error for a field that is missing or has the wrong type.
fn missing(pointer: &'static str) -> InterpretError {
    InterpretError::Field(pointer[1..].replace('/', "."))
}

/// Returns the listed fields of a status that are set.
fn picked(status: &Value, fields: &[&str]) -> Fields {
    let mut report = Fields::new();
    for field in fields {
        if let Some(value) = status.get(*field) {
            report.insert((*field).to_owned(), value.clone());
        }
    }
    report
}

/// Copies `spec.suspend` from the observed object, because users suspend and resume objects in the member.
fn retain_suspend(desired: &mut Value, observed: &Value) {
    let suspend = observed.pointer("/spec/suspend").filter(|v| !v.is_null());
    if let (Some(suspend), Some(spec)) = (
        suspend,
        desired.get_mut("spec").and_then(Value::as_object_mut),
    ) {
        spec.insert("suspend".to_owned(), suspend.clone());
    }
}

/// Sets a field of the spec.
fn set_in_spec(manifest: &mut Value, field: &str, number: i32) {
    if let Some(spec) = manifest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert(field.to_owned(), Value::from(number));
    }
}
