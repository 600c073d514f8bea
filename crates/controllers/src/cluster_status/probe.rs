//! Probes of a member: health and version.

use std::time::Duration;

use http::Request;
use kube::Client;

/// The time limit of a request, as in Karmada.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(32);

/// Reports whether the member is healthy. Old servers have no `/readyz`.
pub(super) async fn is_healthy(client: &Client) -> bool {
    match get(client, "/readyz").await {
        Ok(_) => true,
        Err(Some(404)) => get(client, "/healthz").await.is_ok(),
        Err(_) => false,
    }
}

/// Returns the version of the member's API server.
pub(super) async fn version(client: &Client) -> Option<String> {
    let response = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version()).await;
    Some(response.ok()?.ok()?.git_version)
}

/// Requests a path. An error has the status code of the response, if there is one.
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
