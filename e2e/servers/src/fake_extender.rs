//! A fake extender: an HTTP server that records the requests. A function of the test decides the responses.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request that a fake extender received.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The verb: the path after `/s/`.
    pub verb: String,
    /// The body.
    pub body: Value,
    /// The number of the TCP connection. The first connection has the number 1.
    pub connection: usize,
    /// The `User-Agent` header.
    pub agent: String,
}

/// The status and the body of a response.
pub type ScriptedResponse = (StatusCode, String);
/// The function of the test. It receives the verb and the body of a request.
type Script = dyn Fn(String, Value) -> BoxFuture<'static, ScriptedResponse> + Send + Sync;

/// A running fake extender. The server stops when the value is dropped.
#[derive(Debug)]
pub struct FakeExtender {
    /// The URL prefix of the extender.
    pub url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for FakeExtender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FakeExtender {
    /// Starts an extender that responds to each request with status 200 and the JSON that `script` returns.
    pub async fn responding_with(
        script: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self::with_script(move |verb, body| (StatusCode::OK, script(verb, body).to_string())).await
    }

    /// Starts an extender whose `script` decides the status and the body of each response.
    pub async fn with_script(
        script: impl Fn(&str, &Value) -> ScriptedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::with_async_script(move |verb, body| {
            let response = script(&verb, &body);
            Box::pin(async move { response })
        })
        .await
    }

    /// Starts an extender whose `script` decides the status, the body and the time of each response.
    pub async fn with_async_script(
        script: impl Fn(String, Value) -> BoxFuture<'static, ScriptedResponse> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/s", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
        let (record, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(script));
        let task = tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((tcp, _)) = listener.accept().await {
                connections += 1;
                let (record, script, connection) = (record.clone(), script.clone(), connections);
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let (record, script) = (record.clone(), script.clone());
                    async move {
                        let verb = request.uri().path().trim_start_matches("/s/").to_owned();
                        let agent = request.headers().get(http::header::USER_AGENT);
                        let agent = agent.map_or("", |agent| agent.to_str().unwrap()).to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        record.lock().unwrap().push(ReceivedRequest {
                            verb: verb.clone(),
                            body: body.clone(),
                            connection,
                            agent,
                        });
                        let (status, text) = script(verb, body).await;
                        let response = Response::builder().status(status);
                        Ok::<_, Infallible>(response.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                tokio::spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(tcp), service)
                        .await;
                });
            }
        });
        Self {
            url,
            requests,
            task,
        }
    }

    /// Returns all requests that the extender has received so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the number of connections that the requests used.
    pub fn connections(&self) -> usize {
        let requests = self.requests();
        let connections: BTreeSet<usize> =
            requests.iter().map(|request| request.connection).collect();
        connections.len()
    }
}
