//! The service: puts watches, owner, writers, recorder and leader election together.

use std::sync::Arc;
use std::time::Duration;

use berth_api::component::Component;
use berth_events::EventRecorder;
use kube::Api;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::config_map::{ConfigMapError, Reload};
use crate::config::{ConfigError, Effective, start};
use crate::connect;
use crate::framework::assembly::Assembly;
use crate::framework::{RegistryError, State};
use crate::health::{self, ListenError, Probes};
use crate::lease::{Candidate, Leadership};
use crate::metrics::Metrics;
use crate::options::{BindAddress, Options};
use crate::owner::{Accurate, Input, Owner};
use crate::rate_limit::RateLimit;
use crate::watch;
use crate::writer::Writer;

/// How many watch events may wait for the owner.
const INBOX: usize = 4096;
/// How long writes in flight may keep a leader that stops from releasing its lease.
const BEFORE_RELEASE: Duration = Duration::from_millis(500);

/// Why the service ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] connect::ConnectError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The engine refuses its options.
    #[error("cannot start the engine: {0}")]
    Engine(String),
    /// Two plugins have the same name, or one to take out is not there.
    #[error(transparent)]
    Plugin(#[from] RegistryError),
    /// The profiles or extenders are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ConfigMap cannot be used.
    #[error(transparent)]
    ConfigMap(#[from] ConfigMapError),
    /// Another candidate leads now.
    #[error("lost the leader election")]
    LeadershipLost,
}

impl ServiceError {
    /// Whether the configuration has to change for it to work.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Plugin(_) | Self::Config(_) | Self::ConfigMap(ConfigMapError::Config(_))
        )
    }
}

/// Runs the scheduler until the token is cancelled.
///
/// # Errors
/// When it cannot begin, or when it loses its leadership: the process should end then.
pub async fn run(options: Options, cancel: CancellationToken) -> Result<(), ServiceError> {
    let mut config = connect::config(&options.target).await?;
    connect::limit_silence(&mut config, options.patience);
    let (client, requests) = connect::counted_client(config, &options.target)?;
    let metrics = Metrics::default().with_requests(requests);
    run_measured(options, client, metrics, cancel).await
}

/// Runs the scheduler with a client that is there already.
///
/// # Errors
/// As [`run`].
pub async fn run_with_client(
    options: Options,
    client: kube::Client,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    let client = connect::named(client, Component::Scheduler);
    run_measured(options, client, Metrics::default(), cancel).await
}

