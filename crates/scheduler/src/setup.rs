//! Assembly of the scheduler service: clients, watches, scheduler, leader election and HTTP endpoints.
//!
//! No other module of this crate imports this module.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use berth_component_base::endpoints::{Addresses, ListenError};
use berth_component_base::user_agent::Component;
use berth_events::EventRecorder;
use kube::Api;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::config_map::{self, ConfigMapError};
use crate::config::{ClusterQueues, ConfigError, Effective, Mode, Options, QuotaEnforcement};
use crate::debug_api::query::DebugClient;
use crate::decision_log::Recorder;
use crate::decision_log::format::Configuration;
use crate::framework::{RegistryError, State};
use crate::http_endpoints::{DecisionSettings, Probes};
use crate::metrics::{Metrics, ShadowMetrics};
use crate::profiles::builder::{ActiveConfig, FrameworkBuilder};
use crate::profiles::config_map_watch::ConfigMapWatch;
use crate::scheduler::{EstimatorHandle, Input, Inputs, Scheduler};
use crate::shadow::Shadow;
use crate::shadow_differences::Differences;
use crate::watch;
use crate::writer::Writer;
use berth_component_base::access_flags::MetricsAccessError;
use berth_component_base::kube_client::{self, RateLimit};
use berth_component_base::leader_election::{Candidate, Leadership};
use berth_component_base::program::ignored_flags;

/// Capacity of the channel of watch events.
const WATCH_EVENTS: usize = 4096;
/// Time limit for pending writes before the Lease is released.
const BEFORE_RELEASE: Duration = Duration::from_millis(500);

