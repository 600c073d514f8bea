//! Lua 5.1 in a sandbox. A script is compiled once. Each call runs in a new Lua state, so a call cannot affect later
//! calls.
//!
//! | module | contents |
//! |---|---|
//! | `program` | a script and its bytecode |
//! | `sandbox` | the libraries and functions that scripts may use |
//! | `library_limits` | limits on the cost of patterns and strings |
//! | `budget` | limits on time and memory |
//! | `threads` | the threads on which scripts run |
//! | `os` | `os.time` and `os.date` |
//! | `kube` | the Lua library `kube` |
//! | `convert` | conversion of JSON to Lua values, and back |
//! | `empty_tables` | conversion of empty tables to lists or objects |

mod budget;
mod convert;
mod empty_tables;
mod kube;
mod library_limits;
mod os;
mod program;
mod sandbox;
mod threads;

use std::sync::Arc;
use std::time::Duration;

use mlua::MultiValue;
use serde_json::Value;

use self::budget::Budget;
pub(crate) use self::empty_tables::{Root, resolve_empty_tables};
pub(crate) use self::program::Program;
use self::threads::NoResult;
use crate::error::ScriptError;

/// Time for which a caller waits beyond the limit of a call. A script that exceeds the limit usually ends in this time.
const GRACE: Duration = Duration::from_millis(250);

/// A value that a script returned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Returned {
    Nil,
    Bool(bool),
    Number(f64),
    /// A table, converted to JSON. An empty table becomes an empty list.
    Table(Value),
    /// A value of another type, with the name of the type.
    Other(&'static str),
}

impl Returned {
    /// Returns the Lua name of the value's type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Table(_) => "table",
            Self::Other(name) => name,
        }
    }
}

/// Checks that a script compiles.
///
/// # Errors
/// When the script does not compile.
pub fn check_syntax(script: &str) -> Result<(), ScriptError> {
    Program::new(script).bytecode().map(|_| ())
}

/// Runs a script on a thread of its own, calls one of the functions that the script declares, and returns the first `N`
/// results.
///
/// # Errors
/// When the script fails, exceeds its [`Budget`], or returns a table that cannot be converted to JSON. Also when no
/// thread is free.
pub(crate) fn call<const N: usize>(
    script: &Program,
    function: &'static str,
    arguments: &[&Value],
) -> Result<[Returned; N], ScriptError> {
    let bytecode = Arc::clone(script.bytecode()?);
    let arguments: Vec<Value> = arguments.iter().copied().cloned().collect();
    let call = move || call_here(&bytecode, function, &arguments);
    match threads::run(budget::TIME + GRACE, call) {
        Ok(result) => result,
        Err(NoResult::Late) => Err(ScriptError::Timeout(budget::TIME.as_millis())),
        Err(NoResult::Busy) => Err(ScriptError::Busy),
        Err(NoResult::Failed) => Err(ScriptError::Runtime("the script's thread failed".into())),
    }
}

fn call_here<const N: usize>(
    bytecode: &[u8],
    function: &'static str,
    arguments: &[Value],
) -> Result<[Returned; N], ScriptError> {
    let budget = Budget::start();
    let failed = |error: mlua::Error| budget.explain(&error);
    let lua = sandbox::new_state(&budget).map_err(failed)?;
    let chunk = Program::load(&lua, bytecode).map_err(failed)?;
    chunk.call::<()>(()).map_err(failed)?;
    let entry: mlua::Value = lua.globals().raw_get(function).map_err(failed)?;
    let mlua::Value::Function(entry) = entry else {
        return Err(ScriptError::NoFunction(
            function,
            convert::type_name(&entry),
        ));
    };
    let arguments: Result<MultiValue, mlua::Error> = arguments
        .iter()
        .map(|argument| convert::to_lua(&lua, argument))
        .collect();
    let results: MultiValue = entry.call(arguments.map_err(failed)?).map_err(failed)?;
    // The last function that the script called may have taken too long.
    budget.finish()?;
    let mut results = results.into_iter();
    let mut returned = [const { Returned::Nil }; N];
    for slot in &mut returned {
        *slot = returned_value(results.next().unwrap_or(mlua::Value::Nil))?;
    }
    Ok(returned)
}

fn returned_value(value: mlua::Value) -> Result<Returned, ScriptError> {
    Ok(match value {
        mlua::Value::Nil => Returned::Nil,
        mlua::Value::Boolean(value) => Returned::Bool(value),
        #[expect(clippy::cast_precision_loss, reason = "numbers of Lua 5.1 are doubles")]
        mlua::Value::Integer(number) => Returned::Number(number as f64),
        mlua::Value::Number(number) => Returned::Number(number),
        mlua::Value::Table(_) => Returned::Table(convert::to_json(&value)?),
        other => Returned::Other(convert::type_name(&other)),
    })
}

/// Returns the message of an error, without the traceback.
fn first_line(error: &mlua::Error) -> String {
    let mut cause = error;
    while let mlua::Error::CallbackError { cause: inner, .. } = cause {
        cause = inner;
    }
    let text = match cause {
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
