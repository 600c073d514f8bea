//! An embedded Kubernetes-style API server.
//!
//! It speaks the Kubernetes API to clients nobody here wrote (kubectl, kube, client-go) and knows nothing of
//! what it is used for: what a write may contain beyond its schema is up to an [`Admission`] hook, and a subresource
//! that leads elsewhere to a [`Connect`] one.
//!
//! | Module | Idea |
//! |---|---|
//! | `server`, `connection`, `tls`, `credentials` | a running instance, its sockets, its keys |
//! | `identity`, `authentication`, `authorization` | who makes a request, how they prove it, what they may do |
//! | `metrics` | what the server counts |
//! | `http` | from bytes to a request on a resource, and back |
//! | `verbs` | what can be asked of a resource; `verbs::pipeline` is the way of every write |
//! | `registry`, `discovery`, `openapi` | which resources there are, and telling clients so |
//! | `schema` | structural schemas: defaulting, pruning, validation, CEL rules |
//! | `builtin` | what is special about built-in kinds |
//! | `limits`, `quota` | how large things may be, and how much of them there may be in a namespace |
//! | `priority`, `allocation` | what is given to pods and services by what else there is |
//! | `webhooks` | the admission webhooks that are registered, and calls to them |
//! | `patch` | JSON, merge, strategic merge and apply |
//! | `store`, `storage` | objects, versions and history in memory; what outlives the process |
//! | `go_text` | JSON values in the words of Go's messages |
//! | `table`, `selector` | the human view; what a request selects |
//! | `tasks` | garbage collection, namespaces, event expiry |
//!
//! Arrows point down the table: `store` knows neither kinds nor HTTP, `patch` and `schema` are pure functions.

mod admission;
mod allocation;
mod authentication;
mod authorization;
mod builtin;
mod clock;
mod connect;
mod connection;
mod credentials;
mod discovery;
mod error;
mod go_text;
mod http;
mod identity;
mod limits;
mod metrics;
mod openapi;
mod patch;
mod priority;
mod protobuf;
mod quota;
mod registry;
mod resizing;
mod schema;
mod selector;
mod server;
mod shared;
mod storage;
mod store;
mod table;
mod tasks;
mod tls;
mod verbs;
mod webhooks;

pub use admission::{Admission, AdmissionRequest, Cause, Denial, GroupResource, Operation};
pub use axum::body::Body;
pub use connect::{Connect, ConnectRequest, ConnectedSubresource, Requester};
pub use error::{ApiError, Reason};
pub use http::load::{Limits, Share};
pub use identity::ADMIN;
pub use server::{Reachability, Server, ServerConfig, StartError};
pub use storage::data_dir::{DataDir, DataDirError};
pub use storage::durable::Durable;
pub use storage::{
    Durability, Kept, Object, Past, Progress, Record, Storage, StorageError, Undo, Undone,
    Volatile, Written,
};
pub use tls::{ClientCertificate, TlsError};
