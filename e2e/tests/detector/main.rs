//! The detector on a running control plane: API server, admission rules and detector, and no scheduler.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "json! literals are handed over as they are"
)]
#![expect(unreachable_pub, reason = "a test binary exports nothing")]

mod corpus;
mod life;
mod plane;
mod without_admission;
