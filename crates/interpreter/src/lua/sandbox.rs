//! The libraries and functions that scripts may use. Karmada provides the same functions.

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic};

use super::budget::Budget;
use super::convert::type_name;
use super::{first_line, kube, library_limits, os};

/// Functions of the base library that scripts must not call, for example to load code or to change environments.
const FORBIDDEN: [&str; 14] = [
    "collectgarbage",
    "dofile",
    "getfenv",
    "getmetatable",
    "load",
    "loadfile",
    "loadstring",
    "module",
    "newproxy",
    "rawequal",
    "rawget",
    "rawset",
    "setfenv",
    "setmetatable",
];
/// Globals that Karmada's interpreter does not have.
const ABSENT: [&str; 2] = ["coroutine", "gcinfo"];

/// Creates a Lua state with the allowed functions and the limits of a call.
pub(super) fn new_state(budget: &Budget) -> mlua::Result<Lua> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    budget.limit(&lua)?;
    let globals = lua.globals();
    for name in FORBIDDEN {
        globals.raw_set(name, library_limits::refusal(&lua, name)?)?;
    }
    for name in ABSENT {
        globals.raw_set(name, Value::Nil)?;
    }
    // The output of scripts would mix with the output of the program.
    globals.raw_set(
        "print",
        lua.create_function(|_, _: Variadic<Value>| Ok(()))?,
    )?;
    // The original functions of Lua 5.1 do not check the stack. A debug build aborts when they return many values.
    globals.raw_set("pcall", lua.create_function(pcall)?)?;
    globals.raw_set("xpcall", lua.create_function(xpcall)?)?;
    library_limits::restrict(&lua, budget)?;
    let library = os::library(&lua)?;
    library_limits::timed(&lua, &library, budget)?;
    globals.raw_set("os", library)?;
    let library = kube::library(&lua)?;
    library_limits::timed(&lua, &library, budget)?;
    let require = lua.create_function(move |_, name: String| require(&library, &name))?;
    globals.raw_set("require", require)?;
    Ok(lua)
}

/// Implements `pcall(f, ...)`, which returns true and the results of `f`, or false and the error message.
fn pcall(lua: &Lua, (function, arguments): (Value, MultiValue)) -> mlua::Result<MultiValue> {
    let result = match function {
        Value::Function(function) => function.call::<MultiValue>(arguments),
        other => Err(mlua::Error::runtime(format!(
            "attempt to call a {} value",
            type_name(&other)
        ))),
    };
    Ok(match result {
        Ok(mut results) => {
            results.push_front(Value::Boolean(true));
            results
        }
        Err(error) => {
            let message = lua.create_string(first_line(&error))?;
            MultiValue::from_iter([Value::Boolean(false), Value::String(message)])
        }
    })
}

/// Implements `xpcall(f, handler)`, which returns true and the results of `f`, or false and the results of the handler.
fn xpcall(lua: &Lua, (function, handler): (Value, Function)) -> mlua::Result<MultiValue> {
    let mut results = pcall(lua, (function, MultiValue::new()))?;
    if results.front() == Some(&Value::Boolean(true)) {
        return Ok(results);
    }
    results.pop_front();
    let mut values = handler.call::<MultiValue>(results)?;
    values.push_front(Value::Boolean(false));
    Ok(values)
}

fn require(kube: &Table, name: &str) -> mlua::Result<Table> {
    if name == "kube" {
        return Ok(kube.clone());
    }
    Err(mlua::Error::runtime(format!(
        "module {name:?} is not available; the only one is \"kube\""
    )))
}
