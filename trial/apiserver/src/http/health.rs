//! The health endpoints `/healthz`, `/livez` and `/readyz`, and their checks. Every check passes as long as the server
//! responds.

use axum::body::Body;
use http::Response;

use super::respond;
use crate::query::Query;

/// Handles a request for a health endpoint or for one of its checks.
pub(super) fn handle(endpoint: &str, rest: &[&str], query: &Query) -> Response<Body> {
    let checks: &[&str] = match endpoint {
        "readyz" => &["ping", "log", "informer-sync", "shutdown"],
        _ => &["ping", "log", "etcd"],
    };
    match rest {
        [] if query.has("verbose") => {
            let lines = checks.join(" ok\n[+]");
            respond::text(&format!("[+]{lines} ok\n{endpoint} check passed\n"))
        }
        [] => respond::text("ok"),
        [check] if checks.contains(check) => respond::text("ok"),
        _ => respond::page_not_found(),
    }
}
