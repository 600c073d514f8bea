//! `berth up`: runs a complete control plane and simulated members in one process.

mod arguments;
mod banner;
mod disabled_components;
mod error;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_apiserver::{Server, StartError};
use berth_component_base::kube_client;
use berth_component_base::program::ignored_flags::log_ineffective;
use berth_component_base::program::progress::Progress;
use berth_component_base::user_agent::Component;
use berth_controllers::monitor::Monitor;
use berth_dashboard::{Clients, DashboardError};
use berth_plan::simulate::is_simulated;
use berth_scheduler::Options;
use berth_scheduler::config::BindAddress;
use berth_up::instance::{Claim, Record};
use berth_up::kubeconfig::{self, Reservation};
use berth_up::members::Member;
use berth_up::servers::{QuotaEnforcement, Servers};
use berth_up::storage::Storage;
use berth_up::{bootstrap, fault_injection, fleet, open_files};
use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::controllers::controller_set::{self, ControllerSet};
use crate::controllers::failover_flags::MemberKind;
use crate::dashboard;
use crate::engine_flags::EngineFlags;
use crate::join::{self, Endpoint};
use crate::scheduler_endpoint::SchedulerEndpointArgs;
pub use arguments::UpArgs;
use banner::Banner;
pub use disabled_components::DisabledComponent;
pub use error::UpError;

/// Maximum time for the tasks to end after cancellation.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the scheduler in `berth status`.
const SCHEDULER: &str = "scheduler";
/// Name of the dashboard in `berth status`.
const DASHBOARD: &str = "dashboard";
/// Name of fault injection and the workload simulators in `berth status`.
const SIMULATION: &str = "simulation";

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    servers: Servers,
    /// Number of registered members without a server in this process.
    others: usize,
    /// Address of the scheduler's debug endpoints. `None` until the scheduler listens.
    scheduler: watch::Receiver<Option<SocketAddr>>,
    /// Controllers, scheduler, simulation and dashboard, with their names.
    tasks: JoinSet<(&'static str, Result<(), UpError>)>,
    cancel: CancellationToken,
}

/// Runs the control plane until the token is cancelled.
///
/// # Errors
/// When the control plane cannot start, one of its tasks fails, or the storage of a server fails.
pub async fn run(args: UpArgs, cancel: CancellationToken) -> Result<(), UpError> {
    let version = env!("CARGO_PKG_VERSION");
    let export = berth_telemetry::start(&args.tracing, "berth", version)?;
    let ran = Box::pin(run_until(args, cancel)).await;
    export.finish().await;
    ran
}

async fn run_until(args: UpArgs, cancel: CancellationToken) -> Result<(), UpError> {
    let began = Instant::now();
    open_files::raise_limit();
    let path = kubeconfig::path(args.kubeconfig.clone())?;
    // The path is absolute, because it is printed for shells and commands in other folders.
    let path = std::path::absolute(&path).unwrap_or(path);
    let reservation = Reservation::reserve(path)?;
    let mut claim = Claim::take(reservation.path())?;
    let mut record = Record {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: i32::try_from(std::process::id()).unwrap_or_default(),
        since: format!("{:.0}", jiff::Timestamp::now()),
        kubeconfig: reservation.path().to_owned(),
        store: args.persistence.describe(),
        components: components(&args.without),
        ..Record::default()
    };
    claim.write(&record)?;
    let mut control_plane = tokio::select! {
        started = ControlPlane::start(&args) => started?,
        () = cancel.cancelled() => return Ok(()),
    };
    let path = reservation.write(&control_plane.kubeconfig())?;
    record.api_server = control_plane.server().url();
    claim.write(&record)?;
    let address = tokio::select! {
        address = control_plane.scheduler_address(&args) => address,
        () = cancel.cancelled() => None,
    };
    if let Some(address) = address {
        record.scheduler = format!("http://{address}");
        claim.write(&record)?;
    }
    let dashboard = control_plane.serve_dashboard(&args, address).await;
    let dashboard = match dashboard {
        Ok(dashboard) => dashboard,
        Err(error) => {
            control_plane.stop().await;
            return Err(error.into());
        }
    };
    control_plane.print_banner(
        &path,
        &record.store,
        dashboard.as_deref(),
        &args.without,
        began.elapsed(),
    );
    let outcome = tokio::select! {
        () = cancel.cancelled() => Ok(()),
        failure = control_plane.failure() => Err(failure),
    };
    if outcome.is_ok() {
        // A closed stdout is not an error.
        let _ = writeln!(std::io::stdout(), "\nstopping");
    }
    control_plane.stop().await;
    outcome
}

