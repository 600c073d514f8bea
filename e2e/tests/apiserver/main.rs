//! Tests of the Kubernetes API that the embedded API server implements.
//!
//! Requests and their responses are text: the suites in the folder `requests`, which [`request_suites`] runs. The other
//! tests need programs, watches, concurrent requests or generated requests.
//!
//! If `KUBEBUILDER_ASSETS` names a folder with kube-apiserver and etcd, the same tests run against a real
//! kube-apiserver.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::too_many_lines, reason = "tables of cases are long")]

mod access_reviews;
mod aggregated_statuses;
mod authentication;
mod authorization;
mod cel_compilation;
mod cel_evaluation;
mod cel_rules;
mod certificate_approval;
mod client_certificates;
mod concurrent_services;
mod content_negotiation;
mod custom_kinds_in_kubectl;
mod deploy_rbac;
mod differential;
mod discovery;
mod expired_lists;
mod garbage_collection;
mod generated_names;
mod gitops;
mod go_clients;
mod harness;
mod health;
mod helm;
mod huge_patches;
mod impersonation;
mod k9s;
mod kubectl;
mod long_lists;
mod maintained_objects;
mod malformed_requests;
mod namespace_deletion;
#[path = "../crash/numbers.rs"]
mod numbers;
mod paths;
mod pod_resize;
mod pod_updates;
mod privilege_escalation;
mod protobuf;
mod recorded_creations;
mod recorded_validation_errors;
mod request_bodies;
mod request_suites;
mod selector_syntax;
mod slow_clients;
mod tables;
mod token_secrets;
mod tokens;
mod volume_claims;
mod watching;
