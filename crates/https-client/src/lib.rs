//! The HTTPS client of webhooks, extenders and trace collectors.
//!
//! - [`Client`] keeps connections open between requests, and limits the size of responses and the time of calls.
//! - [`tls`] contains the certificates that a client accepts, and the certificate that it presents.
//! - [`WebhookClient`] calls an admission webhook or an interpreter webhook.
//!
//! The crate is independent of Kubernetes objects and of the format of requests. The caller resolves Services to
//! addresses. Clients of API servers have a transport of their own, in `berth-component-base`; it shares the
//! [`ServerVerifier`].

mod any_certificate;
mod client;
mod server_verifier;
pub mod tls;
mod webhook;

pub use client::{Client, ClientError, Limits, ResponseBody, Scheme, TcpConnector, direct};
pub use server_verifier::ServerVerifier;
pub use webhook::{Host, Resolver, Target, WebhookClient, WebhookClientError};