async fn run_measured(
    options: Options,
    client: kube::Client,
    metrics: Metrics,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    let effective = Effective::new(options.configuration.clone());
    let probes = Probes::new(metrics.clone(), effective.clone());

    // Tasks of this service end with it, however it ends.
    let cancel = cancel.child_token();
    let _end_of_tasks = cancel.clone().drop_guard();
    let (candidate, leadership) = match &options.lease {
        Some(lease) => {
            let (candidate, leadership) = Candidate::new(client.clone(), lease.clone());
            (Some(candidate), leadership)
        }
        None => (None, Leadership::unlimited()),
    };
    let limit = Arc::new(RateLimit::new(options.rate));
    // What is told of the last writes is told after the end was asked for.
    let all_is_told = CancellationToken::new();
    let events_end = all_is_told.clone().drop_guard();
    let (recorder, event_writer) =
        EventRecorder::new(client.clone(), options.declared.first_name());
    let event_writer = event_writer
        .with_pace(limit.clone())
        .with_patience(options.patience.request);
    let recording = tokio::spawn(event_writer.run(all_is_told));
    let writer = Writer {
        client: client.clone(),
        limit,
        leadership,
        patience: options.patience.request,
        stopping: cancel.clone(),
    };
    let (sender, inbox) = mpsc::channel(INBOX);
    let (lead_sender, lead_receiver) = tokio::sync::watch::channel(candidate.is_none());
    let accurate = options
        .estimator
        .as_ref()
        .map(|estimator| Accurate::new(&writer, estimator, cancel.clone()));
    if let Some(accurate) = &accurate {
        probes.show_estimators(accurate.client.clone());
    }
    let (said_sender, said) = mpsc::unbounded_channel();
    let assembly = Assembly {
        registry: options.all_plugins()?,
        gates: options.gates,
        empty_workload_propagation: options.empty_workload_propagation,
        estimators: accurate.iter().map(Accurate::estimator).collect(),
        client: client.clone(),
        said: said_sender,
        state: State::default(),
        metrics: metrics.clone(),
        extender_metrics: probes.extenders(),
        stopping: cancel.clone(),
    };
    let (changes_sender, changes) = mpsc::channel(1);
    let (lineup, seen) = start::begin(&options, &assembly, &effective).await?;
    // Nothing listens for a configuration that is refused.
    serve(&options, &probes, &cancel).await?;
    start_watches(&client, &sender, options.patience.watch, &cancel);
    if let Some(name) = options.config_map.clone() {
        let reload = Reload {
            name,
            flags: options.declared.flags().clone(),
            assembly,
            recorder: recorder.clone(),
            effective,
            leading: lead_receiver.clone(),
            changes: changes_sender,
            seen,
            lasts: options.patience.watch,
        };
        tokio::spawn(reload.run(cancel.clone()));
    }
    let state = Owner::new(
        &options, lineup, accurate, writer, recorder, metrics, probes,
    );
    let mut owner = tokio::spawn(state.run(inbox, said, changes, lead_receiver, cancel.clone()));

    let outcome = match candidate {
        None => {
            cancel.cancelled().await;
            Ok(())
        }
        Some(candidate) => campaign(candidate, &lead_sender, &cancel).await,
    };
    cancel.cancel();
    // The next leader should meet no write of ours, but must not wait for a slow server either: every write names the
    // version that it is based on, so one that comes late changes nothing of what the next leader has decided.
    let drained = tokio::time::timeout(BEFORE_RELEASE, &mut owner).await;
    let ended = match outcome {
        Ok(()) => Ok(()),
        Err(Campaign::Lost) => Err(ServiceError::LeadershipLost),
        Err(Campaign::Release(mut candidate)) => {
            candidate.release().await;
            Ok(())
        }
    };
    if drained.is_err() {
        let _ = owner.await;
    }
    drop(events_end);
    let _ = recording.await;
    ended
}

enum Campaign {
    Lost,
    Release(Box<Candidate>),
}

/// Stands for office, and tells the service when it may decide.
async fn campaign(
    mut candidate: Candidate,
    leading: &tokio::sync::watch::Sender<bool>,
    cancel: &CancellationToken,
) -> Result<(), Campaign> {
    if !candidate.acquire(cancel).await {
        return Ok(());
    }
    leading.send_replace(true);
    if candidate.hold(cancel).await {
        Err(Campaign::Release(Box::new(candidate)))
    } else {
        Err(Campaign::Lost)
    }
}

async fn serve(
    options: &Options,
    probes: &Probes,
    cancel: &CancellationToken,
) -> Result<(), ServiceError> {
    // Equal addresses share one server; every server answers every path.
    let mut addresses = vec![];
    for address in [options.health, options.metrics] {
        if let BindAddress::At(address) = address
            && (address.port() == 0 || !addresses.contains(&address))
        {
            addresses.push(address);
        }
    }
    for address in addresses {
        let bound = health::serve(address, probes.clone(), cancel.clone()).await?;
        tracing::info!(address = %bound, "serving health and metrics");
    }
    Ok(())
}

fn start_watches(
    client: &kube::Client,
    sender: &mpsc::Sender<Input>,
    lasts: Duration,
    cancel: &CancellationToken,
) {
    let (clusters, bindings, cluster_bindings) = (
        Api::all(client.clone()),
        Api::all(client.clone()),
        Api::all(client.clone()),
    );
    tokio::spawn(watch::run(
        clusters,
        sender.clone(),
        Input::Cluster,
        lasts,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        bindings,
        sender.clone(),
        Input::Binding,
        lasts,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        cluster_bindings,
        sender.clone(),
        Input::ClusterBinding,
        lasts,
        cancel.clone(),
    ));
}
