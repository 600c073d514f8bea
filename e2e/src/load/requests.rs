//! HTTP requests of the load generator. The generator receives the responses but does not decode them, so that the
//! scenarios measure the server instead of the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use super::LoadError;

/// A request to send.
pub(super) struct PlannedRequest {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

impl PlannedRequest {
    /// Returns a GET request.
    pub(super) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            body: Vec::new(),
        }
    }

    /// Returns a request that creates an object.
    pub(super) fn create(collection: &str, object: &Value) -> Self {
        Self {
            method: Method::POST,
            path: collection.to_owned(),
            body: object.to_string().into_bytes(),
        }
    }

    /// Returns a request that changes an object with a merge patch.
    pub(super) fn merge(path: String, change: &Value) -> Self {
        Self {
            method: Method::PATCH,
            path,
            body: change.to_string().into_bytes(),
        }
    }
}

/// Sends a request. Returns an error if the response has an error status.
pub(super) async fn send(
    client: &Client,
    wanted: &PlannedRequest,
) -> Result<Response<Body>, LoadError> {
    let content_type = match wanted.method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(wanted.method.clone())
        .uri(&wanted.path)
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(wanted.body.clone()))
        .map_err(|error| LoadError::Unexpected(error.to_string()))?;
    let response = client.send(request).await?;
    if !response.status().is_success() {
        let status = response.status();
        let body = read_body(response).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        return Err(LoadError::Unexpected(format!(
            "the response of {} has status {status}: {text}",
            wanted.path
        )));
    }
    Ok(response)
}

/// Reads the body of a response.
pub(super) async fn read_body(response: Response<Body>) -> Result<bytes::Bytes, LoadError> {
    Ok(response.into_body().collect().await?.to_bytes())
}

/// Sends a GET request, and returns the body of the response.
pub(super) async fn get(client: &Client, path: &str) -> Result<bytes::Bytes, LoadError> {
    read_body(send(client, &PlannedRequest::get(path)).await?).await
}

/// Distributes all requests over the clients. Each client sends one request at a time.
pub(super) async fn send_all(
    clients: &[Client],
    all: Vec<PlannedRequest>,
) -> Result<(), LoadError> {
    let all = Arc::new(all);
    let next = Arc::new(AtomicUsize::new(0));
    let workers = clients.iter().cloned().map(|client| {
        let (all, next) = (all.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(wanted) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                read_body(send(&client, wanted).await?).await?;
            }
            Ok::<(), LoadError>(())
        })
    });
    stream::iter(workers)
        .buffer_unordered(clients.len())
        .map(|joined| joined.map_err(|error| LoadError::Unexpected(error.to_string()))?)
        .try_collect()
        .await
}
