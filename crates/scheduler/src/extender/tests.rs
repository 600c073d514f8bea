//! Extenders against servers of the tests: decisions are made in rounds as the service makes them.

mod bound;
mod chained;
mod connected;
mod example;
mod failing;
pub(crate) mod fake;
mod preempted;
pub(crate) mod rounds;
mod secured;
