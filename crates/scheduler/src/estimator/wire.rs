//! The gRPC protocol of the estimators, generated from `proto/` by `hack/update-estimator-protocol.sh`.

#![allow(
    clippy::pedantic,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

/// The messages of the protocol.
pub mod pb;
/// The client and the server of the gRPC service.
pub mod service;
