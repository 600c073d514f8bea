//! Interpreter webhooks: the kinds and operations that they interpret, the requests, and the responses.
//!
//! No module of this crate calls a webhook. An operation that needs a response adds a [`WebhookRequest`] to the
//! [`Answers`] of its interpreter, and fails. The caller sends the request, adds the answer, and runs the operation
//! again.
//!
//! | module | contents |
//! |---|---|
//! | `configurations` | the webhooks of all ResourceInterpreterWebhookConfigurations, by kind and operation |
//! | `request` | a request, and its JSON form |
//! | `response` | the checks and the decoding of a response |
//! | `answers` | the known answers and the open requests of a caller |
//! | `error` | errors of webhooks |

mod answers;
mod configurations;
mod error;
mod request;
mod response;

pub use answers::Answers;
pub(crate) use configurations::Configurations;
pub use configurations::{Webhook, names_kind};
pub use error::WebhookError;
pub use request::WebhookRequest;
pub use response::Answer;

#[cfg(test)]
mod tests;
