//! API conformance: the same assertions for the embedded server and, if `KUBEBUILDER_ASSETS` names a folder with
//! kube-apiserver and etcd, for a real one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::too_many_lines, reason = "tables of cases are long")]

mod absent;
mod answers;
mod applying;
mod asked;
mod auth;
mod bodies;
mod cel;
mod certificates;
mod claims;
mod conversions;
mod custom;
mod definitions;
mod deletion;
mod deploy;
mod discovery;
mod documents;
mod drawn;
mod emptied;
mod expiry;
mod fields;
mod garbage;
mod gitops;
mod given;
mod given_up;
mod go_clients;
mod granting;
mod helm;
mod hostile;
mod impersonation;
mod invalid;
mod k9s;
mod kept;
mod keywords;
mod kinds;
mod kubectl;
mod listing;
mod namespaces;
#[path = "../crash/numbers.rs"]
mod numbers;
mod objects;
mod own_objects;
mod patching;
mod paths;
mod pods;
mod pods_eviction;
mod pods_resize;
mod protobuf;
mod quotas;
mod refusals;
mod rights;
mod rule_names;
mod rule_values;
mod selectors;
mod server;
mod services;
mod statuses;
mod subresources;
mod tables;
mod tokens;
mod unread;
mod validation;
mod warned;
mod watching;
mod writing;

pub(crate) use server::server;
