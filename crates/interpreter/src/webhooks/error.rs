//! Failed calls of webhooks.

/// A webhook that did not interpret an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The webhook is not called by this caller.
    #[error("the webhook is not called")]
    NotCalled,
    /// The webhook accepts no known version.
    #[error(
        "the webhook does not accept known ResourceInterpreterContext versions: add v1alpha1 to interpreterContextVersions"
    )]
    Versions,
    /// The call failed.
    #[error("{0}")]
    Call(String),
    /// The webhook did not respond in time before, and is not called yet.
    #[error("the webhook did not respond in time; it is called again in {0} s")]
    Paused(u64),
    /// The response does not fit the request.
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
    /// Returns the error about an answer to another operation.
    pub(crate) fn mismatch() -> Self {
        Self::Response("it does not fit the operation".to_owned())
    }
}
