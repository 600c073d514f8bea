//! End-to-end tests of the detector, the controller that creates bindings for templates that policies select. The tests
//! run an API server, in most tests with Karmada's admission rules, and no scheduler.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]
#![expect(
    clippy::needless_pass_by_value,
    reason = "tests pass json! literals by value"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod corpus;
mod fixture;
mod lifecycle;
mod webhook_fixture;
mod webhook_restart;
mod without_admission;
