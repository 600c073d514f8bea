//! Requests that read the health and the version of a member.

use std::time::Duration;

use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_component_base::kube_client::certificate_problem::CertificateProblem;
use berth_component_base::kube_client::response_limits::TooLarge;
use http::Request;
use kube::Client;

use super::readiness::ProbeResult;

/// The time limit of all requests that collect the status of a member.
pub(super) const COLLECT_TIMEOUT: Duration = Duration::from_secs(32);

/// Reads the health of the member within a time limit. Old servers serve `/healthz` instead of `/readyz`.
pub(super) async fn health(client: &Client, timeout: Duration) -> ProbeResult {
    let probe = async {
        match get(client, "/readyz").await {
            Err(error) if has_code(&error, 404) => get(client, "/healthz").await,
            answered => answered,
        }
    };
    match tokio::time::timeout(timeout, probe).await {
        Ok(Ok(_)) => ProbeResult::Ready,
        Ok(Err(error)) => failure(&error),
        Err(_) => ProbeResult::NotReachable(format!("no response within {timeout:.0?}")),
    }
}

/// Returns the version of the member's API server, or `None` if the request fails.
pub(super) async fn version(client: &Client) -> Option<String> {
    Some(client.apiserver_version().await.ok()?.git_version)
}

async fn get(client: &Client, path: &str) -> Result<String, kube::Error> {
    let request = Request::get(path).body(Vec::new());
    client
        .request_text(request.map_err(kube::Error::HttpError)?)
        .await
}

/// Returns the result of a probe that failed with this error.
fn failure(error: &kube::Error) -> ProbeResult {
    if has_code(error, 401) {
        return ProbeResult::TokenRefused;
    }
    let message = api_error_message(error);
    if TooLarge::is_cause_of(error) {
        return ProbeResult::ResponseTooLarge(message);
    }
    match CertificateProblem::of(error) {
        Some(CertificateProblem::Expired) => ProbeResult::CertificateExpired,
        Some(CertificateProblem::Refused(why)) => ProbeResult::CertificateRefused(why),
        None => ProbeResult::NotReachable(message),
    }
}
