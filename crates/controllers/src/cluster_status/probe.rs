//! Asking a member whether it is well, and which version it is.

use std::time::Duration;

use http::Request;
use kube::Client;

/// How long an answer may take, as in Karmada.
const PATIENCE: Duration = Duration::from_secs(32);

/// Whether the member is well. Old servers have no `/readyz`.
pub(super) async fn is_well(client: &Client) -> bool {
    match ask(client, "/readyz").await {
        Ok(_) => true,
        Err(Some(404)) => ask(client, "/healthz").await.is_ok(),
        Err(_) => false,
    }
}

/// The version of the member's API server.
pub(super) async fn version(client: &Client) -> Option<String> {
    let asked = tokio::time::timeout(PATIENCE, client.apiserver_version()).await;
    Some(asked.ok()?.ok()?.git_version)
}

/// What is at the path, or the code of the refusal, if there is an answer at all.
async fn ask(client: &Client, path: &str) -> Result<String, Option<u16>> {
    let request = Request::get(path).body(Vec::new()).map_err(|_| None)?;
    match tokio::time::timeout(PATIENCE, client.request_text(request)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(kube::Error::Api(status))) => Err(Some(status.code)),
        Ok(Err(error)) => {
            tracing::debug!(%error, path, "a member cannot be reached");
            Err(None)
        }
        Err(_) => Err(None),
    }
}
