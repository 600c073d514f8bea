//! The resource interpreter: what the control plane knows about the fields of kinds. For each object it reads replicas,
//! requirements and dependencies, sets replicas, keeps fields that members own, and reports, combines and judges status.
//!
//! The first of these that has a rule for a kind and an [`Operation`] decides, as in Karmada:
//!
//! | layer | module |
//! |---|---|
//! | Lua scripts of ResourceInterpreterCustomizations | `customizations`, `lua` |
//! | webhooks of ResourceInterpreterWebhookConfigurations | `webhooks` |
//! | rules for kinds of other projects | `third_party` |
//! | rules for Kubernetes' own kinds | `native` |
//!
//! Everything is a function over JSON. The crate must not know clients, runtimes, policies, placements or its callers;
//! the caller reads customizations and passes them to [`Interpreter::load`]. It also calls the webhooks: [`Answers`]
//! lists the requests, and takes the answers.

mod admission;
mod customizations;
mod error;
mod interpretation;
mod interpreter;
mod lua;
mod native;
mod operation;
mod references;
mod scripted;
mod third_party;
mod webhooks;

pub use admission::check_scripts;
pub use error::{ConvertError, InterpretError, ScriptError};
pub use interpretation::Interpretation;
pub use interpreter::{Interpreter, has_built_in_replicas};
pub use lua::check_syntax;
pub use native::revise_completions;
pub use operation::Operation;
pub use webhooks::{Answer, Answers, Webhook, WebhookError, WebhookRequest, names_kind};
