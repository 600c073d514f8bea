//! The HTTP face: routing, what each request has to get past, and turning results and errors into responses.
//! What a request does is in [`crate::verbs`].

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod cached;
mod compress;
mod connect;
mod describe;
pub(crate) mod escapes;
mod fixed;
mod health;
pub(crate) mod load;
mod old_watch;
mod part;
pub(crate) mod query;
pub(crate) mod respond;
mod route;
pub(crate) mod unread;

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::authentication::impersonation;
use crate::authorization;
use crate::authorization::attributes::{Attributes, Hints};
use crate::connection::Connection;
use crate::error::{ApiError, Reason};
use crate::metrics::About;
use crate::registry::{Snapshot, Style};
use crate::shared::{Identity, Shared};
use crate::store::Unkept;
use crate::verbs::{self, Call, Origin, Subresource};
use accept::{Asked, Notation, Rendering};
use load::{Kind, Level, Seat};
use part::Part;
use query::Query;
use route::{Route, Target};

/// Larger bodies are refused, as by a real server.
pub(crate) const MAX_BODY: usize = 3 << 20;

/// Answers one request; never fails.
pub(crate) async fn handle(shared: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let began = Instant::now();
    let (mut parts, mut body) = request.into_parts();
    let old = old_watch::read(&mut parts);
    let (gzip, is_head) = (
        compress::is_wanted(&parts.headers),
        parts.method == Method::HEAD,
    );
    let mut about = About {
        verb: parts.method.as_str().to_owned(),
        component: "apiserver".to_owned(),
        ..About::default()
    };
    let pretty = wants_layout(&parts);
    let mut seat = None;
    let response = loop {
        let before = shared.store.mark();
        let body = std::mem::take(&mut body);
        let answer = match &old {
            Ok(()) => answer(&shared, &parts, body, &mut about, &mut seat).await,
            Err(error) => Err(error.clone()),
        };
        // Whatever it shows is kept before it is answered, refusals included.
        break match (shared.store.kept_since(before).await, answer) {
            // What it shows was undone: another look shows what is kept.
            (Err(Unkept::Lost(_)), _) if is_read(&parts) => continue,
            (Err(unkept), _) => respond::error(&ApiError::unkept(unkept)),
            (Ok(()), Ok(response)) => response,
            (Ok(()), Err(error)) => respond::error(&error),
        };
    };
    let response = if pretty {
        respond::laid_out(response).await
    } else {
        response
    };
    let response = match (is_head, gzip) {
        (true, _) => response.map(|_| Body::empty()),
        (false, true) => compress::compressed(response).await,
        (false, false) => response,
    };
    shared
        .metrics
        .record(about, response.status().as_u16(), began.elapsed());
    match seat {
        Some(seat) => seat.until_sent(response),
        None => response,
    }
}

fn is_read(parts: &Parts) -> bool {
    parts.method == Method::GET || parts.method == Method::HEAD
}

/// Whether JSON is to be laid out for people: on request, and for programs that people use to look at it.
fn wants_layout(parts: &Parts) -> bool {
    let query = Query::parse(&parts.uri);
    if query.is_watch() {
        return false;
    }
    if let Some(text) = query.get("pretty") {
        return matches!(text, "1" | "t" | "T" | "true" | "True" | "TRUE");
    }
    let agent = header_text(parts, &header::USER_AGENT);
    let for_people = ["curl", "Wget", "Mozilla/5.0"];
    for_people.iter().any(|program| agent.starts_with(program))
}

async fn answer(
    shared: &Arc<Shared>,
    parts: &Parts,
    body: Body,
    about: &mut About,
    seat: &mut Option<Seat>,
) -> Result<Response<Body>, ApiError> {
    let Some(path) = escapes::path(&parts.uri) else {
        return Ok(respond::no_request());
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
    let wanted = Attributes::of(&parts.method, &path, hints);
    let level = Level::of(&identity, &wanted);
    if let Some(connection) = parts.extensions.get::<Arc<Connection>>()
        && let Err(refusal) = connection.claim(&identity)
        && (level != Level::Exempt)
    {
        return Err(shared.load.refusals().count(refusal));
    }
    let seat = &*seat.insert(shared.load.seat(&identity, level)?);
    let identity = impersonation::apply(&shared.access, identity, &parts.headers, &wanted)?;
    authorization::check(&shared.access, &identity, &wanted)?;
    let snapshot = shared.registry.snapshot();
    if let Some(connection) = connect::find(shared, &snapshot, &wanted, parts, about)? {
        return connection
            .answer(shared, seat, identity, parts.clone(), body)
            .await;
    }
    let route = route::parse(&path, &snapshot).ok_or_else(|| {
        if parts.method != Method::GET && old_watch::is_one(&path) {
            method_not_allowed()
        } else {
            ApiError::path_not_found()
        }
    })?;
    describe::request(about, &route, &wanted, parts, &query);
    let reads = is_read(parts);
    let asking = Asking {
        shared,
        identity,
        parts,
        query: &query,
        seat,
    };
    if reads && query.is_watch() {
        let place = seat.watch()?;
        let response = asking.routed(body, &snapshot, route).await?;
        return Ok(response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // Held as long as anything is sent.
                let _ = &place;
                frame
            }))
        }));
    }
    asking.routed(body, &snapshot, route).await
}

/// A request that has got past everything, without its body.
struct Asking<'a> {
    shared: &'a Arc<Shared>,
    identity: Identity,
    parts: &'a Parts,
    query: &'a Query,
    seat: &'a Seat,
}

