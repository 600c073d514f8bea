//! The HTTPS client of a webhook: pooled connections, bounded responses, and a time limit for each call.
//!
//! The crate is independent of Kubernetes objects and of the format of requests. The caller resolves Services to
//! addresses.

mod client;

pub use client::{Client, ClientError, Resolver, Target};
