//! An extender of the tests.

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

/// A request that came: the verb, the body, and the connection that it came on.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) verb: String,
    pub(crate) body: Value,
    pub(crate) connection: usize,
    pub(crate) agent: String,
}

pub(crate) type Answer = (StatusCode, String);
type Script = dyn Fn(String, Value) -> BoxFuture<'static, Answer> + Send + Sync;

/// An extender.
pub(crate) struct Fake {
    pub(crate) url: String,
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
        Self::taking_its_time(move |verb, body| {
            let answer = script(&verb, &body).to_string();
            Box::pin(async move { (StatusCode::OK, answer) })
        })
        .await
    }

    /// An extender that says anything, when it likes.
    pub(crate) async fn taking_its_time(
        script: impl Fn(String, Value) -> BoxFuture<'static, Answer> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/s", listener.local_addr().unwrap());
        let came: Arc<Mutex<Vec<Came>>> = Arc::default();
        let (record, script): (_, Arc<Script>) = (Arc::clone(&came), Arc::new(script));
        let task = tokio::spawn(async move {
            let mut connections = 0;
            while let Ok((tcp, _)) = listener.accept().await {
                connections += 1;
                let (record, script, connection) = (record.clone(), script.clone(), connections);
                let answer = service_fn(move |request: http::Request<Incoming>| {
                    let (record, script) = (record.clone(), script.clone());
                    async move {
                        let verb = request.uri().path().trim_start_matches("/s/").to_owned();
                        let agent = request.headers().get(http::header::USER_AGENT);
                        let agent = agent.map_or("", |agent| agent.to_str().unwrap()).to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        record.lock().unwrap().push(Came {
                            verb: verb.clone(),
                            body: body.clone(),
                            connection,
                            agent,
                        });
                        let (status, text) = script(verb, body).await;
                        let answer = Response::builder().status(status);
                        Ok::<_, Infallible>(answer.body(Full::new(Bytes::from(text))).unwrap())
                    }
                });
                tokio::spawn(async move {
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(tcp), answer)
                        .await;
                });
            }
        });
        Self { url, came, task }
    }

    /// All requests so far.
    pub(crate) fn came(&self) -> Vec<Came> {
        self.came.lock().unwrap().clone()
    }

    /// On how many connections they came.
    pub(crate) fn connections(&self) -> usize {
        let came = self.came();
        let connections: BTreeSet<usize> = came.iter().map(|came| came.connection).collect();
        connections.len()
    }
}
