//! Limits on the time and memory of a call.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::debug::HookTriggers;
use mlua::{Lua, VmState};

use super::first_line;
use crate::error::ScriptError;

/// Maximum duration of a call, as in Karmada.
const TIME: Duration = Duration::from_secs(1);
/// Maximum number of instructions of a call. A fast machine needs about one second for them. On a slow machine, the
/// time limit is reached first.
const INSTRUCTIONS: u64 = 200_000_000;
/// Number of instructions between two checks of the limits.
const INTERVAL: u32 = 10_000;
/// Maximum memory of a Lua state, in MiB. An object has at most a few MiB of JSON.
pub(super) const MEMORY_MIB: usize = 64;

/// The limits of one call.
#[derive(Debug)]
pub(super) struct Budget {
    exhausted: Rc<Cell<bool>>,
}

impl Budget {
    /// Starts the limits for a Lua state.
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
            // A script may catch this error, so every further instruction also fails.
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                Err(out_of_time())
            })?;
            Err(out_of_time())
        })?;
        Ok(Self { exhausted })
    }

    /// Converts an error. If the call exceeded a limit, the result names this limit.
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
