//! The decision log, which records all decisions with their inputs in files. `berth replay` repeats the decisions of a
//! log. The module `recent_decisions` keeps only the last decision about each binding, in memory.
//!
//! ```text
//! Scheduler ──> Recorder ──(bounded channel)──> writer thread ──> DIR/decisions-*.jsonl.gz ──> reader
//! ```
//!
//! Decisions never wait for the log. A decision that does not fit into the channel is dropped and counted, and the log
//! contains a gap entry instead. This module must not depend on the scheduler's task.

mod files;
mod flags;
pub mod format;
mod message;
pub mod reader;
mod recorder;
mod writer;

pub use flags::{DecisionLogFlags, DecisionLogOptions};
pub(crate) use message::DroppedDecisions;
pub(crate) use recorder::Recorder;
