//! From Works back to the binding and the template: what the members report, added up.
//!
//! [`aggregated`] is pure; [`writer`] reads and writes. Nothing here knows members: what they say is in the
//! status of the Works.

pub mod aggregated;
pub(crate) mod writer;
