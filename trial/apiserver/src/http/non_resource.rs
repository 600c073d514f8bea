//! Non-resource paths: discovery, OpenAPI, health, metrics, and the public keys of service account tokens.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use serde_json::Value;

use super::accept;
use super::{discovery, header_text, health, openapi, respond};
use crate::authentication::service_account::Signer;
use crate::error::ApiError;
use crate::metrics;
use crate::query::Query;
use crate::registry::Snapshot;
use crate::shared::Shared;

/// Handles a request for a non-resource path. `slash` is true if the path ends with a slash.
pub(super) fn handle(
    shared: &Arc<Shared>,
    snapshot: &Snapshot,
    parts: &Parts,
    query: &Query,
    (path, slash): (&[&str], bool),
) -> Result<Response<Body>, ApiError> {
    let only_get = matches!(
        path,
        ["version" | "api" | "metrics"] | ["api", _] | ["apis", _, _]
    );
    let is_read =
        parts.method == Method::GET || path == ["metrics"] && parts.method == Method::HEAD;
    if only_get && !is_read {
        return Err(ApiError::method_not_allowed());
    }
    let headers = &parts.headers;
    let accept = header_text(parts, &header::ACCEPT);
    match path {
        _ if path.iter().any(|step| step.is_empty()) => Ok(respond::page_not_found()),
        // These paths are not served with a trailing slash.
        ["healthz" | "livez" | "readyz" | "metrics" | "openapi", ..] if slash => {
            Ok(respond::page_not_found())
        }
        ["healthz" | "livez" | "readyz", rest @ ..] => Ok(health::handle(path[0], rest, query)),
        ["metrics"] => {
            let text = shared
                .metrics
                .render(&shared.store, &shared.registry, &shared.in_flight);
            Ok(respond::typed_text(metrics::FORMAT.content_type(), &text))
        }
        ["version"] => Ok(respond::json_value(StatusCode::OK, &discovery::version())),
        ["api" | "apis"] => {
            let core = path == ["api"];
            if let Some(list) = discovery::aggregated(snapshot, headers, accept, core) {
                return Ok(list);
            }
            let root = if core {
                discovery::core_root()
            } else {
                discovery::groups_root(snapshot)
            };
            document(accept, Some(root))
        }
        ["apis", group] => document(accept, discovery::group(snapshot, group)),
        ["api", version] => match discovery::resources(snapshot, "", version) {
            None => Err(ApiError::path_not_found()),
            found => document(accept, found),
        },
        ["apis", group, version] => match discovery::resources(snapshot, group, version) {
            None if snapshot.groups.contains_key(*group) => Err(ApiError::path_not_found()),
            found => document(accept, found),
        },
        ["openapi", "v2"] => openapi::v2::serve(snapshot, headers, accept),
        ["openapi", "v3", rest @ ..] => Ok(openapi::serve(snapshot, headers, rest)),
        [".well-known", "openid-configuration"] => {
            let host = parts.uri.authority().map(http::uri::Authority::as_str);
            let host = host.unwrap_or_else(|| header_text(parts, &header::HOST));
            let issuer = Signer::configuration(host);
            Ok(respond::cached_for_an_hour("application/json", &issuer))
        }
        ["openid", "v1", "jwks"] => {
            let keys = shared.authenticator.accounts.keys();
            Ok(respond::cached_for_an_hour(
                "application/jwk-set+json",
                &keys,
            ))
        }
        [] => Ok(respond::json_value(
            StatusCode::OK,
            &discovery::paths(snapshot),
        )),
        _ => Ok(respond::page_not_found()),
    }
}

/// Returns the response with a document. Fails if the client does not accept JSON.
fn document(accept: &str, found: Option<Value>) -> Result<Response<Body>, ApiError> {
    let Some(document) = found else {
        return Ok(respond::page_not_found());
    };
    accept::check_document(accept)?;
    Ok(respond::json_value(StatusCode::OK, &document))
}