/// Reason why the service ended or did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The client of the control plane cannot be created.
    #[error(transparent)]
    Connect(#[from] kube_client::ConnectError),
    /// The access to the metrics cannot be restricted.
    #[error(transparent)]
    MetricsAccess(#[from] MetricsAccessError),
    /// The service cannot listen on an address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Two plugins have the same name, or the options remove an unknown plugin.
    #[error(transparent)]
    Plugin(#[from] RegistryError),
    /// The profiles or extenders are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Shadow mode does not support a feature of this configuration.
    #[error("--shadow cannot be combined with {0}: remove {0}, or run a second scheduler")]
    Shadow(&'static str),
    /// The decision log cannot be created.
    #[error("cannot create a decision log in {}: {source}; pass another --decision-log", .folder.display())]
    DecisionLog {
        /// The folder of the log.
        folder: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The ConfigMap cannot be read, or its configuration is invalid.
    #[error(transparent)]
    ConfigMap(#[from] ConfigMapError),
    /// This process could not renew the Lease in time, or another candidate became the leader.
    #[error("lost the leader election")]
    LeadershipLost,
}

impl ServiceError {
    /// Reports whether a user must change the configuration to correct the error.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            Self::Plugin(_)
                | Self::Config(_)
                | Self::Shadow(_)
                | Self::ConfigMap(ConfigMapError::Config(_))
        )
    }
}

/// Runs the scheduler until the token is cancelled.
///
/// # Errors
/// When the scheduler cannot start or loses its leadership. The process should then end.
pub async fn run(options: Options, cancel: CancellationToken) -> Result<(), ServiceError> {
    let mut config = kube_client::config(&options.target).await?;
    kube_client::limit_silence(&mut config, options.timeouts);
    let (client, requests) =
        kube_client::counted_client(config, &options.target, Component::Scheduler)?;
    let metrics = Metrics::default().with_requests(requests);
    run_with_metrics(options, client, metrics, cancel).await
}

/// Runs the scheduler with an existing client until the token is cancelled.
///
/// # Errors
/// In the same cases as [`run`].
pub async fn run_with_client(
    options: Options,
    client: kube::Client,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    let client = kube_client::named(client, Component::Scheduler);
    run_with_metrics(options, client, Metrics::default(), cancel).await
}

/// Runs shadow mode until the token is cancelled.
async fn run_shadow(
    options: Options,
    client: kube::Client,
    metrics: Metrics,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    if options.estimator.is_some() {
        return Err(ServiceError::Shadow("accurate estimators"));
    }
    if options.config_map.is_some() {
        return Err(ServiceError::Shadow("--config-map"));
    }
    if options.decision_log.is_some() {
        return Err(ServiceError::Shadow("--decision-log"));
    }
    let cancel = cancel.child_token();
    let _end_of_tasks = cancel.clone().drop_guard();
    let effective = Effective::new(options.configuration.clone());
    let probes = Probes::new(metrics.clone(), effective.clone()).with_settings(settings(&options));
    // Shadow mode writes and parks no decision, so it ignores the messages of plugins.
    let (message_sender, _messages) = mpsc::unbounded_channel();
    let builder = FrameworkBuilder {
        registry: options.all_plugins()?,
        gates: options.gates,
        empty_workload_propagation: options.empty_workload_propagation,
        estimators: Vec::new(),
        client: client.clone(),
        messages: message_sender,
        plugin_state: State::default(),
        metrics,
        extender_metrics: probes.extenders(),
        stopping: cancel.clone(),
    };
    let (config, _) = initial_config(&options, &builder, &effective).await?;
    if config.extenders.is_some() {
        return Err(ServiceError::Shadow("extenders"));
    }
    let comparison = Arc::new(ShadowMetrics::default());
    let differences = Differences::default();
    probes.show_shadow(comparison.clone(), differences.clone());
    serve(&options, &probes, &client, &cancel).await?;
    ignored_flags::log_ineffective(&options.ineffective_flags);
    let (watches, scores_wanted) = start_watches(&client, &options, ClusterQueues::Off, &cancel);
    if config.frameworks.read_scores() {
        scores_wanted.notify_one();
    }
    Shadow::new(&options, config, comparison, differences, probes)
        .run(watches, cancel)
        .await;
    Ok(())
}

async fn run_with_metrics(
    options: Options,
    client: kube::Client,
    metrics: Metrics,
    cancel: CancellationToken,
) -> Result<(), ServiceError> {
    if options.mode == Mode::Shadow {
        return run_shadow(options, client, metrics, cancel).await;
    }
    let effective = Effective::new(options.configuration.clone());
    let (debug_client, debug) = DebugClient::new();
    let probes = Probes::new(metrics.clone(), effective.clone())
        .with_settings(settings(&options))
        .with_decisions((options.debug_decisions > 0).then_some(debug_client));

    // The guard ends the tasks of this service when this function returns.
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
    // The guard keeps the event recorder running until the final writes have finished.
    let recorder_stop = CancellationToken::new();
    let recorder_guard = recorder_stop.clone().drop_guard();
    let (recorder, event_writer) =
        EventRecorder::new(client.clone(), options.declared.first_name());
    let recorder = recorder.with_routine_events(options.routine_events);
    let event_writer = event_writer
        .with_rate_limiter(limit.clone())
        .with_timeout(options.timeouts.request);
    let recording = tokio::spawn(event_writer.run(recorder_stop));
    let writer = Writer {
        client: client.clone(),
        limit,
        leadership,
        timeout: options.timeouts.request,
        stopping: cancel.clone(),
    };
    let (lead_sender, leading) = tokio::sync::watch::channel(candidate.is_none());
    let estimators = options
        .estimator
        .as_ref()
        .map(|estimator| EstimatorHandle::new(&writer, estimator, cancel.clone()));
    if let Some(estimators) = &estimators {
        probes.show_estimators(estimators.client.clone());
    }
    let (message_sender, plugin_messages) = mpsc::unbounded_channel();
    let builder = FrameworkBuilder {
        registry: options.all_plugins()?,
        gates: options.gates,
        empty_workload_propagation: options.empty_workload_propagation,
        estimators: estimators.iter().map(EstimatorHandle::estimator).collect(),
        client: client.clone(),
        messages: message_sender,
        plugin_state: State::default(),
        metrics: metrics.clone(),
        extender_metrics: probes.extenders(),
        stopping: cancel.clone(),
    };
    let (config, seen) = initial_config(&options, &builder, &effective).await?;
    // Listen only after the configuration has been built.
    serve(&options, &probes, &client, &cancel).await?;
    let (watches, scores_wanted) =
        start_watches(&client, &options, options.cluster_queues, &cancel);
    let (changes, config_changes) = mpsc::channel(1);
    if let Some(name) = options.config_map.clone() {
        let watch = ConfigMapWatch {
            name,
            flags: options.declared.flags().clone(),
            builder,
            recorder: recorder.clone(),
            effective,
            leading: leading.clone(),
            changes,
            seen,
            watch_timeout: options.timeouts.watch,
        };
        tokio::spawn(watch.run(cancel.clone()));
    }
    ignored_flags::log_ineffective(&options.ineffective_flags);
    let (decision_log, log_writer) = start_decision_log(&options, &config, &probes)?.unzip();
    let scheduler = Scheduler::new(
        &options, config, estimators, writer, recorder, metrics, probes,
    )
    .with_decision_log(decision_log)
    .with_score_watch(scores_wanted);
    let inputs = Inputs {
        watches,
        plugin_messages,
        config_changes,
        debug,
        leading,
    };
    let scheduling = tokio::spawn(scheduler.run(inputs, cancel.clone()));
    let result = lead(candidate, &lead_sender, scheduling, &cancel).await;
    drop(recorder_guard);
    let _ = recording.await;
    // The scheduler has ended and closed the decision log. Wait until the log is written completely.
    let _ = tokio::task::spawn_blocking(|| log_writer.map(thread::JoinHandle::join)).await;
    result
}

/// Starts the HTTP endpoints, and sends the address of the metrics to the channel in `options.serving`.
async fn serve(
    options: &Options,
    probes: &Probes,
    client: &kube::Client,
    cancel: &CancellationToken,
) -> Result<(), ServiceError> {
    let addresses = Addresses {
        probes: options.health,
        metrics: options.metrics,
    };
    let access = options
        .metrics_access
        .access(Component::Scheduler, client, cancel)
        .await?;
    let bound = probes.endpoints().serve(addresses, access, cancel).await?;
    if let Some(serving) = &options.serving {
        serving.send_replace(bound.metrics);
    }
    Ok(())
}

/// Returns the settings that affect decisions and that are not part of the configuration file.
fn settings(options: &Options) -> DecisionSettings {
    DecisionSettings {
        gates: options.gates,
        empty_workload_propagation: options.empty_workload_propagation,
        estimators: options.estimator.is_some(),
        enforces_quotas: options.quotas == QuotaEnforcement::On,
    }
}

/// Starts the decision log if the options enable it.
fn start_decision_log(
    options: &Options,
    config: &ActiveConfig,
    probes: &Probes,
) -> Result<Option<(Recorder, thread::JoinHandle<()>)>, ServiceError> {
    let Some(log) = options.decision_log.clone() else {
        return Ok(None);
    };
    let configuration = Configuration {
        document: config.document(),
        feature_gates: options.gates,
        empty_workload_propagation: options.empty_workload_propagation,
        estimators: options.estimator.is_some(),
    };
    let folder = log.folder.clone();
    let (recorder, thread) = Recorder::start(log, configuration)
        .map_err(|source| ServiceError::DecisionLog { folder, source })?;
    probes.show_decision_log(recorder.dropped());
    Ok(Some((recorder, thread)))
}

/// Runs the leader election until the token is cancelled or the leadership is lost. Then waits for the scheduler.
async fn lead(
    candidate: Option<Candidate>,
    lead_sender: &tokio::sync::watch::Sender<bool>,
    mut scheduling: JoinHandle<()>,
    cancel: &CancellationToken,
) -> Result<(), ServiceError> {
    let outcome = match candidate {
        None => {
            cancel.cancelled().await;
            Ok(())
        }
        Some(candidate) => campaign(candidate, lead_sender, cancel).await,
    };
    cancel.cancel();
    // Pending writes should finish before the next leader starts, but a slow server must not delay the next leader. A
    // late write cannot replace a newer decision, because every write carries the resourceVersion of the object that it
    // changes.
    let drained = tokio::time::timeout(BEFORE_RELEASE, &mut scheduling).await;
    let result = match outcome {
        Ok(()) => Ok(()),
        Err(LeadershipEnd::Lost) => Err(ServiceError::LeadershipLost),
        Err(LeadershipEnd::Release(mut candidate)) => {
            candidate.release().await;
            Ok(())
        }
    };
    if drained.is_err() {
        let _ = scheduling.await;
    }
    result
}

/// Builds and logs the configuration from the flags, a file or a ConfigMap. Also returns the text of the ConfigMap.
async fn initial_config(
    options: &Options,
    builder: &FrameworkBuilder,
    effective: &Effective,
) -> Result<(ActiveConfig, Option<String>), ServiceError> {
    let (declared, text) = match &options.config_map {
        Some(name) => config_map::read(&builder.client, name, options.declared.flags()).await?,
        None => (options.declared.clone(), None),
    };
    let config = builder.build(&declared)?;
    effective.set(config.profiles.clone(), declared.extenders().to_vec());
    tracing::info!("Using component config\n{}", effective.yaml());
    Ok((config, text))
}

/// The end of the leadership of this process.
enum LeadershipEnd {
    Lost,
    Release(Box<Candidate>),
}

/// Waits until this process is the leader, and sends `true` to `leading`. Then renews the Lease until the token is
/// cancelled or the leadership is lost.
async fn campaign(
    mut candidate: Candidate,
    leading: &tokio::sync::watch::Sender<bool>,
    cancel: &CancellationToken,
) -> Result<(), LeadershipEnd> {
    if !candidate.acquire(cancel).await {
        return Ok(());
    }
    leading.send_replace(true);
    if candidate.hold(cancel).await {
        Err(LeadershipEnd::Release(Box::new(candidate)))
    } else {
        Err(LeadershipEnd::Lost)
    }
}

/// Starts the watches of clusters and bindings, and of quotas and ClusterQueues if they are enforced. Returns the channel
/// of their events, and the notification that starts the watch of ClusterScores.
fn start_watches(
    client: &kube::Client,
    options: &Options,
    cluster_queues: ClusterQueues,
    cancel: &CancellationToken,
) -> (mpsc::Receiver<Input>, Arc<Notify>) {
    let (sender, events) = mpsc::channel(WATCH_EVENTS);
    let timeout = options.timeouts.watch;
    let scores_wanted = Arc::new(Notify::new());
    if options.quotas == QuotaEnforcement::On {
        tokio::spawn(watch::run_when_served(
            Api::all(client.clone()),
            sender.clone(),
            Input::Quota,
            timeout,
            cancel.clone(),
        ));
    }
    if cluster_queues == ClusterQueues::On {
        tokio::spawn(watch::run_when_served(
            Api::all(client.clone()),
            sender.clone(),
            Input::ClusterQueue,
            timeout,
            cancel.clone(),
        ));
        tokio::spawn(watch::run(
            Api::all(client.clone()),
            sender.clone(),
            Input::Namespace,
            timeout,
            cancel.clone(),
        ));
    }
    let scores = watch::run_when_served(
        Api::all(client.clone()),
        sender.clone(),
        Input::Score,
        timeout,
        cancel.clone(),
    );
    let (wanted, stopping) = (Arc::clone(&scores_wanted), cancel.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = wanted.notified() => scores.await,
        }
    });
    tokio::spawn(watch::run(
        Api::all(client.clone()),
        sender.clone(),
        Input::Cluster,
        timeout,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        Api::all(client.clone()),
        sender.clone(),
        Input::Binding,
        timeout,
        cancel.clone(),
    ));
    tokio::spawn(watch::run(
        Api::all(client.clone()),
        sender,
        Input::ClusterBinding,
        timeout,
        cancel.clone(),
    ));
    (events, scores_wanted)
}