impl ControlPlane {
    /// Starts the API server, the members, the controllers and the scheduler. Returns when the API server serves
    /// Karmada's kinds and all members are registered.
    ///
    /// # Errors
    /// When a flag or the fleet is invalid, a server fails to start, or a member cannot be registered.
    /// [`Self::failure`] returns the errors of the controllers and of the scheduler.
    pub async fn start(args: &UpArgs) -> Result<Self, UpError> {
        let fleet = match &args.fleet {
            Some(path) => fleet::read(path)?,
            None => fleet::generate(args.members),
        };
        let controllers =
            ControllerSet::new(&args.controllers, args.feature_gates, MemberKind::Simulated)?;
        log_ineffective(&args.feature_gates.ineffective_for_controllers());
        let listen = SocketAddr::new(args.bind_address, args.port);
        let storage = args.persistence.open()?;
        let quotas = if args.feature_gates.quota_enforcement {
            QuotaEnforcement::On
        } else {
            QuotaEnforcement::Off
        };
        let servers = Servers::start(listen, quotas, storage.server("control-plane")?)
            .await
            .map_err(|error| match error {
                StartError::Bind { source, .. }
                    if source.kind() == std::io::ErrorKind::AddrInUse =>
                {
                    UpError::PortInUse(listen)
                }
                StartError::Bind { source, .. } => UpError::Address(listen, source),
                other => UpError::Server(other),
            })?;
        if !listen.ip().is_loopback() {
            tracing::warn!(
                address = %listen.ip(),
                "the API servers can be reached from other machines; their tokens are in the kubeconfig"
            );
        }
        let (serving, scheduler) = watch::channel(None);
        let mut plane = Self {
            servers,
            scheduler,
            others: 0,
            tasks: JoinSet::new(),
            cancel: CancellationToken::new(),
        };
        let bootstrap = plane.bootstrap(&fleet, args, &storage, controllers, serving);
        if let Err(error) = Box::pin(bootstrap).await {
            plane.stop().await;
            return Err(error);
        }
        Ok(plane)
    }

    /// Waits until the scheduler listens, and returns the address of its debug endpoints. Returns `None` if the
    /// scheduler is disabled or fails.
    async fn scheduler_address(&mut self, args: &UpArgs) -> Option<SocketAddr> {
        if args.without.contains(&DisabledComponent::Scheduler) {
            return None;
        }
        // If the scheduler fails to start, its task returns the error.
        let bound = self.scheduler.wait_for(Option::is_some).await;
        bound.ok().and_then(|address| *address)
    }

    /// Returns the API server of the control plane.
    pub fn server(&self) -> &Server {
        self.servers.control_plane()
    }

    /// Returns the simulated members, in the order of their Clusters in the fleet.
    pub fn members(&self) -> &[Member] {
        self.servers.members()
    }

    /// Returns a kubeconfig with a context for the control plane (the current context) and for each simulated member.
    pub fn kubeconfig(&self) -> String {
        self.servers.kubeconfig()
    }

