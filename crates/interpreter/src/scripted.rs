//! Execution of operations by Lua scripts: each function calls the script's function for one operation, and decodes the
//! results.

use berth_api::binding::{AggregatedStatusItem, Component, ReplicaRequirements};
use berth_api::dependency::DependentObjectReference;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check_dependencies::check_references;
use crate::error::ScriptError;
use crate::lua::{Program, Returned, Root, call, resolve_empty_tables};
use crate::operation::Operation;
use crate::workload_requirements::Interpretation;

/// Calls the function for an operation that has one result.
fn run(
    script: &Program,
    operation: Operation,
    arguments: &[&Value],
) -> Result<Returned, ScriptError> {
    let [result] = call(script, operation.function(), arguments)?;
    Ok(result)
}

pub(crate) fn replicas(script: &Program, object: &Value) -> Result<Interpretation, ScriptError> {
    let function = Operation::InterpretReplica.function();
    let [replicas, requirements] = call(script, function, &[object])?;
    let requirements = match requirements {
        Returned::Nil => None,
        requirements => {
            let requirements = table(requirements, Root::Object, &[])?;
            let typed: ReplicaRequirements = decode(requirements, "ReplicaRequirements")?;
            Some(typed)
        }
    };
    let priority_class_name = requirements
        .as_ref()
        .and_then(|requirements| requirements.priority_class_name.clone());
    let requirements = requirements.map(encode).transpose()?;
    Ok(Interpretation {
        replicas: int32(&replicas)?,
        requirements,
        priority_class_name,
    })
}

pub(crate) fn components(script: &Program, object: &Value) -> Result<Vec<Component>, ScriptError> {
    match run(script, Operation::InterpretComponent, &[object])? {
        Returned::Nil => Ok(Vec::new()),
        components => decode(table(components, Root::List, &[])?, "list of components"),
    }
}

pub(crate) fn revise(
    script: &Program,
    object: &Value,
    replicas: i32,
) -> Result<Value, ScriptError> {
    let number = Value::from(replicas);
    let revised = run(script, Operation::ReviseReplica, &[object, &number])?;
    manifest(revised, &[object])
}

pub(crate) fn retain(
    script: &Program,
    desired: &Value,
    observed: &Value,
) -> Result<Value, ScriptError> {
    let retained = run(script, Operation::Retain, &[desired, observed])?;
    manifest(retained, &[desired, observed])
}

pub(crate) fn reflect(script: &Program, object: &Value) -> Result<Value, ScriptError> {
    let status = run(script, Operation::InterpretStatus, &[object])?;
    table(status, Root::Object, &[])
}

/// Returns the template with its new status.
pub(crate) fn aggregate(
    script: &Program,
    object: &Value,
    items: &[AggregatedStatusItem],
) -> Result<Value, ScriptError> {
    let items = encode(items)?;
    let aggregated = run(script, Operation::AggregateStatus, &[object, &items])?;
    manifest(aggregated, &[])
}

pub(crate) fn health(script: &Program, object: &Value) -> Result<bool, ScriptError> {
    match run(script, Operation::InterpretHealth, &[object])? {
        Returned::Bool(healthy) => Ok(healthy),
        other => Err(unexpected("boolean", &other)),
    }
}

pub(crate) fn dependencies(
    script: &Program,
    object: &Value,
) -> Result<Vec<DependentObjectReference>, ScriptError> {
    let list = run(script, Operation::InterpretDependency, &[object])?;
    let list: Vec<DependentObjectReference> =
        decode(table(list, Root::List, &[])?, "list of references")?;
    check_references(&list).map_err(ScriptError::Invalid)?;
    Ok(list)
}

fn manifest(returned: Returned, references: &[&Value]) -> Result<Value, ScriptError> {
    let object = table(returned, Root::Object, references)?;
    let kind = object.get("kind").and_then(Value::as_str);
    if kind.is_none_or(str::is_empty) {
        return Err(ScriptError::Invalid("kind is missing".to_owned()));
    }
    Ok(object)
}

fn table(returned: Returned, root: Root, references: &[&Value]) -> Result<Value, ScriptError> {
    match returned {
        Returned::Table(mut value) => {
            resolve_empty_tables(&mut value, root, references);
            Ok(value)
        }
        other => Err(unexpected("table", &other)),
    }
}

/// Converts a number to an integer, and drops the fraction.
fn int32(returned: &Returned) -> Result<i32, ScriptError> {
    let Returned::Number(number) = returned else {
        return Err(unexpected("number", returned));
    };
    if !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(number) {
        return Err(ScriptError::Invalid(format!(
            "{number} replicas are not a number of 32 bits"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be within the range"
    )]
    Ok(number.trunc() as i32)
}

fn unexpected(expected: &'static str, found: &Returned) -> ScriptError {
    ScriptError::Type {
        expected,
        found: found.type_name(),
    }
}

fn decode<T: DeserializeOwned>(value: Value, what: &'static str) -> Result<T, ScriptError> {
    serde_json::from_value(value).map_err(|source| ScriptError::Shape { what, source })
}

fn encode(value: impl serde::Serialize) -> Result<Value, ScriptError> {
    serde_json::to_value(value).map_err(|source| ScriptError::Shape {
        what: "JSON value",
        source,
    })
}
