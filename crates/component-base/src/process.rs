//! Building blocks that every Berth program shares: command line, log output, signals and the async runtime.

pub mod accepted_flags;
pub mod command_line;
pub mod logging;
pub mod runtime;
pub mod shared_flags;
pub mod signals;