    async fn bootstrap(
        &mut self,
        fleet: &[Cluster],
        args: &UpArgs,
        storage: &Storage,
        controllers: ControllerSet,
        serving: watch::Sender<Option<SocketAddr>>,
    ) -> Result<(), UpError> {
        let client = kube_client::named(self.server().client(), Component::CommandLine);
        bootstrap::definitions(&client).await?;
        bootstrap::proxy_admin(&client).await?;
        // Starting many members slows the API server down, so the definitions are installed before the members start.
        let mut progress = Progress::start();
        self.servers
            .start_members(fleet, args.bind_address, args.port, storage, &mut progress)
            .await?;
        self.join(&client, fleet, &mut progress).await?;
        let unpullable = args.unpullable.as_ref();
        for task in self.servers.simulation(&client, unpullable, &self.cancel) {
            self.tasks.spawn(task.map(|()| (SIMULATION, Ok(()))));
        }
        if !args.without.contains(&DisabledComponent::Controllers) {
            let client = kube_client::named(self.server().client(), Component::Controllers);
            // No endpoint of this process serves the metrics of this monitor.
            let monitor = Monitor::default();
            for (name, controller) in controllers.components(&client, &monitor, &self.cancel) {
                self.tasks
                    .spawn(controller.map(move |ended| (name, ended.map_err(UpError::from))));
            }
        }
        if !args.without.contains(&DisabledComponent::Scheduler) {
            let cancel = self.cancel.clone();
            let client = self.server().client();
            let options = Options {
                // The debug endpoints explain decisions, and must not be reachable from other machines.
                metrics: BindAddress::At(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)),
                serving: Some(serving),
                ..Options::embedded().with_gates(args.feature_gates)
            };
            self.tasks.spawn(async move {
                let outcome = berth_scheduler::run_with_client(options, client, cancel).await;
                (SCHEDULER, outcome.map_err(UpError::from))
            });
        }
        Ok(())
    }

    /// Starts the dashboard, unless it is disabled. Returns its URL with the token. `scheduler` is the address of the
    /// scheduler, whose records of decisions the dashboard shows.
    async fn serve_dashboard(
        &mut self,
        args: &UpArgs,
        scheduler: Option<SocketAddr>,
    ) -> Result<Option<String>, DashboardError> {
        if args.without.contains(&DisabledComponent::Dashboard) {
            return Ok(None);
        }
        let client = kube_client::named(self.server().client(), Component::CommandLine);
        // The client of the server repeats no requests.
        let clients = Clients {
            forwarding: client.clone(),
            control_plane: client,
        };
        let configuration = EngineFlags::with_gates(args.feature_gates).configuration();
        let scheduler = match scheduler {
            Some(address) => SchedulerEndpointArgs::at(address).await,
            None => None,
        };
        let port = args.dashboard_port;
        let dashboard = dashboard::listen(port, clients, configuration, scheduler).await?;
        let url = dashboard.url();
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let ended = dashboard.serve(cancel).await;
            (DASHBOARD, ended.map_err(UpError::from))
        });
        Ok(Some(url))
    }

    /// Registers the clusters in the order of the fleet.
    async fn join(
        &mut self,
        client: &kube::Client,
        fleet: &[Cluster],
        progress: &mut Progress,
    ) -> Result<(), UpError> {
        let mut simulated = self.servers.members().iter();
        for (joined, cluster) in fleet.iter().enumerate() {
            progress.report(format_args!("joined {joined} of {} members", fleet.len()));
            if !is_simulated(cluster) {
                bootstrap::register(client, cluster).await?;
                self.others += 1;
                continue;
            }
            if let Some(member) = simulated.next() {
                let endpoint = Endpoint {
                    url: member.server().url(),
                    ca_pem: member.server().ca_pem().to_owned(),
                };
                let mut desired = cluster.clone();
                if fault_injection::is_described_as_not_ready(cluster) {
                    fault_injection::annotate(&mut desired);
                }
                let member_client =
                    kube_client::named(member.server().client(), Component::CommandLine);
                join::join(client, &member_client, &endpoint, &desired).await?;
                bootstrap::write_status(client, cluster).await?;
            }
        }
        Ok(())
    }

    /// Waits until a task ends unexpectedly or the storage of a server fails. Returns the error.
    pub async fn failure(&mut self) -> UpError {
        let ended = async {
            match self.tasks.join_next().await {
                Some(Ok((_, Err(error)))) => error,
                Some(Ok((name, Ok(())))) => UpError::Ended(name),
                Some(Err(_)) => UpError::Ended("control plane"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            failure = self.servers.storage_failure() => failure.into(),
            ended = ended => ended,
        }
    }

    /// Stops the tasks and then the servers, so that the tasks can finish their writes.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, all).await.is_err() {
            tracing::warn!("a component did not stop in time");
        }
        self.servers.stop().await;
    }

    fn print_banner(
        &self,
        kubeconfig: &std::path::Path,
        store: &str,
        dashboard: Option<&str>,
        without: &[DisabledComponent],
        took: Duration,
    ) {
        let banner = Banner {
            url: self.server().url(),
            members: self.members(),
            others: self.others,
            kubeconfig,
            store,
            dashboard,
            without,
            took,
        };
        // A closed stdout is not an error.
        let _ = banner.write(&mut std::io::stdout().lock());
    }
}

/// Returns the names of the enabled components, without the API server, which always runs.
fn components(without: &[DisabledComponent]) -> Vec<String> {
    let mut components = Vec::new();
    if !without.contains(&DisabledComponent::Controllers) {
        components.extend(controller_set::NAMES);
    }
    if !without.contains(&DisabledComponent::Scheduler) {
        components.push(SCHEDULER);
    }
    if !without.contains(&DisabledComponent::Dashboard) {
        components.push(DASHBOARD);
    }
    components.push(SIMULATION);
    components.into_iter().map(str::to_owned).collect()
}
