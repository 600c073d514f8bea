//! The HTTP server: routes, response headers, and the stream of update events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query as Parameters, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use berth_explain::Report;
use futures::{Stream, stream};
use kube::Client;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Admission};
use crate::explainer::{BindingName, Explain, Search};
use crate::pages::{self, binding, bindings, fleet, live, what_if};
use crate::query::Query;
use crate::simulation::Simulate;
use crate::simulations::Simulations;
use crate::store::{self, Shared};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Minimum time between two update events of a stream.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of concurrent searches for smallest changes.
const SEARCHES: usize = 1;

/// Headers of every response. Browsers load scripts and styles from this server only.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// An error of the dashboard's server.
#[derive(Debug, thiserror::Error)]
pub enum DashboardError {
    /// The address cannot be bound.
    #[error("cannot serve the dashboard at {0}: {1}; choose another port")]
    Bind(SocketAddr, std::io::Error),
    /// Serving failed.
    #[error("cannot serve the dashboard: {0}")]
    Serve(std::io::Error),
}

/// A dashboard that listens at its address. [`Self::serve`] accepts the requests.
#[derive(Debug)]
pub struct Dashboard {
    listener: TcpListener,
    context: Arc<Context>,
}

/// State that all requests share.
struct Context {
    access: Access,
    client: Client,
    explainer: Arc<dyn Explain>,
    simulations: Simulations,
    shared: Shared,
    /// Permits for searches of smallest changes. Each running search has one permit.
    searches: Arc<Semaphore>,
    cancel: CancellationToken,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `Client` implements no `Debug`, and the token is secret.
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Dashboard {
    /// Listens at an address, and generates a new token.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn listen(
        address: SocketAddr,
        client: Client,
        explainer: Arc<dyn Explain>,
        simulator: Arc<dyn Simulate>,
    ) -> Result<Self, DashboardError> {
        let failed = |error| DashboardError::Bind(address, error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            context: Arc::new(Context {
                access: Access::new(bound),
                client,
                explainer,
                simulations: Simulations::new(simulator),
                shared: Shared::default(),
                searches: Arc::new(Semaphore::new(SEARCHES)),
                cancel: CancellationToken::new(),
            }),
        })
    }

    /// Returns the URL of the dashboard with the token.
    pub fn url(&self) -> String {
        self.context.access.url()
    }

    /// Serves requests until `cancel` is cancelled.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, cancel: CancellationToken) -> Result<(), DashboardError> {
        let Self { listener, context } = self;
        let ended = context.cancel.clone();
        let watches = store::follow(
            context.client.clone(),
            context.shared.clone(),
            ended.clone(),
        );
        let served = axum::serve(listener, router(context)).with_graceful_shutdown({
            let ended = ended.clone();
            async move { ended.cancelled().await }
        });
        let stop = async {
            cancel.cancelled().await;
            ended.cancel();
        };
        let (served, (), ()) = tokio::join!(served, watches, stop);
        served.map_err(DashboardError::Serve)
    }
}

fn router(context: Arc<Context>) -> Router {
    Router::new()
        .route("/", get(show_fleet))
        .route("/bindings", get(show_bindings))
        .route("/bindings/{namespace}/{name}", get(show_binding))
        .route("/bindings/{namespace}/{name}/changes", get(show_changes))
        .route("/bindings/{namespace}/{name}/objects", get(show_objects))
        .route("/clusterbindings/{name}", get(show_binding))
        .route("/clusterbindings/{name}/changes", get(show_changes))
        .route("/clusterbindings/{name}/objects", get(show_objects))
        .route("/live", get(show_live))
        .route("/what-if", get(show_what_if))
        .route("/updates", get(updates))
        .route("/style.css", get(async || asset("text/css", STYLE)))
        .route("/icon.svg", get(async || asset("image/svg+xml", ICON)))
        .route("/script.js", get(async || asset("text/javascript", SCRIPT)))
        .fallback(async || not_found())
        .layer(middleware::from_fn_with_state(Arc::clone(&context), guard))
        .with_state(context)
}

/// Checks the access of a request, and sets the headers of the response.
async fn guard(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let admission = context
        .access
        .check(request.method(), request.uri(), request.headers());
    let mut response = match admission {
        Admission::Granted => next.run(request).await,
        Admission::SetCookie(location) => (
            StatusCode::SEE_OTHER,
            [
                (header::SET_COOKIE, context.access.cookie()),
                (header::LOCATION, location),
            ],
        )
            .into_response(),
        Admission::Refused(status, message) => (status, message).into_response(),
    };
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind)], text)
}

type Shown = State<Arc<Context>>;
type Pairs = Parameters<BTreeMap<String, String>>;

