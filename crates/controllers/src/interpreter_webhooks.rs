//! Calls of interpreter webhooks, with reused connections, time limits, and a pause after a call that timed out.

mod endpoint;
mod service;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use berth_interpreter::{Answer, Webhook, WebhookError, WebhookRequest};

use self::endpoint::Endpoint;
use crate::monitor::{Monitor, Outcome};

/// The caller of the webhooks of one controller. Clones share the connections.
#[derive(Clone)]
pub(crate) struct WebhookCaller {
    /// The client that reads the Services of webhooks.
    client: kube::Client,
    endpoints: Arc<Mutex<HashMap<String, Arc<Endpoint>>>>,
    monitor: Monitor,
}

impl std::fmt::Debug for WebhookCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookCaller").finish_non_exhaustive()
    }
}

impl WebhookCaller {
    pub(crate) fn new(client: kube::Client, monitor: Monitor) -> Self {
        Self {
            client,
            endpoints: Arc::default(),
            monitor,
        }
    }

    /// Calls a webhook, and records the call in the metrics.
    pub(crate) async fn call(&self, request: &WebhookRequest) -> Result<Answer, WebhookError> {
        let began = Instant::now();
        let answer = self.exchange(request).await;
        let (webhook, operation) = (request.webhook().name(), request.operation());
        self.monitor.interpreter_webhook_called(
            webhook,
            operation.name(),
            Outcome::of(&answer),
            began.elapsed(),
        );
        answer
    }

    async fn exchange(&self, request: &WebhookRequest) -> Result<Answer, WebhookError> {
        let uid = uuid::Uuid::new_v4().to_string();
        let body = request.body(&uid)?;
        let response = self.endpoint(request.webhook()).post(body).await?;
        request.read(&uid, &response)
    }

    /// Returns the connections to a webhook. A changed webhook gets new connections.
    fn endpoint(&self, webhook: &Webhook) -> Arc<Endpoint> {
        let endpoints = self.endpoints.lock();
        let mut endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoint) = endpoints.get(webhook.name())
            && endpoint.is_for(webhook)
        {
            return Arc::clone(endpoint);
        }
        let endpoint = Arc::new(Endpoint::new(webhook, self.client.clone()));
        endpoints.insert(webhook.name().to_owned(), Arc::clone(&endpoint));
        endpoint
    }
}
