//! A recorder of Kubernetes events that never delays its callers and never floods the API server.
//!
//! ```text
//! recorders ──> bounded queue ──> writer: one task, which owns the correlator ──> a few writes ──> API server
//!
//! correlator: aggregator (combines similar messages) ──> series (counts repetitions) ──> spam filter (limits writes)
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `event` | the types of events |
//! | `recorder` | the recorder, which queues events and never waits |
//! | `correlator` | the rules with their state: `aggregator`, `series` and `spam_filter`, with their keys in `series_key` |
//! | `writer`, `event_client` | the task that writes events, and the client that writes one event with retries |
//! | `naming` | names of events |
//!
//! The rules are the same as in client-go's recorder, which all components of Karmada use:
//!
//! | subject | rule |
//! |---|---|
//! | same source, object, field path, type, reason and message | share one event. Repetitions patch `count`, `lastTimestamp` and `message` |
//! | same source, object, type and reason | the first nine messages have their own events. Later messages share one event with the message `(combined from similar events): ` and the latest message. After ten minutes without an event, nine new messages have their own events again |
//! | same source, type and object | cause at most 25 writes, plus one every five minutes. Suppressed events are counted, and the next allowed write contains the count |
//! | an expired event | is created again with its name, count and first timestamp |
//! | name of an event | `<object>.<first timestamp in nanoseconds, hex>`, or a UUID if this name is invalid |
//! | namespace of an event | the namespace of the object, or `default` for cluster-scoped objects |
//! | capacity of each cache | 4096 entries. A full cache evicts its least recently used entry |
//!
//! Differences from client-go:
//!
//! | aspect | client-go | here | reason |
//! |---|---|---|---|
//! | repetitions within a second | one write each | one write | same count at a lower cost |
//! | messages with their own events | any nine | the first nine | repetitions of these messages are still counted |
//! | `reportingComponent` of combined events | absent | present | consistency |
//! | concurrent writes | one | four, which briefly yield to more urgent work | a slow response delays few events |
//! | queue length | 1000 | 100,000 | a scheduler may place all bindings at once |
//! | unhealthy server (5xx, 429) | drops the event unless the response has a retry delay | tries 12 times, with pauses of 0.1 s to 5 s, as for an unreachable server | fewer lost events |
//!
//! Recording is best effort. If the queue is full, or if the server keeps rejecting an event, the event is lost and a
//! warning is logged.

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