async fn show_fleet(State(context): Shown, Parameters(pairs): Pairs) -> Response {
    let view = fleet::View::new(&pairs);
    fleet::page(&context.shared.store.read(), &view).into_response()
}

async fn show_bindings(State(context): Shown, Parameters(pairs): Pairs) -> Response {
    let query = Query::new(&pairs);
    bindings::page(&context.shared.store.read(), &query).into_response()
}

async fn show_live(State(context): Shown) -> Response {
    live::page(&context.shared.store.read()).into_response()
}

async fn show_what_if(State(context): Shown, Parameters(pairs): Pairs) -> Response {
    let form = what_if::Form::new(&pairs);
    let outcome = match form.change() {
        None => None,
        Some(Err(reason)) => Some(Err(reason)),
        Some(Ok(_)) if !context.shared.store.read().is_complete => Some(Err(
            "the clusters and bindings are not listed yet; try again later".to_owned(),
        )),
        Some(Ok(change)) => {
            let simulations = &context.simulations;
            let known = simulations.last(&change).filter(|_| form.continues());
            Some(match known {
                Some(finished) => Ok(finished),
                None => simulations.run(context.shared.fleet(), change).await,
            })
        }
    };
    let status = match outcome {
        Some(Err(_)) => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::OK,
    };
    let page = what_if::page(&context.shared.store.read(), &form, outcome.as_ref());
    (status, page).into_response()
}

/// The name of a binding in a URL path.
#[derive(Debug, Deserialize)]
struct NamePath {
    namespace: Option<String>,
    name: String,
}

impl From<NamePath> for BindingName {
    fn from(NamePath { namespace, name }: NamePath) -> Self {
        Self { namespace, name }
    }
}

async fn show_binding(State(context): Shown, Path(name): Path<NamePath>) -> Response {
    let name = name.into();
    let explained = match context.known(&name) {
        Known::No => return not_found(),
        Known::NotYet => {
            Err("the clusters and bindings are not listed yet; try again later".to_owned())
        }
        Known::Yes => {
            let (explainer, fleet) = (&context.explainer, context.shared.fleet());
            explainer.explain(fleet, name.clone(), Search::None).await
        }
    };
    binding::page(&context.shared.store.read(), &name, &explained).into_response()
}

async fn show_changes(State(context): Shown, Path(name): Path<NamePath>) -> Response {
    let name = name.into();
    let explained = match context.known(&name) {
        Known::No => return not_found(),
        Known::NotYet => {
            Err("the clusters and bindings are not listed yet; try again later".to_owned())
        }
        Known::Yes => context.search(name.clone()).await,
    };
    binding::changes_page(&name, &explained).into_response()
}

async fn show_objects(State(context): Shown, Path(name): Path<NamePath>) -> Response {
    let name = name.into();
    if context.known(&name) == Known::No {
        return not_found();
    }
    let details = binding::Details::read(&context.client, &name).await;
    binding::objects_page(&name, &details).into_response()
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, pages::not_found()).into_response()
}

/// Presence of a binding in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
    /// The store has the binding, but the first lists of clusters and bindings are incomplete.
    NotYet,
}

impl Context {
    fn known(&self, name: &BindingName) -> Known {
        let store = self.shared.store.read();
        match (store.bindings.contains_key(name), store.is_complete) {
            (false, _) => Known::No,
            (true, false) => Known::NotYet,
            (true, true) => Known::Yes,
        }
    }

    /// Searches the smallest changes that would alter the decision. The search continues if the browser disconnects,
    /// and keeps its permit until its end.
    async fn search(&self, name: BindingName) -> Result<Report, String> {
        let permit = Arc::clone(&self.searches).acquire_owned().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let (explainer, fleet) = (Arc::clone(&self.explainer), self.shared.fleet());
        let search = tokio::spawn(async move {
            let found = explainer.explain(fleet, name, Search::Changes).await;
            drop(permit);
            found
        });
        search.await.map_err(|error| error.to_string())?
    }
}

/// Sends an event when the store has changed, at most once per [`UPDATE_INTERVAL`].
async fn updates(
    State(context): Shown,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let versions = context.shared.version.subscribe();
    let state = (versions, context.cancel.clone());
    let events = stream::unfold(state, async |(mut versions, cancel)| {
        let changed = async {
            let changed = versions.changed().await;
            tokio::time::sleep(UPDATE_INTERVAL).await;
            changed
        };
        tokio::select! {
            () = cancel.cancelled() => return None,
            changed = changed => changed.ok()?,
        }
        let version = *versions.borrow_and_update();
        let event = Event::default().event("change").data(version.to_string());
        Some((Ok(event), (versions, cancel)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}
