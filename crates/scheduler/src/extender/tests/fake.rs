//! An extender of the tests: it records what it is sent, and answers what it is told to.

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

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) verb: String,
    pub(crate) body: Value,
    /// The port of the client: one for each connection.
    pub(crate) peer: u16,
}

type Answer = (StatusCode, String);
type Script = dyn Fn(String, Value) -> BoxFuture<'static, Answer> + Send + Sync;

/// An extender.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    came: Arc<Mutex<Vec<Came>>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    /// An extender that answers JSON at once.
    pub(crate) async fn answering(
        script: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::saying(move |verb, body| (StatusCode::OK, script(verb, body).to_string())).await
    }

    /// An extender that says anything at once.
    pub(crate) async fn saying(
        script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::taking_its_time(move |verb, body| {
            let answer = script(&verb, &body);
            Box::pin(async move { answer })
        })
        .await
    }

    /// An extender that answers when it likes.
    pub(crate) async fn taking_its_time(
        script: impl Fn(String, Value) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let came: Arc<Mutex<Vec<Came>>> = Arc::default();
        let (record, script): (_, Arc<Script>) = (Arc::clone(&came), Arc::new(script));
        let answer = move |Path(verb): Path<String>,
                           ConnectInfo(peer): ConnectInfo<SocketAddr>,
                           body: axum::Json<Value>| {
            let (record, script) = (Arc::clone(&record), Arc::clone(&script));
            async move {
                record.lock().unwrap().push(Came {
                    verb: verb.clone(),
                    body: body.0.clone(),
                    peer: peer.port(),
                });
                script(verb, body.0).await
            }
        };
        let router = Router::new().route("/s/{verb}", post(answer));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, service).await;
        });
        Self {
            address,
            came,
            task,
        }
    }

    /// All requests so far.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/s", self.address)
    }

    /// Its configuration, with these fields besides the URL.
    pub(crate) fn config(&self, fields: Value) -> ExtenderConfig {
        config(&self.url(), fields)
    }
}

pub(crate) fn config(url: &str, mut fields: Value) -> ExtenderConfig {
    fields["urlPrefix"] = url.into();
    serde_json::from_value(fields).unwrap()
}

/// The names of the clusters that a request holds, by whichever way.
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
        _ => panic!("either names or items: {body}"),
    }
}
