//! `/healthz`, `/livez`, `/readyz` and their checks. All checks pass while the server responds.

use axum::body::Body;
use http::Response;

use super::respond;
use crate::query::Query;

/// Returns the names of the checks of an endpoint.
fn checks(endpoint: &str) -> &'static [&'static str] {
    match endpoint {
        "readyz" => &["ping", "log", "informer-sync", "shutdown"],
        _ => &["ping", "log", "etcd"],
    }
}

/// Handles a health endpoint or one of its checks.
pub(super) fn handle(endpoint: &str, rest: &[&str], query: &Query) -> Response<Body> {
    match rest {
        [] => {}
        [check] if checks(endpoint).contains(check) => return respond::text("ok"),
        _ => return respond::page_not_found(),
    }
    if !query.has("verbose") {
        return respond::text("ok");
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut lines: Vec<String> = checks(endpoint)
        .iter()
        .map(|check| {
            let is_excluded = excluded.contains(check);
            format!(
                "[+]{check} {}ok",
                if is_excluded { "excluded: " } else { "" }
            )
        })
        .collect();
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !checks(endpoint).contains(name))
        .map(|name| format!("\"{name}\""))
        .collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        lines.push(format!(
            "warn: some health checks cannot be excluded: no matches for {names}"
        ));
    }
    lines.push(format!("{endpoint} check passed\n"));
    respond::text(&lines.join("\n"))
}
