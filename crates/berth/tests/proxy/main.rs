//! Tests of the subresource `clusters/NAME/proxy`, with which the API server of `berth up` forwards requests to
//! members.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "this is how a test fails"
)]

mod authorization;
mod backend;
mod forwarding;
mod karmadactl;
mod test_plane;
mod verbs;
