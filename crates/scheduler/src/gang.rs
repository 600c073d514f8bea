//! Gangs: bindings that belong together, by the labels of their templates or their own.
//!
//! [`GroupQueueSort`] says which goes first, [`Coscheduling`] that they go together or not at all. A label of
//! the binding itself counts before that of its template.

mod books;
mod coscheduling;
mod membership;
mod queue_sort;

pub use self::coscheduling::Coscheduling;
pub use self::queue_sort::GroupQueueSort;
