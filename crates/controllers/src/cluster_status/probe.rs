//! Requests that read the health and the version of a member.

use std::time::Duration;

use http::Request;
use kube::Client;

/// The time limit of a request, as in Karmada.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(32);

/// Reports whether the member is healthy. Old servers serve `/healthz` instead of `/readyz`.
pub(super) async fn is_healthy(client: &Client) -> bool {
    match get(client, "/readyz").await {
        Ok(_) => true,
        Err(Some(404)) => get(client, "/healthz").await.is_ok(),
        Err(_) => false,
    }
}

/// Returns the version of the member's API server, or `None` if the request fails.
pub(super) async fn version(client: &Client) -> Option<String> {
    let response = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version()).await;
    Some(response.ok()?.ok()?.git_version)
}

/// Sends a GET request for a path. The error is the status code of the response, or `None` without a response.
async fn get(client: &Client, path: &str) -> Result<String, Option<u16>> {
    let request = Request::get(path).body(Vec::new()).map_err(|_| None)?;
    match tokio::time::timeout(REQUEST_TIMEOUT, client.request_text(request)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(kube::Error::Api(status))) => Err(Some(status.code)),
        Ok(Err(error)) => {
            tracing::debug!(%error, path, "cannot reach a member");
            Err(None)
        }
        Err(_) => Err(None),
    }
}
