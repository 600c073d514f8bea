//! Limits of the time and memory of a call.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::debug::HookTriggers;
use mlua::{Lua, VmState};

use super::first_line;
use crate::error::ScriptError;

/// Maximum duration of a call, as in Karmada.
const TIME: Duration = Duration::from_secs(1);
/// Maximum instructions of a call. A second of a fast machine; on a slow one the time ends first.
const INSTRUCTIONS: u64 = 200_000_000;
/// Instructions between two looks at the clock.
const INTERVAL: u32 = 10_000;
/// Maximum memory of a state, in MiB. An object has at most a few MiB of JSON.
pub(super) const MEMORY_MIB: usize = 64;

/// The limits of one call.
#[derive(Debug)]
pub(super) struct Budget {
    exhausted: Rc<Cell<bool>>,
}

impl Budget {
    /// Limits a state from this moment on.
    pub(super) fn start(lua: &Lua) -> mlua::Result<Self> {
        lua.set_memory_limit(MEMORY_MIB << 20)?;
        let exhausted = Rc::new(Cell::new(false));
        let flag = Rc::clone(&exhausted);
        let (deadline, done) = (Instant::now() + TIME, Cell::new(0_u64));
        let triggers = HookTriggers::new().every_nth_instruction(INTERVAL);
        lua.set_hook(triggers, move |lua, _| {
            done.set(done.get() + u64::from(INTERVAL));
            if done.get() < INSTRUCTIONS && Instant::now() < deadline {
                return Ok(VmState::Continue);
            }
            flag.set(true);
            // A script may catch the error: every further instruction fails, too.
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                Err(out_of_time())
            })?;
            Err(out_of_time())
        })?;
        Ok(Self { exhausted })
    }

    /// Converts an error, with the exceeded limit as the cause.
    pub(super) fn explain(&self, error: &mlua::Error) -> ScriptError {
        if self.exhausted.get() {
            return ScriptError::Timeout(TIME.as_millis());
        }
        let message = first_line(error);
        if matches!(error, mlua::Error::MemoryError(_)) || message.contains("not enough memory") {
            return ScriptError::Memory(MEMORY_MIB);
        }
        ScriptError::Runtime(message)
    }
}

fn out_of_time() -> mlua::Error {
    mlua::Error::runtime("out of time")
}
