//! Errors of webhooks.

/// The reason why a webhook did not interpret an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The answer of the webhook is not known yet, or the interpreter has no `Answers`.
    #[error("the webhook is not called")]
    NotCalled,
    /// The webhook accepts no known version of ResourceInterpreterContext.
    #[error(
        "the webhook does not accept known ResourceInterpreterContext versions: add v1alpha1 to interpreterContextVersions"
    )]
    Versions,
    /// The call failed.
    #[error("{0}")]
    Call(String),
    /// The webhook did not respond in time to an earlier call, and is paused.
    #[error("the webhook did not respond in time; it is called again in {0} s")]
    Paused(u64),
    /// The response is malformed or does not match the request.
    #[error("received invalid webhook response: {0}")]
    Response(String),
    /// The webhook reports a failure.
    #[error("webhook call failed, get status code: {code}, msg: {message}")]
    Failed {
        /// The status code.
        code: i32,
        /// The message.
        message: String,
    },
    /// The patch of the webhook cannot be applied.
    #[error("cannot apply the patch of the webhook: {0}")]
    Patch(String),
}

impl WebhookError {
    /// Returns the error for an answer that belongs to another operation.
    pub(crate) fn mismatch() -> Self {
        Self::Response("the response belongs to another operation".to_owned())
    }
}
