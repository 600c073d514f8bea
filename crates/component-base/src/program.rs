//! Building blocks that every Berth program shares: command line, ignored flags, log output, progress messages, signals
//! and the async runtime.

pub mod command_line;
pub mod ignored_common_flags;
pub mod ignored_flags;
pub mod logging;
mod memory_peaks;
pub mod progress;
pub mod runtime;
pub mod signals;
