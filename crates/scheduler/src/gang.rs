//! Gang scheduling of bindings that belong together by labels of the binding or its template.
//!
//! [`GroupQueueSort`] orders gangs in the queue, [`Coscheduling`] places all members of a gang or none. A label
//! of the binding overrides that of its template.

mod coscheduling;
mod gang_state;
mod membership;
mod queue_sort;

pub(crate) use self::coscheduling::Coscheduling;
pub(crate) use self::membership::gang_by_labels;
pub(crate) use self::queue_sort::GroupQueueSort;
