//! Records Kubernetes events, apart from everything else: an event never delays the work that it tells of, and nothing
//! that fails for hours, in whatever words, fills a server with them.
//!
//! ```text
//! recorders ──> bounded queue ──> writer: one task, which owns the correlator ──> a few writes at a time ──> API server
//!
//! correlator: similar (which words are one too many) ──> series (what is counted) ──> budget (what may be written)
//! ```
//!
//! What a user sees is what client-go's recorder, which every component of Karmada has, makes of the same happenings:
//!
//! | what | rule |
//! |---|---|
//! | the same source, object, part of it, type, reason and message | one event; further happenings patch `count`, `lastTimestamp` and `message` |
//! | the same but for part and message | nine messages have events of their own; all others share one: `(combined from similar events): ` and the latest message. After more than ten minutes without any it begins anew |
//! | all of a source and a type about an object | 25 writes, and one more in five minutes; what is not written is counted, and written with the next happening that may be |
//! | an event that has expired | is created again under its name, with its count and its first time |
//! | name | `<object>.<nanoseconds of the first happening, in hex>`, or a UUID where that is no name |
//! | namespace | that of the object; `default` for objects without one |
//! | what is remembered of each of the three | 4096, the most recently used |
//!
//! And where it differs:
//!
//! | what | client-go | here | why |
//! |---|---|---|---|
//! | repetitions within a second | a write each | one write, which spends one | the count is true, and costs less |
//! | which nine messages keep their events | any | the first | a message that was told counts up where it stands |
//! | `reportingComponent` of a combined event | none | as of all others | |
//! | writes at once | one | four, which leave way to more urgent work for a moment each | a slow answer delays few |
//! | happenings that wait | 1000 | 100,000 | a fleet is placed in one go |
//! | a server that is not well (5xx, 429) | the event is given up, unless the answer says when to come back | it is sent again, as where it cannot be reached: 12 times, after 0.1 s to 5 s | |
//!
//! Events are told as well as possible: where the queue is full, or the server goes on refusing, the log says so and the
//! event is gone until it happens again.
//!
//! It knows nothing of what is told.

mod budget;
mod correlator;
#[cfg(test)]
mod examples;
mod happening;
mod naming;
mod recorder;
mod sending;
mod series;
mod similar;
mod source;
mod subject;
mod writer;

pub use happening::{Happening, Note, Severity};
pub use recorder::EventRecorder;
pub use writer::{EventWriter, Pace};
