//! The connections to one webhook, with a limit for simultaneous calls and a pause after a call that timed out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::interpreter_webhook::WebhookClientConfig;
use berth_component_base::user_agent::Component;
use berth_https_client::{Target, WebhookClient, WebhookClientError};
use berth_interpreter::{Webhook, WebhookError};
use hyper::body::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::service::resolver;

/// Maximum number of simultaneous calls of one webhook.
const CALLS_IN_FLIGHT: usize = 16;
/// The pause after a call that timed out. Calls during the pause fail at once, so that a webhook that does
/// not respond cannot occupy all workers of a controller.
const PAUSE: Duration = Duration::from_secs(20);

/// The connections to one webhook.
#[derive(Debug)]
pub(super) struct Endpoint {
    config: WebhookClientConfig,
    timeout: Duration,
    client: Result<WebhookClient, WebhookClientError>,
    in_flight: Semaphore,
    /// The end of the pause after a call that timed out.
    paused_until: Mutex<Option<Instant>>,
}

impl Endpoint {
    pub(super) fn new(webhook: &Webhook, services: kube::Client) -> Self {
        let config = webhook.client_config().clone();
        let user_agent = Component::Controllers.user_agent();
        Self {
            timeout: webhook.timeout(),
            client: WebhookClient::new(&target(&config), &user_agent, resolver(services)),
            config,
            in_flight: Semaphore::new(CALLS_IN_FLIGHT),
            paused_until: Mutex::default(),
        }
    }

    /// Reports whether the webhook still has the client configuration and timeout of these connections.
    pub(super) fn is_for(&self, webhook: &Webhook) -> bool {
        self.config == *webhook.client_config() && self.timeout == webhook.timeout()
    }

    /// Sends a request and returns the body of the response.
    pub(super) async fn post(&self, body: Vec<u8>) -> Result<Bytes, WebhookError> {
        let failed = |error: &WebhookClientError| WebhookError::Call(error.to_string());
        let client = self.client.as_ref().map_err(failed)?;
        let deadline = Instant::now() + self.timeout;
        let permit = tokio::time::timeout_at(deadline, self.in_flight.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(WebhookError::Call(format!(
                "none of {CALLS_IN_FLIGHT} earlier calls ended within {} s",
                self.timeout.as_secs()
            )));
        };
        self.admit()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let response = client.post(body, left).await;
        *self.pause() = match &response {
            Err(WebhookClientError::Timeout { .. }) => Some(Instant::now() + PAUSE),
            _ => None,
        };
        response.map_err(|error| failed(&error))
    }

    /// Rejects a call during a pause. The first call after the pause is a probe: other calls fail until the probe ends.
    fn admit(&self) -> Result<(), WebhookError> {
        let mut paused_until = self.pause();
        let now = Instant::now();
        if let Some(until) = *paused_until {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                return Err(WebhookError::Paused(left.as_secs() + 1));
            }
            *paused_until = Some(now + self.timeout);
        }
        Ok(())
    }

    fn pause(&self) -> MutexGuard<'_, Option<Instant>> {
        let paused = self.paused_until.lock();
        paused.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the address and the certificate authorities of a webhook. As in Karmada, a Service takes precedence over a
/// URL.
fn target(config: &WebhookClientConfig) -> Target {
    let target = match (&config.service, &config.url) {
        (Some(service), _) => {
            let port = service.port.and_then(|port| u16::try_from(port).ok());
            let path = service.path.as_deref().unwrap_or_default();
            Target::service(&service.namespace, &service.name, port.unwrap_or(443), path)
        }
        (None, url) => Target::url(url.as_deref().unwrap_or_default()),
    };
    target.with_authorities(config.ca_bundle.as_deref())
}

#[cfg(test)]
mod tests {
    use berth_interpreter::Interpreter;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_single_probe_follows_a_pause() {
        let rules = Interpreter::default();
        let configuration = json!({ "metadata": { "name": "c" }, "webhooks": [{ "name": "a.b.c",
            "clientConfig": { "url": "https://a" }, "timeoutSeconds": 3,
            "interpreterContextVersions": ["v1alpha1"] }] });
        rules.load_webhooks(vec![serde_json::from_value(configuration).unwrap()]);
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = kube::Client::try_from(config).unwrap();
        let endpoint = Endpoint::new(&rules.webhooks()[0], client);
        assert!(endpoint.admit().is_ok() && endpoint.admit().is_ok());
        *endpoint.pause() = Some(Instant::now() + PAUSE);
        assert!(matches!(endpoint.admit(), Err(WebhookError::Paused(_))));
        tokio::time::advance(PAUSE).await;
        assert!(endpoint.admit().is_ok());
        assert!(matches!(endpoint.admit(), Err(WebhookError::Paused(_))));
        // A cancelled probe delays the next probe by the time limit of one call.
        tokio::time::advance(Duration::from_secs(3)).await;
        assert!(endpoint.admit().is_ok());
    }
}
