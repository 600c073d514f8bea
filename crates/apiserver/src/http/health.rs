//! `/healthz`, `/livez`, `/readyz` and the single checks below them. Whoever gets an answer knows what they wanted to
//! know: all checks pass as long as the server answers at all.

use axum::body::Body;
use http::Response;

use super::query::Query;
use super::respond;

/// The checks of an endpoint, under the names that tools leave out or ask for.
fn checks(endpoint: &str) -> &'static [&'static str] {
    match endpoint {
        "readyz" => &["ping", "log", "informer-sync", "shutdown"],
        _ => &["ping", "log", "etcd"],
    }
}

/// Answers an endpoint, or what is below it.
pub(super) fn answer(endpoint: &str, rest: &[&str], query: &Query) -> Response<Body> {
    match rest {
        [] => {}
        [check] if checks(endpoint).contains(check) => return respond::text("ok"),
        _ => return respond::no_such_page(),
    }
    if !query.has("verbose") {
        return respond::text("ok");
    }
    let excluded: Vec<&str> = query.all("exclude").collect();
    let mut told: Vec<String> = checks(endpoint)
        .iter()
        .map(|check| {
            let is_out = excluded.contains(check);
            format!("[+]{check} {}ok", if is_out { "excluded: " } else { "" })
        })
        .collect();
    let strange: Vec<String> = excluded
        .iter()
        .filter(|name| !checks(endpoint).contains(name))
        .map(|name| format!("\"{name}\""))
        .collect();
    if !strange.is_empty() {
        let names = strange.join(",");
        told.push(format!(
            "warn: some health checks cannot be excluded: no matches for {names}"
        ));
    }
    told.push(format!("{endpoint} check passed\n"));
    respond::text(&told.join("\n"))
}
