//! A client that writes one event to the API server, with retries.

use std::time::Duration;

use berth_apimachinery::api_error::api_error_message;
use k8s_openapi::api::core::v1::{Event as ApiEvent, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::response::StatusCause;
use serde_json::json;

use crate::event::Occurrence;
use crate::series::Draft;

/// Maximum number of attempts for one request, as in client-go.
const MAX_ATTEMPTS: usize = 12;
/// The pause after the first failed attempt. Each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause between attempts.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// The reason why an event was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The server rejects the request or is unreachable.
    #[error("{}", api_error_message(.0))]
    Api(#[from] kube::Error),
    /// The server does not respond in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

impl SendError {
    /// Reports whether the namespace of the event is terminating or absent. The loss of such an event needs no warning.
    pub(crate) fn is_namespace_terminating(&self) -> bool {
        let Self::Api(kube::Error::Api(status)) = self else {
            return false;
        };
        let details = status.details.as_ref();
        let causes = details.map(|details| details.causes.as_slice());
        let is_terminating = |cause: &StatusCause| cause.reason == "NamespaceTerminating";
        status.code == 404 || causes.unwrap_or_default().iter().any(is_terminating)
    }
}

/// A client for events, with a timeout for each attempt.
#[derive(Clone)]
pub(crate) struct EventClient {
    pub(crate) client: kube::Client,
    pub(crate) timeout: Duration,
}

impl EventClient {
    /// Writes an event. Creates the event object at the first event of a series, and patches the object at repetitions.
    /// Creates an expired object again.
    pub(crate) async fn write(&self, draft: &Draft) -> Result<(), SendError> {
        if draft.count > 1 {
            match self.patch(draft).await {
                Err(SendError::Api(kube::Error::Api(status))) if status.code == 404 => {}
                patched => return patched,
            }
        }
        self.create(draft).await
    }

    async fn create(&self, draft: &Draft) -> Result<(), SendError> {
        let event = api_event(draft);
        let api = self.api(&draft.latest);
        let parameters = PostParams::default();
        match self.with_retries(|| api.create(&parameters, &event)).await {
            // An earlier attempt created the event, but its response was lost.
            Err(SendError::Api(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            created => created.map(|_| ()),
        }
    }

    async fn patch(&self, draft: &Draft) -> Result<(), SendError> {
        let patch = Patch::Strategic(repetition_patch(draft));
        let api = self.api(&draft.latest);
        let parameters = PatchParams::default();
        let send = || api.patch(&draft.name, &parameters, &patch);
        self.with_retries(send).await.map(|_| ())
    }

    fn api(&self, occurrence: &Occurrence) -> Api<ApiEvent> {
        Api::namespaced(self.client.clone(), namespace(occurrence))
    }

    async fn with_retries<F>(&self, mut send: impl FnMut() -> F) -> Result<ApiEvent, SendError>
    where
        F: Future<Output = Result<ApiEvent, kube::Error>>,
    {
        let mut pause = FIRST_PAUSE;
        for _ in 1..MAX_ATTEMPTS {
            match self.attempt(send()).await {
                Err(error) if is_retryable(&error) => {
                    tracing::debug!(%error, "cannot write an event yet; retrying");
                }
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
        self.attempt(send()).await
    }

    async fn attempt(
        &self,
        sent: impl Future<Output = Result<ApiEvent, kube::Error>>,
    ) -> Result<ApiEvent, SendError> {
        match tokio::time::timeout(self.timeout, sent).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(SendError::Timeout(self.timeout)),
        }
    }
}

/// Reports whether a retry may succeed.
fn is_retryable(error: &SendError) -> bool {
    match error {
        SendError::Api(kube::Error::Api(status)) => status.code >= 500 || status.code == 429,
        SendError::Api(_) | SendError::Timeout(_) => true,
    }
}

fn namespace(occurrence: &Occurrence) -> &str {
    let namespace = occurrence.event.object.namespace.as_deref();
    namespace.filter(|n| !n.is_empty()).unwrap_or("default")
}

/// Returns the patch for a repetition.
fn repetition_patch(draft: &Draft) -> serde_json::Value {
    json!({
        "count": draft.count,
        "lastTimestamp": Time(draft.latest.at),
        "message": draft.latest.event.message,
    })
}

fn api_event(draft: &Draft) -> ApiEvent {
    let Occurrence { source, event, at } = &draft.latest;
    let component = source.component.to_string();
    let host = source.host.as_deref().map(str::to_owned);
    ApiEvent {
        metadata: ObjectMeta {
            name: Some(draft.name.clone()),
            namespace: Some(namespace(&draft.latest).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: event.object.clone(),
        type_: Some(event.severity.as_str().to_owned()),
        reason: Some(event.reason.to_owned()),
        message: Some(event.message.clone()),
        reporting_component: Some(component.clone()),
        reporting_instance: Some(host.clone().unwrap_or_default()),
        source: Some(EventSource {
            component: Some(component),
            host,
        }),
        count: Some(draft.count),
        first_timestamp: Some(Time(draft.first)),
        last_timestamp: Some(Time(*at)),
        ..ApiEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn rejected(code: u16, cause: &str) -> SendError {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": "Forbidden", "message": "no",
            "details": { "causes": [{ "reason": cause, "message": "", "field": "" }] },
        }))
        .unwrap();
        SendError::Api(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn terminating_namespaces_are_recognised() {
        assert!(rejected(403, "NamespaceTerminating").is_namespace_terminating());
        assert!(rejected(404, "").is_namespace_terminating());
        assert!(!rejected(403, "").is_namespace_terminating());
        assert!(!SendError::Timeout(FIRST_PAUSE).is_namespace_terminating());
    }
}
