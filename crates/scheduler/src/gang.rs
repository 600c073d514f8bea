//! Gang scheduling. A gang is a group of bindings that are placed together or not at all. Labels of a binding, or of
//! its template, name the gang of the binding.
//!
//! The plugin [`Coscheduling`] places at least the minimum number of members of a gang, or none. A label of the binding
//! overrides the same label of its template.

mod coscheduling;
mod gang_state;
mod membership;

pub(crate) use self::coscheduling::Coscheduling;
pub(crate) use self::membership::gang_by_labels;
