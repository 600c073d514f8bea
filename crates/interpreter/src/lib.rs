//! The resource interpreter, which knows the fields of kinds. It reads replicas, requirements and dependencies from
//! templates, and sets replicas in manifests. It retains fields that members own, selects and aggregates status, and
//! reports health.
//!
//! As in Karmada, the first layer that has a rule for a kind and an [`Operation`] performs the operation:
//!
//! | layer | module |
//! |---|---|
//! | Lua scripts of ResourceInterpreterCustomizations | `customizations`, `lua` |
//! | webhooks of ResourceInterpreterWebhookConfigurations | `webhooks` |
//! | rules for kinds of other projects | `third_party` |
//! | rules for Kubernetes' own kinds | `native` |
//!
//! All operations are functions over JSON. The crate must not know clients, runtimes, policies, placements or its
//! callers.
//!
//! The caller reads customizations, and passes them to [`Interpreter::load`]. The caller also calls the webhooks:
//! [`Answers`] contains the open requests, and receives the responses.

mod admission;
mod check_dependencies;
mod customizations;
mod error;
mod interpreter;
mod lua;
mod native;
mod operation;
mod scripted;
mod third_party;
mod webhooks;
mod workload_requirements;

pub use admission::check_scripts;
pub use error::{ConvertError, InterpretError, ScriptError};
pub use interpreter::{Interpreter, has_built_in_replicas};
pub use lua::check_syntax;
pub use native::revise_completions;
pub use operation::Operation;
pub use webhooks::{Answer, Answers, Webhook, WebhookError, WebhookRequest, names_kind};
pub use workload_requirements::Interpretation;
