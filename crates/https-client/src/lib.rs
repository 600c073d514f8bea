//! The HTTPS client of a webhook: pooled connections, bounded responses, and a time limit for each call.
//!
//! The crate is independent of Kubernetes objects and of the format of requests. The caller resolves Services to
//! addresses.

mod any_certificate;
mod server_verifier;
pub mod tls;
mod webhook;

pub use any_certificate::AnyCertificate;
pub use server_verifier::ServerVerifier;
pub use webhook::{Client, ClientError, Resolver, Target};
