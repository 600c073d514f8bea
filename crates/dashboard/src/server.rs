//! The HTTP server: routes, response headers, and the stream of update events.

mod binding_views;

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
use axum::response::{Html as Document, IntoResponse, Response};
use axum::routing::get;
use berth_api::{BindingKey, ClusterQueue, FederatedResourceQuota};
use berth_apimachinery::api_error::{api_error_message, has_code};
use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::scheduler_endpoint::SchedulerEndpoint;
use futures::{Stream, stream};
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::binding_views::{
    show_binding, show_changes, show_differences, show_members, show_objects,
};
use crate::access::{Access, AccessDecision};
use crate::binding_query::Query;
use crate::pages::{
    self, DataState, bindings, cluster, fleet, live, overview, policies, quotas, what_if,
};
use crate::simulation_runner::SimulationRunner;
use crate::store::{self, PolicyName, SharedState, Store};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Minimum time between two update events of a stream.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of concurrent searches for smallest changes.
const MAX_SEARCHES: usize = 1;

/// Maximum number of concurrent comparisons with members.
const MAX_COMPARISONS: usize = 1;

/// Reason why the dashboard cannot explain or simulate decisions during its start.
const NOT_LISTED_YET: &str = "the clusters and bindings are not listed yet; try again later";

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

/// The clients of a control plane.
#[derive(Clone)]
pub struct Clients {
    /// The client for all requests to the control plane.
    pub control_plane: Client,
    /// The client for requests that the control plane forwards to members. It must not repeat requests, because the
    /// control plane responds about an unreachable member as if it were overloaded.
    pub forwarding: Client,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
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
    clients: Clients,
    configuration: DecisionConfiguration,
    /// The scheduler whose records the pages show. `None` if none is known.
    scheduler: Option<SchedulerEndpoint>,
    simulation_runner: SimulationRunner,
    shared: SharedState,
    /// Permits for searches of smallest changes. Each running search has one permit.
    searches: Arc<Semaphore>,
    /// Permits for comparisons with members.
    comparisons: Semaphore,
    cancel: CancellationToken,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // `Client` implements no `Debug`, and the token is secret.
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Dashboard {
    /// Listens at an address, and generates a new token. The pages explain and simulate decisions with the
    /// configuration, and show the records of the scheduler.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn listen(
        address: SocketAddr,
        clients: Clients,
        configuration: DecisionConfiguration,
        scheduler: Option<SchedulerEndpoint>,
    ) -> Result<Self, DashboardError> {
        let failed = |error| DashboardError::Bind(address, error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            context: Arc::new(Context {
                access: Access::new(bound),
                simulation_runner: SimulationRunner::new(
                    clients.control_plane.clone(),
                    configuration.clone(),
                ),
                clients,
                configuration,
                scheduler,
                shared: SharedState::default(),
                searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
                comparisons: Semaphore::new(MAX_COMPARISONS),
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
        let watches = store::run_watches(
            context.clients.control_plane.clone(),
            context.shared.clone(),
            ended.clone(),
        );
        // Diagnoses of many bindings must not delay the responses. The server ends with this task, and the task ends
        // with the server.
        let end = ended.clone().drop_guard();
        let watches = tokio::spawn(async move {
            let _end = end;
            watches.await;
        });
        let _end = ended.clone().drop_guard();
        let served = axum::serve(listener, router(context)).with_graceful_shutdown({
            let ended = ended.clone();
            async move { ended.cancelled().await }
        });
        let stop = async {
            tokio::select! {
                () = cancel.cancelled() => ended.cancel(),
                () = ended.cancelled() => {}
            }
        };
        let (served, joined, ()) = tokio::join!(served, watches, stop);
        joined.map_err(|error| DashboardError::Serve(error.into()))?;
        served.map_err(DashboardError::Serve)
    }
}

fn router(context: Arc<Context>) -> Router {
    let pages = Router::new()
        .route("/", get(show_overview))
        .route("/fleet", get(show_fleet))
        .route("/clusters/{name}", get(show_cluster))
        .route("/bindings", get(show_bindings))
        .route("/bindings/{namespace}/{name}", get(show_binding))
        .route("/bindings/{namespace}/{name}/changes", get(show_changes))
        .route("/bindings/{namespace}/{name}/objects", get(show_objects))
        .route(
            "/bindings/{namespace}/{name}/differences",
            get(show_differences),
        )
        .route("/bindings/{namespace}/{name}/members", get(show_members))
        .route("/clusterbindings/{name}", get(show_binding))
        .route("/clusterbindings/{name}/changes", get(show_changes))
        .route("/clusterbindings/{name}/objects", get(show_objects))
        .route("/clusterbindings/{name}/differences", get(show_differences))
        .route("/clusterbindings/{name}/members", get(show_members))
        .route("/policies", get(show_policies))
        .route("/policies/{namespace}/{name}", get(show_policy))
        .route("/clusterpolicies/{name}", get(show_policy))
        .route("/quotas", get(show_quotas))
        .route("/live", get(show_live))
        .route("/what-if", get(show_what_if))
        .route_layer(middleware::from_fn_with_state(
            Arc::clone(&context),
            require_data,
        ));
    Router::new()
        .merge(pages)
        .route("/updates", get(updates))
        .route("/style.css", get(async || asset("text/css", STYLE)))
        .route("/icon.svg", get(async || asset("image/svg+xml", ICON)))
        .route("/script.js", get(async || asset("text/javascript", SCRIPT)))
        .fallback(show_not_found)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&context),
            check_access,
        ))
        .with_state(context)
}

