//! Requests of the debug endpoints to the scheduler's task, which owns the recorded decisions.

use std::collections::BTreeMap;

use berth_api::BindingKey;
use berth_component_base::endpoints::DebugResponse;
use http::StatusCode;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::{DecisionDetails, DecisionList, QueueList};

/// Maximum number of requests that wait for the scheduler's task.
const WAITING: usize = 16;

/// A request to the scheduler's task.
#[derive(Debug)]
pub(crate) enum DebugQuery {
    /// A request for recorded decisions.
    Decisions(DecisionQuery),
    /// Requests the queues, and the position of a binding.
    Queues(Option<BindingKey>, oneshot::Sender<QueueList>),
}

/// A request for recorded decisions, with the channel for the response.
#[derive(Debug)]
pub(crate) enum DecisionQuery {
    /// Requests all recorded decisions, without details.
    List(oneshot::Sender<DecisionList>),
    /// Requests the last decision about a binding. The response is `None` if no decision about the binding is recorded.
    Decision(BindingKey, oneshot::Sender<Option<Box<DecisionDetails>>>),
}

/// A client that sends requests to the scheduler's task.
#[derive(Clone, Debug)]
pub(crate) struct DebugClient(mpsc::Sender<DebugQuery>);

impl DebugClient {
    /// Creates a client and the receiver of its requests.
    pub(crate) fn new() -> (Self, mpsc::Receiver<DebugQuery>) {
        let (sender, queries) = mpsc::channel(WAITING);
        (Self(sender), queries)
    }

    /// Responds to an HTTP request for decisions. If the parameters contain `binding`, the response is the decision
    /// about this binding. Otherwise the response is the list of all decisions.
    pub(crate) async fn decisions(self, parameters: BTreeMap<String, String>) -> DebugResponse {
        let Some(key) = binding_of(&parameters)? else {
            let list = |reply| DebugQuery::Decisions(DecisionQuery::List(reply));
            return document(&self.request(list).await?);
        };
        let missing = format!("there is no record of a decision about {key}");
        let details = self
            .request(|reply| DebugQuery::Decisions(DecisionQuery::Decision(key, reply)))
            .await?;
        match details {
            Some(details) => document(&details),
            None => Err((StatusCode::NOT_FOUND, missing)),
        }
    }

    /// Responds to an HTTP request for the queues. If the parameters contain `binding`, the response contains the position
    /// of this binding.
    pub(crate) async fn queues(self, parameters: BTreeMap<String, String>) -> DebugResponse {
        let key = binding_of(&parameters)?;
        let list = self.request(|reply| DebugQuery::Queues(key, reply)).await?;
        document(&list)
    }

    async fn request<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> DebugQuery,
    ) -> Result<T, (StatusCode, String)> {
        let (reply, answer) = oneshot::channel();
        let busy = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned());
        self.0
            .try_send(query(reply))
            .map_err(|_| busy("too many requests, or the scheduler is stopping"))?;
        answer.await.map_err(|_| busy("the scheduler is stopping"))
    }
}

/// Returns the binding that the parameters name.
fn binding_of(
    parameters: &BTreeMap<String, String>,
) -> Result<Option<BindingKey>, (StatusCode, String)> {
    if let Some(unknown) = parameters.keys().find(|name| *name != "binding") {
        let reason = format!("unknown parameter {unknown:?}; use binding=NAMESPACE/NAME");
        return Err((StatusCode::BAD_REQUEST, reason));
    }
    let Some(name) = parameters.get("binding") else {
        return Ok(None);
    };
    key(name).map(Some).ok_or_else(|| {
        let reason = format!(
            "{name:?} is not NAMESPACE/NAME of a ResourceBinding or NAME of a ClusterResourceBinding"
        );
        (StatusCode::BAD_REQUEST, reason)
    })
}

fn document(document: &impl Serialize) -> DebugResponse {
    serde_json::to_string(document)
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

/// Parses `NAMESPACE/NAME` or `NAME`.
fn key(text: &str) -> Option<BindingKey> {
    let (namespace, name) = match text.split_once('/') {
        Some(("", _)) => return None,
        Some(parts) => parts,
        None => ("", text),
    };
    let is_complete = !name.is_empty() && !name.contains('/');
    is_complete.then(|| BindingKey::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_at_most_one_namespace() {
        for (text, expected) in [
            ("shop/web", Some("shop/web")),
            ("reader", Some("reader")),
            ("", None),
            ("/web", None),
            ("shop/", None),
            ("a/b/c", None),
        ] {
            let parsed = key(text).map(|key| key.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn malformed_requests_and_requests_to_a_stopped_scheduler_are_refused() {
        let (client, queries) = DebugClient::new();
        let parameters =
            |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        for (parameters, status) in [
            (parameters("bindng", "a/b"), StatusCode::BAD_REQUEST),
            (parameters("binding", "a/b/c"), StatusCode::BAD_REQUEST),
        ] {
            let refused = client.clone().decisions(parameters).await.unwrap_err();
            assert_eq!(refused.0, status, "{}", refused.1);
        }
        drop(queries);
        let refused = client.decisions(BTreeMap::new()).await.unwrap_err();
        assert_eq!(refused.0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
