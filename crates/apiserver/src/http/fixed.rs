//! What is served that is no resource: discovery, schemas, health, metrics, and the keys of tokens.

use std::sync::Arc;

use axum::body::Body;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use serde_json::Value;

use super::accept::{self, Notation};
use super::query::Query;
use super::{header_text, health, method_not_allowed, respond};
use crate::authentication::service_account::Signer;
use crate::error::ApiError;
use crate::metrics::{self, Metrics};
use crate::registry::Snapshot;
use crate::shared::Shared;
use crate::{discovery, openapi};

/// Answers a path, whose end may be a slash.
pub(super) async fn answer(
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
    let looks = parts.method == Method::GET || path == ["metrics"] && parts.method == Method::HEAD;
    if only_get && !looks {
        return Err(method_not_allowed());
    }
    let headers = &parts.headers;
    let accept = header_text(parts, &header::ACCEPT);
    match path {
        _ if path.iter().any(|step| step.is_empty()) => Ok(respond::no_such_page()),
        // Only what is a folder may be named like one.
        ["healthz" | "livez" | "readyz" | "metrics" | "openapi", ..] if slash => {
            Ok(respond::no_such_page())
        }
        ["healthz" | "livez" | "readyz", rest @ ..] => Ok(health::answer(path[0], rest, query)),
        ["metrics"] => {
            let text = Metrics::render(shared);
            Ok(respond::typed_text(metrics::CONTENT_TYPE, &text))
        }
        ["version"] => Ok(respond::json_for_people(&discovery::version())),
        ["api" | "apis"] => {
            let core = path == ["api"];
            if let Some(answer) = discovery::aggregated(snapshot, headers, accept, core) {
                return Ok(answer);
            }
            let root = if core {
                discovery::core_root()
            } else {
                discovery::groups_root(snapshot)
            };
            document(accept, Some(root)).await
        }
        ["apis", group] => document(accept, discovery::group(snapshot, group)).await,
        ["api", version] => match discovery::resources(snapshot, "", version) {
            None => Err(ApiError::path_not_found()),
            found => document(accept, found).await,
        },
        ["apis", group, version] => match discovery::resources(snapshot, group, version) {
            None if snapshot.groups.contains_key(*group) => Err(ApiError::path_not_found()),
            found => document(accept, found).await,
        },
        ["openapi", "v2"] => openapi::v2::answer(snapshot, headers, accept),
        ["openapi", "v3", rest @ ..] => Ok(openapi::answer(snapshot, headers, rest, query)),
        [".well-known", "openid-configuration"] => {
            let host = parts.uri.authority().map(http::uri::Authority::as_str);
            let host = host.unwrap_or_else(|| header_text(parts, &header::HOST));
            let issuer = Signer::configuration(host);
            Ok(respond::for_an_hour("application/json", &issuer))
        }
        ["openid", "v1", "jwks"] => {
            let keys = shared.authenticator.accounts.keys();
            Ok(respond::for_an_hour("application/jwk-set+json", &keys))
        }
        [] => Ok(respond::json_for_people(&discovery::paths(snapshot))),
        _ => Ok(respond::no_such_page()),
    }
}

/// A document in the notation that is asked for.
async fn document(accept: &str, found: Option<Value>) -> Result<Response<Body>, ApiError> {
    let Some(document) = found else {
        return Ok(respond::no_such_page());
    };
    let answer = respond::json_value(StatusCode::OK, &document);
    Ok(match accept::notation(accept)? {
        Notation::Json => answer,
        Notation::Yaml => respond::as_yaml(answer).await,
    })
}
