//! End-to-end tests of the detector with an API server and admission rules, but without a scheduler.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "tests pass json! literals by value"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod corpus;
mod fixture;
mod lifecycle;
mod webhook;
mod without_admission;
