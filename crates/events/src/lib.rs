//! Records Kubernetes events, apart from everything else: an event never delays the work that it tells of.
//!
//! ```text
//! recorders ──> bounded queue ──> writer: one task, which owns the series ──> a few writes at a time ──> API server
//! ```
//!
//! Happenings about the same object with the same severity, reason and message become one Event with a count, as
//! client-go's recorder does it; the count is written a second after it has changed, whatever comes until then. Events
//! about cluster-scoped objects live in the namespace `default`. Events are told as well as possible: where the queue is
//! full, or the server goes on refusing, the log says so and the event is gone.
//!
//! It knows nothing of what is told.

mod happening;
mod recorder;
mod sending;
mod series;
mod writer;

pub use happening::{Happening, Note, Severity};
pub use recorder::EventRecorder;
pub use writer::{EventWriter, Pace};
