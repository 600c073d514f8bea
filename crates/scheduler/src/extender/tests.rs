//! Extenders against servers of the tests: decisions are made in rounds as the service makes them.

mod bound;
mod chained;
mod connected;
mod example;
mod failing;
mod fake;
mod preempted;
mod rounds;
mod secured;
