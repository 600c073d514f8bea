//! Karmada's admission webhooks as an HTTPS server, for control planes whose API server is a separate program.
//!
//! The rules are in [`berth_api::admission`]. Berth's embedded API server applies the same rules in process. This crate
//! reads reviews, applies the rules, and writes responses. It must not contain rules, and must not depend on
//! schedulers, controllers or command lines.
//!
//! | module | contents |
//! |---|---|
//! | `server` | listener, TLS, connections, shutdown |
//! | `request_handler` | paths, limits and status codes of HTTP requests |
//! | `request_metrics` | counts and latencies of requests |
//! | `decide` | the admission rules, applied to one review |
//! | `quota_charges` | enforcement of quotas: charges of bindings |
//! | `verdict` | the result of a decision: allowed with a patch, or denied with a reason; the response |
//! | `review` | `AdmissionReview` of the API group `admission.k8s.io` |
//! | `endpoint` | paths, and the resources that each path reviews |
//! | `certificate_manager` | certificates that the replicas issue themselves, in a Secret |

// The derives of metric labels expand to paths into this name.
extern crate berth_metrics as prometheus_client;

mod certificate_manager;
mod decide;
mod endpoint;
mod open_connections;
mod quota_charges;
mod request_handler;
mod request_metrics;
mod review;
mod server;
mod verdict;

use berth_component_base::{certificate_files, serving_certificate};

pub use certificate_files::{CertificateFiles, FileError};
pub use certificate_manager::{
    CertificateManager, CertificateManagerError, CertificateManagerOptions, Clock,
};
pub use decide::{NoExecuteTaints, decide};
pub use endpoint::Endpoint;
pub use quota_charges::QuotaCharges;
pub use request_metrics::RequestMetrics;
pub use review::{AdmissionReview, ReviewError};
pub use server::{MinimumTls, ServerOptions, StartError, WebhookServer};
pub use serving_certificate::{CertificateError, ServingCertificate};