/// Shows the outage instead of a page while there are no data.
async fn require_data(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    let data = context.data();
    match data.without_data() {
        Some(outage) => {
            let page = pages::no_data(&data, outage);
            (StatusCode::SERVICE_UNAVAILABLE, page).into_response()
        }
        None => next.run(request).await,
    }
}

/// Checks the access of a request, and sets the headers of the response.
async fn check_access(
    State(context): State<Arc<Context>>,
    request: Request,
    next: Next,
) -> Response {
    let decision = context
        .access
        .check(request.method(), request.uri(), request.headers());
    let mut response = match decision {
        AccessDecision::Granted => next.run(request).await,
        AccessDecision::SetCookie(location) => (
            StatusCode::SEE_OTHER,
            [
                (header::SET_COOKIE, context.access.cookie()),
                (header::LOCATION, location),
            ],
        )
            .into_response(),
        AccessDecision::Refused(status, message) => (status, message).into_response(),
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

type SharedContext = State<Arc<Context>>;
type QueryParameters = Parameters<BTreeMap<String, String>>;

async fn show_overview(State(context): SharedContext) -> Response {
    overview::page(&context.shared.store.read()).into_response()
}

async fn show_cluster(State(context): SharedContext, Path(name): Path<String>) -> Response {
    let object = context.shared.cluster(&name);
    let store = context.shared.store.read();
    let presence = Presence::of(store.clusters.get(&name), &store);
    respond(presence, &store, || {
        cluster::page(&store, &name, object.as_deref())
    })
}

async fn show_policies(State(context): SharedContext) -> Response {
    policies::list(&context.shared.store.read()).into_response()
}

async fn show_policy(State(context): SharedContext, Path(name): Path<NamePath>) -> Response {
    let policy = PolicyName {
        namespace: name.namespace.map(Into::into),
        name: name.name.into(),
    };
    let store = context.shared.store.read();
    let mut rows = store.bindings.values();
    let found = rows.find(|row| row.policy.as_ref() == Some(&policy));
    respond(Presence::of(found, &store), &store, || {
        policies::page(&store, &policy)
    })
}

/// Shows the quotas. They are read with each request, because few clients look at them.
async fn show_quotas(State(context): SharedContext) -> Response {
    let client = &context.clients.control_plane;
    let quotas = first_objects::<FederatedResourceQuota>(client).await;
    let queues = first_objects::<ClusterQueue>(client).await;
    quotas::list(&context.shared.store.read(), &quotas, &queues).into_response()
}

/// Lists the objects of a kind, up to the number that the page of quotas shows and one more. There are none if the control
/// plane does not serve the kind.
async fn first_objects<K>(client: &kube::Client) -> Result<Vec<K>, String>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::all(client.clone());
    let limit = u32::try_from(pages::limits::MAX_QUOTAS + 1).unwrap_or(u32::MAX);
    match api.list(&ListParams::default().limit(limit)).await {
        Ok(list) => Ok(list.items),
        Err(error) if has_code(&error, 404) => Ok(Vec::new()),
        Err(error) => Err(api_error_message(&error)),
    }
}

/// Returns the page of an object, or the page about its absence.
fn respond(presence: Presence, store: &Store, page: impl FnOnce() -> Document<String>) -> Response {
    match presence {
        Presence::Present | Presence::PresentBeforeSync => page().into_response(),
        Presence::Unknown => not_listed_yet(&DataState::of(store)),
        Presence::Absent => (StatusCode::NOT_FOUND, page()).into_response(),
    }
}

async fn show_not_found(State(context): SharedContext) -> Response {
    not_found(&context.data())
}

async fn show_fleet(State(context): SharedContext, Parameters(pairs): QueryParameters) -> Response {
    let view = fleet::View::new(&pairs);
    fleet::page(&context.shared.store.read(), &view).into_response()
}

async fn show_bindings(
    State(context): SharedContext,
    Parameters(pairs): QueryParameters,
) -> Response {
    let query = Query::new(&pairs);
    bindings::page(&context.shared.store.read(), &query).into_response()
}

async fn show_live(State(context): SharedContext) -> Response {
    live::page(&context.shared.store.read()).into_response()
}

async fn show_what_if(
    State(context): SharedContext,
    Parameters(pairs): QueryParameters,
) -> Response {
    let form = what_if::Form::new(&pairs);
    let outcome = match form.change() {
        None => None,
        Some(Err(reason)) => Some(Err(reason)),
        Some(Ok(_)) if !context.shared.store.read().has_synced => {
            Some(Err(NOT_LISTED_YET.to_owned()))
        }
        Some(Ok(change)) => {
            let runner = &context.simulation_runner;
            let known = runner.last(&change).filter(|_| form.continues());
            Some(match known {
                Some(finished) => Ok(finished),
                None => runner.run(context.shared.fleet(), change).await,
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

impl From<NamePath> for BindingKey {
    fn from(path: NamePath) -> Self {
        Self::new(path.namespace.as_deref().unwrap_or_default(), &path.name)
    }
}

fn not_found(data: &DataState) -> Response {
    (StatusCode::NOT_FOUND, pages::not_found(data)).into_response()
}

fn not_listed_yet(data: &DataState) -> Response {
    let page = pages::not_listed_yet(data);
    (StatusCode::SERVICE_UNAVAILABLE, page).into_response()
}

/// The presence of the object of a page in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// The store has the object.
    Present,
    /// The store has the object, but the first lists of clusters and bindings are incomplete.
    PresentBeforeSync,
    /// The object does not exist.
    Absent,
    /// The store does not have the object, but the first lists of clusters and bindings are incomplete.
    Unknown,
}

impl Presence {
    fn of<T>(found: Option<T>, store: &Store) -> Self {
        match (found.is_some(), store.has_synced) {
            (true, true) => Self::Present,
            (true, false) => Self::PresentBeforeSync,
            (false, true) => Self::Absent,
            (false, false) => Self::Unknown,
        }
    }
}

impl Context {
    fn data(&self) -> DataState {
        DataState::of(&self.shared.store.read())
    }

    fn presence(&self, name: &BindingKey) -> Presence {
        let store = self.shared.store.read();
        Presence::of(store.bindings.get(name), &store)
    }
}

/// Sends an event when the store has changed, at most once per [`UPDATE_INTERVAL`].
async fn updates(
    State(context): SharedContext,
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

#[cfg(test)]
mod tests;
