//! The responses of webhooks that a decision has got so far, and the requests that it still needs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::WebhookError;
use super::request::WebhookRequest;
use super::response::Answer;

/// The answers that a caller has, and the requests that it still has to send. Clones share both.
///
/// The caller runs its operations, sends the [open requests](Self::take_open), [adds](Self::add) their answers, and
/// runs the operations again, until no request is open.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answers: Vec<(WebhookRequest, Result<Answer, WebhookError>)>,
    open: Vec<WebhookRequest>,
}

impl Answers {
    /// Returns the answer to a request. Notes a request without an answer.
    pub(crate) fn get(&self, request: WebhookRequest) -> Result<Answer, WebhookError> {
        let mut state = self.lock();
        let mut answers = state.answers.iter();
        if let Some((_, answer)) = answers.find(|(known, _)| *known == request) {
            return answer.clone();
        }
        if !state.open.contains(&request) {
            state.open.push(request);
        }
        Err(WebhookError::NotCalled)
    }

    /// Removes and returns the requests without an answer.
    pub fn take_open(&self) -> Vec<WebhookRequest> {
        std::mem::take(&mut self.lock().open)
    }

    /// Adds an answer.
    pub fn add(&self, request: WebhookRequest, answer: Result<Answer, WebhookError>) {
        self.lock().answers.push((request, answer));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
