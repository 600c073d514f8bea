//! The gRPC protocol of Karmada's estimators, which the scheduler's client and the estimator's server share.
//!
//! - [`wire`] contains the generated messages, the client and the trait of the server.
//! - [`kubernetes_types`] encodes and decodes the Kubernetes types that the messages contain as bytes.
//! - `fields` reads these types from the messages of clients of every version.
//!
//! The crate must not contain connections, and knows nothing about estimates.

mod fields;
pub mod kubernetes_types;
pub mod wire;
