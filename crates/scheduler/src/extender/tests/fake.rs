//! A fake extender for tests. A script returns the responses, and the fake records the requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, Path};
use axum::http::StatusCode;
use axum::routing::post;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::extender::ExtenderConfig;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) verb: String,
    pub(crate) body: Value,
    /// The client's port, which identifies the connection.
    pub(crate) peer: u16,
}

type Reply = (StatusCode, String);
type Script = dyn Fn(String, Value) -> BoxFuture<'static, Reply> + Send + Sync;

/// A running fake extender. Dropping it stops the server.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// Starts an extender that responds with status 200 and the JSON that the script returns.
    pub(crate) async fn with_json(
        script: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::with_reply(move |verb, body| (StatusCode::OK, script(verb, body).to_string())).await
    }

    /// Starts an extender that responds with the status and body that the script returns.
    pub(crate) async fn with_reply(
        script: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::with_async_reply(move |verb, body| {
            let reply = script(&verb, &body);
            Box::pin(async move { reply })
        })
        .await
    }

    /// Starts an extender that responds when the future of the script completes.
    pub(crate) async fn with_async_reply(
        script: impl Fn(String, Value) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (record, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(script));
        let handler = move |Path(verb): Path<String>,
                            ConnectInfo(peer): ConnectInfo<SocketAddr>,
                            body: axum::Json<Value>| {
            let (record, script) = (Arc::clone(&record), Arc::clone(&script));
            async move {
                record.lock().unwrap().push(Received {
                    verb: verb.clone(),
                    body: body.0.clone(),
                    peer: peer.port(),
                });
                script(verb, body.0).await
            }
        };
        let router = Router::new().route("/s/{verb}", post(handler));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, service).await;
        });
        Self {
            address,
            requests,
            task,
        }
    }

    /// Returns all requests that the extender has received.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/s", self.address)
    }

    /// Returns a configuration of this extender with these fields.
    pub(crate) fn config(&self, fields: Value) -> ExtenderConfig {
        config(&self.url(), fields)
    }
}

pub(crate) fn config(url: &str, mut fields: Value) -> ExtenderConfig {
    fields["urlPrefix"] = url.into();
    serde_json::from_value(fields).unwrap()
}

/// Returns the names of the clusters in a request that contains either names or Cluster objects.
pub(crate) fn sent(body: &Value) -> Vec<String> {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match (
        body["clusterNames"].as_array(),
        body["clusters"]["items"].as_array(),
    ) {
        (Some(names), None) => names.iter().map(name).collect(),
        (None, Some(items)) => items
            .iter()
            .map(|item| name(&item["metadata"]["name"]))
            .collect(),
        _ => panic!("the request must contain either names or objects: {body}"),
    }
}
