//! Tests of the pure core: properties of its answers, and the time that answers take.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and a measurement prints its results"
)]

mod objects;
mod properties;
mod timing;
