//! The HTTP interface: authentication and authorization of requests, routing, and responses.
//!
//! The module [`crate::verbs`] executes the requests for resources.

mod accept;
mod body;
mod connected_subresource;
mod discovery;
pub(crate) mod drain_body;
mod etag;
mod health;
mod non_resource;
mod openapi;
mod render;
mod request_labels;
mod respond;
mod route;
pub(crate) mod stalled_body;
mod virtual_subresource;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, header};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::authentication::impersonation;
use crate::authorization::attributes::{Attributes, Hints};
use crate::error::ApiError;
use crate::identity::Identity;
use crate::metrics::RequestLabels;
use crate::query::Query;
use crate::registry::Snapshot;
use crate::resource::{Style, Subresource};
use crate::shared::Shared;
use crate::store::NotDurable;
use crate::verbs::{self, Call, Origin, Outcome};
use crate::{authorization, codec, percent_encoding};
use accept::ResponseKind;
use render::Form;
use route::{Route, Target};
use virtual_subresource::VirtualSubresource;

/// Handles a request.
pub(crate) async fn handle(shared: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let began = Instant::now();
    let (parts, mut body) = request.into_parts();
    let is_head = parts.method == Method::HEAD;
    let mut labels = RequestLabels {
        verb: request_labels::verb_of(&parts.method).to_owned(),
        component: "apiserver".to_owned(),
        ..RequestLabels::default()
    };
    let response = loop {
        let before = shared.store.mark();
        let body = std::mem::take(&mut body);
        let result = respond_to(&shared, &parts, body, &mut labels).await;
        // A response, even an error, must not reveal state that is not durable.
        let durable = shared.store.wait_durable_since(before).await;
        break match (durable, result) {
            // The store has undone the state that the read saw, so the read is repeated.
            (Err(NotDurable::Lost(_)), _) if is_read(&parts) => continue,
            (Err(error), _) => respond::error(&ApiError::not_durable(error)),
            (Ok(()), Ok(response)) => response,
            (Ok(()), Err(error)) => respond::error(&error),
        };
    };
    let response = if is_head {
        response.map(|_| Body::empty())
    } else {
        response
    };
    shared
        .metrics
        .record(labels, response.status().as_u16(), began.elapsed());
    response
}

/// Returns a client that calls the server without a network connection. The client is authenticated as the
/// administrator.
pub(crate) fn in_process_client(shared: Arc<Shared>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let shared = shared.clone();
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Identity::admin());
            Ok::<Response<Body>, Infallible>(handle(shared, request).await)
        }
    });
    kube::Client::new(service, "default")
}

fn is_read(parts: &Parts) -> bool {
    parts.method == Method::GET || parts.method == Method::HEAD
}

/// Authenticates, authorizes and routes a request.
async fn respond_to(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: Body,
    labels: &mut RequestLabels,
) -> Result<Response<Body>, ApiError> {
    let Some(path) = percent_encoding::path(&parts.uri) else {
        return Ok(respond::malformed_request());
    };
    let query = Query::parse(&parts.uri);
    query.timeout()?;
    let identity =
        shared
            .authenticator
            .identify(&shared.store, &parts.extensions, &parts.headers)?;
    let hints = Hints {
        watch: query.is_watch(),
        name: query
            .get("fieldSelector")
            .and_then(|s| s.strip_prefix("metadata.name=")),
    };
    let attributes = Attributes::of(&parts.method, &path, hints);
    let identity = impersonation::apply(&shared.access, identity, &parts.headers)?;
    authorization::check(&shared.access, &identity, &attributes)?;
    let snapshot = shared.registry.snapshot();
    if let Some(connection) =
        connected_subresource::find(shared, &snapshot, &attributes, parts, labels)?
    {
        return connection
            .handle(shared, identity, parts.clone(), body)
            .await;
    }
    let route = route::parse(&path, &snapshot).ok_or_else(ApiError::path_not_found)?;
    request_labels::set(labels, &route, &attributes, parts, &query);
    let context = RequestContext {
        shared,
        identity,
        parts,
        query: &query,
    };
    context.dispatch(body, &snapshot, route).await
}

/// An authorized request, except for its body.
struct RequestContext<'a> {
    shared: &'a Arc<Shared>,
    identity: Identity,
    parts: &'a Parts,
    query: &'a Query,
}