impl Asking<'_> {
    async fn routed(
        self,
        body: Body,
        snapshot: &Arc<Snapshot>,
        route: Route<'_>,
    ) -> Result<Response<Body>, ApiError> {
        match route {
            Route::Target(target) => {
                if let Some(name) = target.subresource.as_deref()
                    && Subresource::parse(name, &target.resource).is_none()
                {
                    let part = Part::parse(name, &target).ok_or_else(ApiError::path_not_found)?;
                    return part.answer(self, body, target).await;
                }
                resource_request(self, body, target).await
            }
            Route::Fixed(path, slash) => {
                let asked = (&*path, slash);
                let _place = self.seat.place(Kind::of(&self.parts.method)).await?;
                let work = fixed::answer(self.shared, snapshot, self.parts, self.query, asked);
                self.seat.work(work).await
            }
        }
    }

    /// The type of the body; case does not matter.
    fn content_type(&self) -> String {
        header_text(self.parts, &header::CONTENT_TYPE).to_ascii_lowercase()
    }

    /// As what the verbs take, for what its path names.
    fn call(self, target: Target, rendering: Rendering) -> Result<Call, ApiError> {
        let user_agent = header_text(self.parts, &header::USER_AGENT);
        let subresource = target
            .subresource
            .as_deref()
            .and_then(|s| Subresource::parse(s, &target.resource));
        let most = self.shared.load.limits.patience;
        let patience = self
            .query
            .timeout()?
            .map_or(most, |wanted| wanted.min(most));
        Ok(Call {
            shared: self.shared.clone(),
            resource: target.resource,
            namespace: target.namespace,
            name: target.name,
            subresource,
            options: self.query.write_options(&self.parts.method, user_agent)?,
            identity: self.identity,
            rendering,
            origin: Origin::Client,
            deadline: Instant::now() + patience,
            warnings: Mutex::default(),
        })
    }
}

/// Refuses what can be no name of an object.
fn check_name(name: &str) -> Result<(), ApiError> {
    let problem = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    let why = format!("Name parameter invalid: \"{name}\": {problem}");
    Err(ApiError::bad_request(why))
}

fn header_text<'a>(parts: &'a Parts, name: &header::HeaderName) -> &'a str {
    parts
        .headers
        .get(name)
        .and_then(|h| h.to_str().ok())
        .unwrap_or_default()
}

pub(crate) fn method_not_allowed() -> ApiError {
    let mut error = ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    );
    error.subject = Some(Box::default());
    error
}

async fn resource_request(
    asking: Asking<'_>,
    body: Body,
    target: Target,
) -> Result<Response<Body>, ApiError> {
    let (parts, query, seat) = (asking.parts, asking.query, asking.seat);
    if let Some(name) = &target.name {
        check_name(name)?;
    }
    let accepts = header_text(parts, &header::ACCEPT);
    let is_review = target.resource.style == Style::Review;
    let asked = match parts.method {
        _ if is_review => Asked::Review,
        Method::GET | Method::DELETE if target.name.is_some() => Asked::Object,
        Method::GET if query.is_watch() => Asked::Watch,
        Method::GET | Method::DELETE => Asked::List,
        _ => Asked::Object,
    };
    let (rendering, notation) = accept::negotiate(accepts, asked)?;
    let content_type = asking.content_type();
    let most = asking.shared.load.limits.patience;
    let call = asking.call(target, rendering)?;
    if let Some(scope_error) = scope_mismatch(&call) {
        return Err(scope_error);
    }
    match (&parts.method, &call.name) {
        (&Method::POST, None) | (&Method::PUT, Some(_)) => body::check_type(&content_type)?,
        (&Method::PATCH, Some(_)) => verbs::update::check_patch_type(&call, &content_type)?,
        _ => {}
    }
    let patience = query.timeout()?.map_or(most, |wanted| wanted.min(most));
    let has_name = call.name.is_some();
    let has_body = match (&parts.method, has_name) {
        (&Method::POST, false) => true,
        _ if is_review => return Err(method_not_allowed()),
        (&Method::PUT | &Method::PATCH, true) | (&Method::DELETE, _) => true,
        (&Method::GET, _) => false,
        _ => return Err(method_not_allowed()),
    };
    let bytes = if has_body {
        body::read(body, patience, seat).await?
    } else {
        Bytes::new()
    };
    let is_watch = parts.method == Method::GET && !has_name && query.is_watch();
    let _place = if is_watch {
        None
    } else {
        Some(seat.place(Kind::of(&parts.method)).await?)
    };
    let work = async {
        let answer = match (&parts.method, has_name) {
            (&Method::POST, false) if is_review => {
                verbs::reviews::create(&call, &content_type, &bytes)
            }
            (&Method::POST, false) => verbs::create::create(&call, &content_type, &bytes).await,
            (&Method::PUT, true) => verbs::update::replace(&call, &content_type, &bytes).await,
            (&Method::PATCH, true) => verbs::update::patch(&call, &content_type, &bytes).await,
            (&Method::DELETE, true) => {
                verbs::delete::delete(&call, query, &content_type, &bytes).await
            }
            (&Method::DELETE, false) => {
                verbs::delete::collection(&call, query, &content_type, &bytes).await
            }
            (_, true) => verbs::read::get(&call, query),
            (_, false) if is_watch => verbs::watch::watch(&call, query),
            (_, false) => verbs::read::list(&call, query),
        };
        let answer = call.warned(answer)?;
        Ok::<_, ApiError>(match notation {
            Notation::Json => answer,
            Notation::Yaml => respond::as_yaml(answer).await,
        })
    };
    seat.work(work).await
}

/// A namespaced resource needs its namespace for anything but listing; a cluster-scoped one has none.
fn scope_mismatch(call: &Call) -> Option<ApiError> {
    match (call.resource.namespaced(), &call.namespace) {
        (true, None) if call.name.is_some() => Some(ApiError::path_not_found()),
        (false, Some(_)) => Some(ApiError::path_not_found()),
        _ => None,
    }
}
