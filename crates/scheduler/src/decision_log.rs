//! Log of decisions with all their inputs, from which each decision can be made again.
//!
//! ```text
//! Scheduler ──> Recorder ──(bounded channel)──> writer thread ──> DIR/decisions-*.jsonl.gz ──> reader
//! ```
//!
//! Decisions never wait for the log: an entry that does not fit into the channel is dropped and counted, and the log
//! contains a gap. Must not know: how decisions are made.

pub mod files;
pub mod flags;
pub mod format;
pub mod message;
pub mod reader;
pub mod recorder;
mod writer;

pub use flags::{DecisionLogFlags, DecisionLogOptions};
pub use message::{DecisionInput, DroppedEntries};
pub use recorder::Recorder;
