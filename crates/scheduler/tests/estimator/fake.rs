//! A fake estimator server. Each test chooses the response of the server to all requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use berth_estimator_protocol::wire::pb;
use berth_estimator_protocol::wire::service::estimator_server::{Estimator, EstimatorServer};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

/// The response to every request.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    Answers(i32),
    Fails(Status),
    Hangs,
}

/// A received request of one of the two methods.
#[derive(Clone, Debug)]
pub(crate) enum Received {
    Replicas(pb::MaxAvailableReplicasRequest),
    ComponentSets(pb::MaxAvailableComponentSetsRequest),
}

/// A request with its metadata.
pub(crate) type Recorded = (Received, Vec<(String, String)>);

struct State {
    cluster: String,
    behaviour: Mutex<Behaviour>,
    requests: Mutex<Vec<Recorded>>,
    /// The number of requests in progress.
    pending: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

/// A fake estimator server. When it is dropped, it closes all connections abruptly.
pub(crate) struct FakeEstimator {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    end: CancellationToken,
}

impl Drop for FakeEstimator {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// A guard that increments a counter, and decrements it when the guard is dropped.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(counter: &watch::Sender<usize>) -> Self {
        counter.send_modify(|count| *count += 1);
        Self(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl FakeEstimator {
    pub(crate) async fn start(cluster: &str, behaviour: Behaviour) -> Self {
        Self::start_at(cluster, behaviour, "127.0.0.1:0".parse().unwrap(), None).await
    }

    pub(crate) async fn start_at(
        cluster: &str,
        behaviour: Behaviour,
        address: SocketAddr,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let fake = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::new(State {
                cluster: cluster.to_owned(),
                behaviour: Mutex::new(behaviour),
                requests: Mutex::default(),
                pending: watch::Sender::new(0),
                connections: watch::Sender::new(0),
            }),
            end: CancellationToken::new(),
        };
        let serve = serve(listener, fake.state.clone(), tls, fake.end.clone());
        tokio::spawn(fake.end.clone().run_until_cancelled_owned(serve));
        fake
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        *self.state.behaviour.lock().unwrap() = behaviour;
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(crate) fn pending(&self) -> watch::Receiver<usize> {
        self.state.pending.subscribe()
    }

    pub(crate) fn connections(&self) -> watch::Receiver<usize> {
        self.state.connections.subscribe()
    }
}

async fn serve(
    listener: TcpListener,
    state: Arc<State>,
    tls: Option<TlsAcceptor>,
    end: CancellationToken,
) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (state, tls) = (state.clone(), tls.clone());
        let connection = async move {
            match tls {
                None => serve_connection(tcp, state).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(tcp).await {
                        serve_connection(stream, state).await;
                    }
                }
            }
        };
        tokio::spawn(end.clone().run_until_cancelled_owned(connection));
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    state: Arc<State>,
) {
    let _open = Counted::new(&state.connections);
    let service = TowerToHyperService::new(EstimatorServer::from_arc(state));
    let _ = http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl State {
    async fn answer<T>(
        &self,
        request: &Request<T>,
        received: Received,
        cluster: &str,
    ) -> Result<i32, Status> {
        let metadata = ["object", "grpc-timeout"].map(|key| {
            let value = request
                .metadata()
                .get(key)
                .map(|value| value.to_str().unwrap());
            (key.to_owned(), value.unwrap_or_default().to_owned())
        });
        self.requests
            .lock()
            .unwrap()
            .push((received, metadata.to_vec()));
        if cluster != self.cluster {
            return Err(Status::unknown(format!(
                "cluster name does not match, got: {cluster}, desire: {}",
                self.cluster
            )));
        }
        let _pending = Counted::new(&self.pending);
        let behaviour = self.behaviour.lock().unwrap().clone();
        match behaviour {
            Behaviour::Answers(value) => Ok(value),
            Behaviour::Fails(status) => Err(status),
            Behaviour::Hangs => std::future::pending().await,
        }
    }
}

#[tonic::async_trait]
impl Estimator for State {
    async fn max_available_replicas(
        &self,
        request: Request<pb::MaxAvailableReplicasRequest>,
    ) -> Result<Response<pb::MaxAvailableReplicasResponse>, Status> {
        let message = request.get_ref().clone();
        let cluster = message.cluster.clone();
        let max_replicas = self
            .answer(&request, Received::Replicas(message), &cluster)
            .await?;
        Ok(Response::new(pb::MaxAvailableReplicasResponse {
            max_replicas,
        }))
    }

    async fn max_available_component_sets(
        &self,
        request: Request<pb::MaxAvailableComponentSetsRequest>,
    ) -> Result<Response<pb::MaxAvailableComponentSetsResponse>, Status> {
        let message = request.get_ref().clone();
        let cluster = message.cluster.clone();
        let max_sets = self
            .answer(&request, Received::ComponentSets(message), &cluster)
            .await?;
        Ok(Response::new(pb::MaxAvailableComponentSetsResponse {
            max_sets,
        }))
    }

    async fn get_unschedulable_replicas(
        &self,
        _: Request<pb::UnschedulableReplicasRequest>,
    ) -> Result<Response<pb::UnschedulableReplicasResponse>, Status> {
        Err(Status::unimplemented("not part of the test"))
    }
}
