//! Tests of the Kubernetes API that the embedded API server implements.
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
mod apply_empty_values;
mod authentication;
mod authorization;
mod builtin_normalization;
mod builtin_validation;
mod cel_compilation;
mod cel_evaluation;
mod cel_rules;
mod client_certificates;
mod content_negotiation;
mod custom_resources;
mod definition_empty_values;
mod deletion;
mod deploy_rbac;
mod differential;
mod discovery;
mod expired_lists;
mod field_selectors;
mod garbage_collection;
mod gitops;
mod go_clients;
mod harness;
mod health;
mod helm;
mod impersonation;
mod k9s;
mod kind_mismatch;
mod kubectl;
mod listing;
mod maintained_objects;
mod malformed_requests;
mod missing_objects;
mod name_references;
mod namespace_deletion;
#[path = "../crash/numbers.rs"]
mod numbers;
mod patching;
mod paths;
mod pod_eviction;
mod pod_resize;
mod pod_updates;
mod priority_classes;
mod privilege_escalation;
mod protobuf;
mod quotas;
mod recorded_creations;
mod recorded_validation_errors;
mod removed_fields;
mod request_bodies;
mod schema_keywords;
mod selector_syntax;
mod server_side_apply;
mod services;
mod slow_clients;
mod status_validation;
mod subresources;
mod tables;
mod token_secrets;
mod tokens;
mod validation_regressions;
mod volume_claims;
mod watching;
mod writing;
