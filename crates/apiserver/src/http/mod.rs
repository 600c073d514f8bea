//! The HTTP face: authentication, routing, and turning results and errors into responses.
//! What a request does is in [`crate::verbs`].

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod query;
pub(crate) mod respond;
mod route;

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};

use crate::error::{ApiError, Reason};
use crate::registry::{Resource, Snapshot, Style};
use crate::shared::{Identity, Shared};
use crate::verbs::{self, Call, Subresource};
use crate::{discovery, openapi};
use query::Query;
use respond::json_value;
use route::{Route, Target};

/// Larger bodies are refused, as by a real server.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// Answers one request; never fails.
pub(crate) async fn handle(shared: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    match answer(&shared, request).await {
        Ok(response) => response,
        Err(error) => respond::error(&error),
    }
}

fn is_public(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz", "/version"]
        .iter()
        .any(|p| path == *p || path.starts_with(&format!("{p}/")))
}

fn authenticate(shared: &Shared, request: &Request<Body>) -> Result<Identity, ApiError> {
    if let Some(identity) = request.extensions().get::<Identity>() {
        return Ok(identity.clone());
    }
    let presented = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|h| h.to_str().ok())
        .and_then(|h| {
            h.strip_prefix("Bearer ")
                .or_else(|| h.strip_prefix("bearer "))
        });
    match presented {
        Some(token) if same(token.trim().as_bytes(), shared.token.as_bytes()) => {
            Ok(Identity::admin())
        }
        None if is_public(request.uri().path()) => Ok(Identity {
            user: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
        }),
        _ => Err(ApiError::new(Reason::Unauthorized, "Unauthorized")),
    }
}

/// Compares without telling through timing where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |acc, (x, y)| acc | (x ^ y)) == 0
}

async fn answer(shared: &Arc<Shared>, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let identity = authenticate(shared, &request)?;
    let snapshot = shared.registry.snapshot();
    let path = request.uri().path();
    match route::parse(path, &snapshot) {
        Some(Route::Target(target)) => {
            if let Some(path) = target.subresource.as_deref()
                && Subresource::parse(path, &target.resource).is_none()
            {
                return Err(ApiError::path_not_found());
            }
            resource_request(shared, &identity, request, target).await
        }
        Some(Route::Fixed(path)) => {
            if request.method() != Method::GET && request.method() != Method::HEAD {
                return Err(method_not_allowed());
            }
            fixed(&snapshot, &request, &path)
        }
        None => Err(ApiError::path_not_found()),
    }
}

fn fixed(
    snapshot: &Arc<Snapshot>,
    request: &Request<Body>,
    path: &[&str],
) -> Result<Response<Body>, ApiError> {
    let query = Query::parse(request.uri())?;
    let accept = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default();
    match path {
        ["healthz" | "livez" | "readyz", rest @ ..] => health(path[0], rest, &query),
        ["version"] => Ok(json_value(StatusCode::OK, &discovery::version())),
        ["api"] => Ok(discovery::core_root(snapshot, accept)),
        ["apis"] => Ok(discovery::groups_root(snapshot, accept)),
        ["api", version] => discovery::resources(snapshot, "", version),
        ["apis", group] => discovery::group(snapshot, group),
        ["apis", group, version] => discovery::resources(snapshot, group, version),
        ["openapi", "v3", rest @ ..] => openapi::answer(snapshot, rest, &query),
        [] => Ok(discovery::paths()),
        _ => Err(ApiError::path_not_found()),
    }
}

fn health(endpoint: &str, rest: &[&str], query: &Query) -> Result<Response<Body>, ApiError> {
    if !matches!(rest, [] | ["ping" | "etcd" | "log"]) {
        return Err(ApiError::path_not_found());
    }
    let text = if query.has("verbose") {
        format!("[+]ping ok\n[+]log ok\n[+]etcd ok\n{endpoint} check passed\n")
    } else {
        "ok".to_owned()
    };
    Ok(respond::text(&text))
}

pub(crate) fn method_not_allowed() -> ApiError {
    ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}

async fn resource_request(
    shared: &Arc<Shared>,
    identity: &Identity,
    request: Request<Body>,
    target: Target,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let query = Query::parse(&parts.uri)?;
    let accept = parts
        .headers
        .get(header::ACCEPT)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default();
    let rendering = accept::negotiate(accept)?;
    let content_type = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let user_agent = parts
        .headers
        .get(header::USER_AGENT)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default();
    let subresource = target
        .subresource
        .as_deref()
        .and_then(|s| Subresource::parse(s, &target.resource));
    let resource: Arc<Resource> = target.resource;
    let call = Call {
        shared: shared.clone(),
        namespace: target.namespace,
        name: target.name,
        subresource,
        options: query.write_options(user_agent)?,
        identity: identity.clone(),
        rendering,
        resource,
    };
    if let Some(scope_error) = scope_mismatch(&call) {
        return Err(scope_error);
    }
    let read = async |body: Body| body::read(body).await;
    let has_name = call.name.is_some();
    if call.resource.style == Style::Review {
        if parts.method != Method::POST || has_name {
            return Err(method_not_allowed());
        }
        let bytes = read(body).await?;
        return verbs::reviews::create(&call, &content_type, &bytes);
    }
    match (parts.method, has_name) {
        (Method::GET | Method::HEAD, _) if query.is_watch() => verbs::watch::watch(&call, &query),
        (Method::GET | Method::HEAD, true) => verbs::read::get(&call),
        (Method::GET | Method::HEAD, false) => verbs::read::list(&call, &query),
        (Method::POST, false) => verbs::create::create(&call, &content_type, &read(body).await?),
        (Method::PUT, true) => verbs::update::replace(&call, &content_type, &read(body).await?),
        (Method::PATCH, true) => verbs::update::patch(&call, &content_type, &read(body).await?),
        (Method::DELETE, true) => {
            verbs::delete::delete(&call, &query, &content_type, &read(body).await?)
        }
        (Method::DELETE, false) => {
            verbs::delete::collection(&call, &query, &content_type, &read(body).await?)
        }
        _ => Err(method_not_allowed()),
    }
}

/// A namespaced resource needs its namespace for anything but listing; a cluster-scoped one has none.
fn scope_mismatch(call: &Call) -> Option<ApiError> {
    match (call.resource.namespaced(), &call.namespace) {
        (true, None) if call.name.is_some() => Some(ApiError::path_not_found()),
        (false, Some(_)) => Some(ApiError::path_not_found()),
        _ => None,
    }
}
