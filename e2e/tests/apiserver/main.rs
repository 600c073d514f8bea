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

mod authentication;
mod authorization;
mod cel_compilation;
mod cel_evaluation;
mod cel_rules;
mod client_certificates;
mod content_negotiation;
mod created_objects;
mod custom_resources;
mod defaults;
mod definition_values;
mod definitions;
mod deletion;
mod deploy_rbac;
mod differential;
mod discovery;
mod empty_values;
mod expired_lists;
mod field_selectors;
mod garbage_collection;
mod gitops;
mod go_clients;
mod helm;
mod impersonation;
mod invalid_objects;
mod k9s;
mod kind_mismatch;
mod kubectl;
mod listing;
mod maintained_objects;
mod malformed_requests;
mod missing_objects;
mod namespace_deletion;
mod normalization;
#[path = "../crash/numbers.rs"]
mod numbers;
mod objects;
mod patching;
mod paths;
mod pod_eviction;
mod pod_resize;
mod pod_updates;
mod privilege_escalation;
mod protobuf;
mod quotas;
mod removed_fields;
mod request_bodies;
mod request_validation;
mod schema_keywords;
mod selector_syntax;
mod server;
mod server_side_apply;
mod services;
mod slow_clients;
mod subresources;
mod tables;
mod tokens;
mod validation;
mod volume_claims;
mod watching;
mod workload_status;
mod writing;

pub(crate) use server::server;
