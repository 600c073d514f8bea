//! Limits on the time and memory of a call.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::debug::HookTriggers;
use mlua::{Lua, VmState};

use super::first_line;
use crate::error::ScriptError;

/// Maximum duration of a call, as in Karmada.
pub(super) const TIME: Duration = Duration::from_secs(1);
/// Maximum number of instructions of a call. A fast machine needs about one second for them. On a slow machine, the
/// time limit is reached first.
const INSTRUCTIONS: u64 = 200_000_000;
/// Number of instructions between two checks of the limits. A single instruction can copy a string of many MiB.
const INTERVAL: u32 = 1_000;
/// Maximum memory of a Lua state, in MiB. An object has at most a few MiB of JSON.
pub(super) const MEMORY_MIB: usize = 64;

/// The limits of one call. Clones share the limits.
#[derive(Clone, Debug)]
pub(super) struct Budget(Rc<State>);

#[derive(Debug)]
struct State {
    deadline: Instant,
    instructions: Cell<u64>,
    exhausted: Cell<bool>,
}

impl Budget {
    /// Starts the time of a call.
    pub(super) fn start() -> Self {
        Self(Rc::new(State {
            deadline: Instant::now() + TIME,
            instructions: Cell::new(0),
            exhausted: Cell::new(false),
        }))
    }

    /// Sets the limits of a Lua state.
    pub(super) fn limit(&self, lua: &Lua) -> mlua::Result<()> {
        lua.set_memory_limit(MEMORY_MIB << 20)?;
        let budget = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INTERVAL);
        lua.set_hook(triggers, move |lua, _| {
            let instructions = budget.0.instructions.get() + u64::from(INTERVAL);
            budget.0.instructions.set(instructions);
            if instructions >= INSTRUCTIONS {
                budget.0.exhausted.set(true);
            }
            if budget.check().is_ok() {
                return Ok(VmState::Continue);
            }
            // A script may catch this error, so every further instruction also fails.
            lua.set_hook(HookTriggers::new().every_nth_instruction(1), |_, _| {
                Err(out_of_time())
            })?;
            Err(out_of_time())
        })
    }

    /// Fails when the call has exceeded its limits. Functions of the libraries call this before they work, because the
    /// hook counts such a call as one instruction.
    pub(super) fn check(&self) -> mlua::Result<()> {
        if !self.0.exhausted.get() && Instant::now() < self.0.deadline {
            return Ok(());
        }
        self.0.exhausted.set(true);
        Err(out_of_time())
    }

    /// Fails when the call has exceeded its limits, also if it has a result.
    pub(super) fn finish(&self) -> Result<(), ScriptError> {
        self.check()
            .map_err(|_| ScriptError::Timeout(TIME.as_millis()))
    }

    /// Converts an error. If the call exceeded a limit, the result names this limit.
    pub(super) fn explain(&self, error: &mlua::Error) -> ScriptError {
        if self.0.exhausted.get() {
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