impl RequestContext<'_> {
    /// Calls the handler of a route.
    async fn dispatch(
        self,
        body: Body,
        snapshot: &Arc<Snapshot>,
        route: Route<'_>,
    ) -> Result<Response<Body>, ApiError> {
        let in_flight = &self.shared.in_flight;
        match route {
            Route::Target(target) => {
                if let Some(name) = target.subresource.as_deref()
                    && Subresource::parse(name, &target.resource).is_none()
                {
                    let subresource = VirtualSubresource::parse(name, &target)
                        .ok_or_else(ApiError::path_not_found)?;
                    return subresource.handle(self, body, target).await;
                }
                handle_resource(self, body, target).await
            }
            Route::NonResource(path, slash) => {
                let _permit = match path.first() {
                    Some(&("healthz" | "livez" | "readyz")) => None,
                    _ => in_flight.enter(&self.identity, &self.parts.method)?,
                };
                let path = (&*path, slash);
                non_resource::handle(self.shared, snapshot, self.parts, self.query, path)
            }
        }
    }

    /// Returns the content type of the request in lower case.
    fn content_type(&self) -> String {
        header_text(self.parts, &header::CONTENT_TYPE).to_ascii_lowercase()
    }

    /// Returns the requested timeout, limited by the request timeout of the server.
    fn timeout(&self) -> Result<Duration, ApiError> {
        let max = self.shared.in_flight.limits.request_timeout;
        let requested = self.query.timeout()?;
        Ok(requested.map_or(max, |requested| requested.min(max)))
    }

    /// Returns the call that a verb executes for this request on the target.
    fn call(self, target: Target) -> Result<Call, ApiError> {
        let user_agent = header_text(self.parts, &header::USER_AGENT);
        let subresource = target
            .subresource
            .as_deref()
            .and_then(|s| Subresource::parse(s, &target.resource));
        let deadline = Instant::now() + self.timeout()?;
        Ok(Call {
            shared: self.shared.clone(),
            resource: target.resource,
            namespace: target.namespace,
            name: target.name,
            subresource,
            options: self.query.write_options(&self.parts.method, user_agent)?,
            identity: self.identity,
            origin: Origin::Client,
            deadline,
            warnings: Mutex::default(),
        })
    }
}

/// Refuses names that no object may have.
fn check_name(name: &str) -> Result<(), ApiError> {
    let problem = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    let message = format!("Name parameter invalid: \"{name}\": {problem}");
    Err(ApiError::bad_request(message))
}

fn header_text<'a>(parts: &'a Parts, name: &header::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default()
}

/// Handles a request for a resource.
async fn handle_resource(
    context: RequestContext<'_>,
    body: Body,
    target: Target,
) -> Result<Response<Body>, ApiError> {
    let (parts, query, shared) = (context.parts, context.query, context.shared);
    if let Some(name) = &target.name {
        check_name(name)?;
    }
    let is_review = target.resource.style == Style::Review;
    let kind = match parts.method {
        _ if is_review => ResponseKind::Review,
        Method::GET | Method::DELETE if target.name.is_some() => ResponseKind::Object,
        Method::GET if query.is_watch() => ResponseKind::Watch,
        Method::GET | Method::DELETE => ResponseKind::List,
        _ => ResponseKind::Object,
    };
    let rendering = accept::negotiate(header_text(parts, &header::ACCEPT), kind)?;
    let content_type = context.content_type();
    let timeout = context.timeout()?;
    let call = context.call(target)?;
    if let Some(error) = scope_mismatch(&call) {
        return Err(error);
    }
    match (&parts.method, &call.name) {
        (&Method::POST, None) | (&Method::PUT, Some(_)) => codec::check_media_type(&content_type)?,
        (&Method::PATCH, Some(_)) => verbs::update::check_patch_type(&call, &content_type)?,
        _ => {}
    }
    let has_name = call.name.is_some();
    let has_body = match (&parts.method, has_name) {
        (&Method::POST, false) => true,
        _ if is_review => return Err(ApiError::method_not_allowed()),
        (&Method::PUT | &Method::PATCH, true) | (&Method::DELETE, _) => true,
        (&Method::GET, _) => false,
        _ => return Err(ApiError::method_not_allowed()),
    };
    let bytes = if has_body {
        body::receive(body, timeout).await?
    } else {
        Bytes::new()
    };
    let mut form = Form::of(rendering);
    if parts.method == Method::GET {
        form = form.with_include(query)?;
    }
    if parts.method == Method::GET && !has_name && query.is_watch() {
        let watcher = verbs::watch::watch(&call, query)?;
        return Ok(render::watch(&call.resource, form, watcher));
    }
    let _permit = shared.in_flight.enter(&call.identity, &parts.method)?;
    let result = match (&parts.method, has_name) {
        (&Method::POST, false) if is_review => {
            verbs::auth_reviews::create(&call, &content_type, &bytes)
        }
        (&Method::POST, false) => verbs::create::create(&call, &content_type, &bytes).await,
        (&Method::PUT, true) => verbs::update::replace(&call, &content_type, &bytes).await,
        (&Method::PATCH, true) => verbs::update::patch(&call, &content_type, &bytes).await,
        (&Method::DELETE, true) => verbs::delete::delete(&call, query, &content_type, &bytes).await,
        (&Method::DELETE, false) => {
            verbs::delete::collection(&call, query, &content_type, &bytes).await
        }
        (_, true) => verbs::read::get(&call, query),
        (_, false) => verbs::read::list(&call, query),
    };
    finish(&call, form, result)
}

/// Renders the result of a verb. Adds the warnings of webhooks to the response.
fn finish(
    call: &Call,
    form: Form,
    result: Result<Outcome, ApiError>,
) -> Result<Response<Body>, ApiError> {
    let warnings = std::mem::take(&mut *call.warnings.lock());
    let response = match result {
        Ok(outcome) => render::outcome(&call.resource, form, outcome),
        Err(error) if warnings.is_empty() => return Err(error),
        Err(error) => respond::error(&error),
    };
    Ok(respond::warn(response, &warnings))
}

/// Returns the error for a namespaced object without a namespace, or for a cluster-scoped resource with a namespace.
fn scope_mismatch(call: &Call) -> Option<ApiError> {
    match (call.resource.namespaced(), &call.namespace) {
        (true, None) if call.name.is_some() => Some(ApiError::path_not_found()),
        (false, Some(_)) => Some(ApiError::path_not_found()),
        _ => None,
    }
}
