//! Interpreter webhooks: the operations that they interpret, requests to them, and their responses.
//!
//! No module here calls a webhook. An operation that needs one notes a [`WebhookRequest`] in the [`Answers`] of its
//! interpreter and fails; the caller sends the request, adds the answer, and runs the operation again.
//!
//! | module | contents |
//! |---|---|
//! | `configurations` | the webhooks of all configurations, by kind and operation |
//! | `request` | a request, and its form on the wire |
//! | `response` | the checks of a response |
//! | `answers` | the answers of the webhooks to the operations of one caller |
//! | `error` | failed calls |

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
