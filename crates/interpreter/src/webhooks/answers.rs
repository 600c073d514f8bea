//! The answers of webhooks that a caller already has, and the requests that the caller must still send.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::WebhookError;
use super::request::WebhookRequest;
use super::response::Answer;

/// The known answers of webhooks and the open requests of a caller. Clones share their content.
///
/// The caller runs its operations, sends the [open requests](Self::take_open), and [adds](Self::add) the answers. It
/// repeats these steps until no request is open.
#[derive(Clone, Debug, Default)]
pub struct Answers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answers: Vec<(WebhookRequest, Result<Answer, WebhookError>)>,
    open: Vec<WebhookRequest>,
}

impl Answers {
    /// Returns the answer to a request. If the answer is unknown, adds the request to the open requests.
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

    /// Removes and returns the open requests.
    pub fn take_open(&self) -> Vec<WebhookRequest> {
        std::mem::take(&mut self.lock().open)
    }

    /// Adds the answer to a request.
    pub fn add(&self, request: WebhookRequest, answer: Result<Answer, WebhookError>) {
        self.lock().answers.push((request, answer));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
