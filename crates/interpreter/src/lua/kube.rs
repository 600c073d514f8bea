//! The Lua library `kube`: quantities, and the requirements and dependencies of pods.

use berth_api::quantity::Quantity;
use mlua::{Lua, MultiValue, Table, Value as LuaValue, Variadic};
use serde_json::Value;

use super::convert::{to_json, to_lua, type_name};
use super::empty_tables::{Root, resolve_empty_tables};
use crate::native::{pod_dependencies, pod_requirements};

/// Creates the library `kube`.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    for (name, function) in [
        ("resourceAdd", lua.create_function(resource_add)?),
        (
            "accuratePodRequirements",
            lua.create_function(accurate_pod_requirements)?,
        ),
        (
            "getPodDependencies",
            lua.create_function(get_pod_dependencies)?,
        ),
        (
            "getResourceQuantity",
            lua.create_function(get_resource_quantity)?,
        ),
    ] {
        library.raw_set(name, function)?;
    }
    Ok(library)
}

/// Implements `kube.resourceAdd(q1, q2, ...)`, which returns the sum of quantities. A nil counts as zero.
fn resource_add(_: &Lua, arguments: Variadic<LuaValue>) -> mlua::Result<String> {
    let mut sum = Quantity::default();
    for argument in arguments.iter() {
        sum = sum + quantity(argument)?;
    }
    Ok(sum.to_string())
}

/// Implements `kube.accuratePodRequirements(podTemplate)`, which returns the requirements of a pod, or nil if the
/// pod has none.
fn accurate_pod_requirements(lua: &Lua, arguments: MultiValue) -> mlua::Result<LuaValue> {
    let [template] = exactly("accuratePodRequirements", arguments)?;
    let requirements = pod_requirements(&pod_template(&template)?);
    match requirements.map_err(mlua::Error::runtime)? {
        Some(requirements) => to_lua(lua, &requirements),
        None => Ok(LuaValue::Nil),
    }
}

/// Implements `kube.getPodDependencies(podTemplate, namespace)`, which returns the objects that a pod references.
fn get_pod_dependencies(lua: &Lua, arguments: MultiValue) -> mlua::Result<LuaValue> {
    let [template, namespace] = exactly("getPodDependencies", arguments)?;
    let namespace = match namespace {
        LuaValue::Nil => "default".to_owned(),
        LuaValue::String(name) => name.to_string_lossy(),
        other => return Err(wrong_type("namespace", "string", &other)),
    };
    let dependencies = pod_dependencies(&pod_template(&template)?, &namespace);
    let dependencies = dependencies.map_err(mlua::Error::runtime)?;
    to_lua(
        lua,
        &serde_json::to_value(dependencies).map_err(mlua::Error::external)?,
    )
}

/// Implements `kube.getResourceQuantity(q)`, which returns a quantity as a number. A nil counts as zero.
fn get_resource_quantity(_: &Lua, arguments: MultiValue) -> mlua::Result<f64> {
    let [text] = exactly("getResourceQuantity", arguments)?;
    let number = quantity(&text)?.ratio(Quantity::from_integer(1));
    if number < 0.0 {
        return Err(mlua::Error::runtime("the quantity is negative"));
    }
    Ok(number)
}

fn exactly<const N: usize>(function: &str, arguments: MultiValue) -> mlua::Result<[LuaValue; N]> {
    let count = arguments.len();
    let arguments: Vec<LuaValue> = arguments.into_iter().collect();
    arguments
        .try_into()
        .map_err(|_| mlua::Error::runtime(format!("{function} takes {N} argument(s), not {count}")))
}

fn quantity(value: &LuaValue) -> mlua::Result<Quantity> {
    match value {
        LuaValue::Nil => Ok(Quantity::default()),
        LuaValue::String(text) => {
            let text = text.to_string_lossy();
            Quantity::parse(&text)
                .map_err(|error| mlua::Error::runtime(format!("quantity {text:?}: {error}")))
        }
        other => Err(wrong_type("quantity", "string", other)),
    }
}

fn pod_template(value: &LuaValue) -> mlua::Result<Value> {
    if !value.is_table() {
        return Err(wrong_type("pod template", "table", value));
    }
    let mut template = to_json(value).map_err(mlua::Error::runtime)?;
    resolve_empty_tables(&mut template, Root::Object, &[]);
    Ok(template)
}

fn wrong_type(what: &str, expected: &str, found: &LuaValue) -> mlua::Error {
    mlua::Error::runtime(format!(
        "the {what} must be a {expected}, not a {}",
        type_name(found)
    ))
}
