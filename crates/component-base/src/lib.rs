//! Parts of every long-running component: the HTTP endpoints of probes and metrics, and the metrics that each of them
//! exports.
//!
//! It knows no component, no Kubernetes client and no API type.
//!
//! | module | contents |
//! |---|---|
//! | [`endpoints`] | `/healthz`, `/livez`, `/readyz` and `/metrics`, and the server for them |
//! | [`access`] | access to metrics and configuration |
//! | `secure_listener`, [`serving_certificate`], [`certificate_files`] | TLS of a server, with a certificate that can be replaced |
//! | [`bind_address`] | the address flags of the endpoints |
//! | [`metrics`] | text format, families, histograms; metrics of process, build, client requests, work queues and leader election |

pub mod access;
pub mod bind_address;
pub mod certificate_files;
pub mod endpoints;
pub mod metrics;
mod secure_listener;
pub mod serving_certificate;
