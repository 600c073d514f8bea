//! A recorder of Kubernetes events that never delays its callers and never floods the API server.
//!
//! ```text
//! recorders ──> bounded queue ──> writer: one task, which owns the correlator ──> a few writes at a time ──> API server
//!
//! correlator: aggregator (combines similar messages) ──> series (counts repetitions) ──> spam filter (limits writes)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `event` | events as callers describe them |
//! | `recorder` | the sending half, which never waits |
//! | `correlator` | the rules, as pure state: `aggregator`, `series`, `spam_filter`, and their keys in `series_key` |
//! | `writer`, `event_client` | the writing task; one write with its retries |
//! | `naming` | names of events |
//!
//! The rules are those of client-go's recorder, which all components of Karmada use:
//!
//! | events | rule |
//! |---|---|
//! | same source, object, field path, type, reason and message | one event; repetitions patch `count`, `lastTimestamp` and `message` |
//! | same except for field path and message | the first nine messages have their own events; later ones share one: `(combined from similar events): ` and the latest message. The count restarts after ten minutes without an event |
//! | same source, type and object | 25 writes, plus one every five minutes; suppressed events are counted and written with the next allowed one |
//! | an expired event | is re-created with its name, count and first timestamp |
//! | name | `<object>.<first timestamp in nanoseconds, hex>`, or a UUID if that is not a valid name |
//! | namespace | that of the object; `default` for cluster-scoped objects |
//! | capacity of each cache | 4096 entries, least recently used ones are evicted |
//!
//! Differences from client-go:
//!
//! | aspect | client-go | here | reason |
//! |---|---|---|---|
//! | repetitions within a second | one write each | one write | same count at a lower cost |
//! | messages with their own events | any nine | the first nine | known messages keep counting |
//! | `reportingComponent` of combined events | absent | present | consistency |
//! | concurrent writes | one | four, which briefly yield to more urgent work | a slow response delays few events |
//! | queue length | 1000 | 100,000 | a whole fleet may be scheduled at once |
//! | unhealthy server (5xx, 429) | drops the event unless the response has a retry delay | retries 12 times, after 0.1 s to 5 s, as for an unreachable server | |
//!
//! Recording is best effort: if the queue is full or the server keeps rejecting events, they are logged and
//! lost.

mod aggregator;
mod correlator;
mod event;
mod event_client;
#[cfg(test)]
mod fixtures;
mod naming;
mod recorder;
mod series;
mod series_key;
mod spam_filter;
mod writer;

pub use event::{Event, Note, Severity};
pub use recorder::EventRecorder;
pub use writer::{EventWriter, RateLimiter};
