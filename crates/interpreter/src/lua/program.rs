//! A Lua script and its bytecode, which all calls share.

use std::sync::{Arc, OnceLock};

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib};

use super::budget::MEMORY_MIB;
use super::first_line;
use crate::error::ScriptError;

/// The name of the script in error messages of Lua.
const NAME: &str = "=script";

/// A script that is compiled at its first use.
#[derive(Debug)]
pub(crate) struct Program {
    text: String,
    /// The bytecode, or the message of the compiler.
    compiled: OnceLock<Result<Arc<[u8]>, String>>,
}

impl Program {
    /// Creates a program. The first use compiles the script.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            compiled: OnceLock::new(),
        }
    }

    /// Returns the source code.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bytecode. Compiles the script at the first call.
    ///
    /// # Errors
    /// When the script does not compile.
    pub(super) fn bytecode(&self) -> Result<&Arc<[u8]>, ScriptError> {
        match self.compiled.get_or_init(|| compile(&self.text)) {
            Ok(bytecode) => Ok(bytecode),
            Err(message) => Err(ScriptError::Syntax(message.clone())),
        }
    }

    /// Loads the bytecode into a Lua state.
    ///
    /// # Errors
    /// When the bytecode is too large for the state.
    pub(super) fn load(lua: &Lua, bytecode: &[u8]) -> mlua::Result<Function> {
        let chunk = lua.load(bytecode).set_name(NAME);
        chunk.set_mode(ChunkMode::Binary).into_function()
    }
}

fn compile(text: &str) -> Result<Arc<[u8]>, String> {
    let compile = || {
        let lua = Lua::new_with(StdLib::NONE, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_MIB << 20)?;
        // Bytecode in place of source text could crash the interpreter.
        let chunk = lua.load(text).set_name(NAME).set_mode(ChunkMode::Text);
        // The debug information is kept, so that errors contain line numbers.
        Ok(chunk.into_function()?.dump(false).into())
    };
    compile().map_err(|error: mlua::Error| first_line(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_compiled_once() {
        let program = Program::new("function f() return 1 end");
        let first = program.bytecode().unwrap().as_ptr();
        assert_eq!(program.bytecode().unwrap().as_ptr(), first);
        assert_eq!(program.text(), "function f() return 1 end");
    }

    #[test]
    fn each_state_has_its_own_globals() {
        let program = Program::new("count = (count or 0) + 1");
        for _ in 0..2 {
            let lua = Lua::new_with(StdLib::NONE, LuaOptions::default()).unwrap();
            let loaded = Program::load(&lua, program.bytecode().unwrap()).unwrap();
            loaded.call::<()>(()).unwrap();
            assert_eq!(lua.globals().get::<i32>("count").unwrap(), 1);
        }
    }
}
