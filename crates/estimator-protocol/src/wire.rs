//! The gRPC protocol of the estimators, generated from `proto/` by `hack/update-estimator-protocol.sh`.

#![allow(
    clippy::pedantic,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]

pub mod pb;
pub mod service;
