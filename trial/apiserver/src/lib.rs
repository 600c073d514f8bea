//! An embedded Kubernetes API server for kubectl, kube-rs, client-go and Karmada.
//!
//! This crate must not know Karmada, scheduling, or any other purpose for which a program embeds it. An [`Admission`]
//! hook decides about writes beyond their schema, and a [`Connect`] handler serves a subresource that leads to another
//! server.
//!
//! Modules form layers. A module imports only modules of its own layer and of lower layers, without cycles. The test
//! `e2e/tests/layers/imports.rs` checks these imports.
//!
//! | Layer | Modules |
//! |---|---|
//! | server | `server` `connection` `credentials` |
//! | http | `http`: authentication, routing, rendering, discovery, OpenAPI |
//! | tasks | `tasks`: garbage collection, namespace deletion, event expiry and other background work |
//! | verbs | `verbs`: one module for each verb; `verbs::pipeline` is the path of every write |
//! | shared state | `shared` `metrics` |
//! | access | `authentication` `authorization` `tls` `in_flight` `webhook_registry` `allocation` |
//! | registry | `registry`: the served resources, built-in and custom |
//! | built-in kinds | `builtins`: defaults, validation and warnings; `selector` |
//! | patch | `patch`: JSON, merge, strategic merge and apply patches |
//! | resource | `resource`: scope, schema and columns of one resource; `text_rules`: syntax of names, labels, ports and addresses |
//! | store | `store` (in memory) `storage` (on disk) |
//! | schema | `schema` `codec` `table` |
//! | leaves | `error` `identity` `query` `admission` `connect` `cel` `protobuf` `clock` `table_names` `go_text` `percent_encoding` |
//!
//! A verb takes a call and returns values. Status codes, tables and content types belong to `http`.

// The derives of metric labels expand to paths into this name.
extern crate berth_metrics as prometheus_client;

mod admission;
mod allocation;
mod authentication;
mod authorization;
mod builtins;
mod cel;
mod clock;
mod codec;
mod connect;
mod connection;
mod credentials;
mod error;
mod go_text;
mod http;
mod identity;
mod in_flight;
mod metrics;
mod patch;
mod percent_encoding;
mod protobuf;
mod query;
mod registry;
mod resource;
mod schema;
mod selector;
mod server;
mod shared;
mod storage;
mod store;
mod table;
mod table_names;
mod tasks;
mod text_rules;
mod tls;
mod verbs;
mod webhook_registry;

pub use admission::{
    Accounts, Admission, AdmissionRequest, Cause, Denial, GroupResource, Operation,
};
pub use axum::body::Body;
pub use connect::{Connect, ConnectRequest, ConnectedSubresource, Requester};
pub use error::{ApiError, Reason};
pub use identity::ADMIN;
pub use in_flight::Limits;
pub use server::{Reachability, Server, ServerConfig, StartError};
pub use storage::data_dir::{DataDir, DataDirError};
pub use storage::durable::Durable;
pub use storage::{
    Durability, Kept, Object, Past, Progress, Record, Storage, StorageError, Undo, Undone,
    Volatile, Written,
};
pub use tls::{ClientCertificate, TlsError};
