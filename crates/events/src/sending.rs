//! One write of an event with its retries.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::response::StatusCause;
use serde_json::json;

use crate::happening::Told;
use crate::series::Draft;

/// Maximum attempts for an event, as in client-go.
const TRIES: usize = 12;
/// The pause after the first failure; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The reason why an event was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The server rejects the event or is unreachable.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The server does not respond in time.
    #[error("no answer within {0:?}")]
    Silence(Duration),
}

impl SendError {
    /// Reports whether the namespace of the event is terminating or gone, so that the event does not matter.
    pub(crate) fn is_of_an_ending_namespace(&self) -> bool {
        let Self::Api(kube::Error::Api(status)) = self else {
            return false;
        };
        let details = status.details.as_ref();
        let causes = details.map(|details| details.causes.as_slice());
        let ends = |cause: &StatusCause| cause.reason == "NamespaceTerminating";
        status.code == 404 || causes.unwrap_or_default().iter().any(ends)
    }
}

/// A client with a timeout for each attempt.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) client: kube::Client,
    pub(crate) patience: Duration,
}

impl Line {
    /// Writes an event: creates the first, patches a repetition, and re-creates an expired event.
    pub(crate) async fn write(&self, draft: &Draft) -> Result<(), SendError> {
        if draft.count > 1 {
            match self.change(draft).await {
                Err(SendError::Api(kube::Error::Api(status))) if status.code == 404 => {}
                changed => return changed,
            }
        }
        self.create(draft).await
    }

    async fn create(&self, draft: &Draft) -> Result<(), SendError> {
        let event = event(draft);
        let api = self.api(&draft.latest);
        let parameters = PostParams::default();
        match self.persistently(|| api.create(&parameters, &event)).await {
            // An earlier attempt succeeded, but its response was lost.
            Err(SendError::Api(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            created => created.map(|_| ()),
        }
    }

    async fn change(&self, draft: &Draft) -> Result<(), SendError> {
        let patch = Patch::Strategic(changes(draft));
        let api = self.api(&draft.latest);
        let parameters = PatchParams::default();
        let send = || api.patch(&draft.name, &parameters, &patch);
        self.persistently(send).await.map(|_| ())
    }

    fn api(&self, told: &Told) -> Api<Event> {
        Api::namespaced(self.client.clone(), namespace(told))
    }

    async fn persistently<F>(&self, mut send: impl FnMut() -> F) -> Result<Event, SendError>
    where
        F: Future<Output = Result<Event, kube::Error>>,
    {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match self.once(send()).await {
                Err(error) if may_pass(&error) => tracing::debug!(%error, "an event has to wait"),
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        self.once(send()).await
    }

    async fn once(
        &self,
        sent: impl Future<Output = Result<Event, kube::Error>>,
    ) -> Result<Event, SendError> {
        match tokio::time::timeout(self.patience, sent).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(SendError::Silence(self.patience)),
        }
    }
}

/// Reports whether a retry may succeed.
fn may_pass(error: &SendError) -> bool {
    match error {
        SendError::Api(kube::Error::Api(status)) => status.code >= 500 || status.code == 429,
        SendError::Api(_) | SendError::Silence(_) => true,
    }
}

fn namespace(told: &Told) -> &str {
    let namespace = told.happening.object.namespace.as_deref();
    namespace.filter(|n| !n.is_empty()).unwrap_or("default")
}

/// Returns the patch for a repetition.
fn changes(draft: &Draft) -> serde_json::Value {
    json!({
        "count": draft.count,
        "lastTimestamp": Time(draft.latest.at),
        "message": draft.latest.happening.message,
    })
}

fn event(draft: &Draft) -> Event {
    let Told {
        source,
        happening,
        at,
    } = &draft.latest;
    let component = source.component.to_string();
    let host = source.host.as_deref().map(str::to_owned);
    Event {
        metadata: ObjectMeta {
            name: Some(draft.name.clone()),
            namespace: Some(namespace(&draft.latest).to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: happening.object.clone(),
        type_: Some(happening.severity.as_str().to_owned()),
        reason: Some(happening.reason.to_owned()),
        message: Some(happening.message.clone()),
        reporting_component: Some(component.clone()),
        reporting_instance: Some(host.clone().unwrap_or_default()),
        source: Some(EventSource {
            component: Some(component),
            host,
        }),
        count: Some(draft.count),
        first_timestamp: Some(Time(draft.first)),
        last_timestamp: Some(Time(*at)),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(code: u16, cause: &str) -> SendError {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": "Forbidden", "message": "no",
            "details": { "causes": [{ "reason": cause, "message": "", "field": "" }] },
        }))
        .unwrap();
        SendError::Api(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn only_refusals_for_the_sake_of_the_namespace_are_of_no_concern() {
        assert!(refused(403, "NamespaceTerminating").is_of_an_ending_namespace());
        assert!(refused(404, "").is_of_an_ending_namespace());
        assert!(!refused(403, "").is_of_an_ending_namespace());
        assert!(!SendError::Silence(FIRST_PAUSE).is_of_an_ending_namespace());
    }
}
