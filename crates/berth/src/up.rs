//! `berth up`: a whole control plane in one process, with a simulated fleet.

mod banner;
mod furnishing;
pub(crate) mod keeping;
mod without;

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_apiserver::{DataDirError, Server, ServerConfig, StartError, StorageError};
use berth_controllers::detector::{self, DetectorError, DetectorOptions, OptionsError};
use berth_controllers::propagation::{self, PropagationError, PropagationOptions};
use berth_scheduler::gates::{self, FeatureGates};
use berth_scheduler::{Options, ServiceError};
use clap::Args;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::KarmadaAdmission;
use crate::binding_controllers::{self, BindingControllersError};
use crate::cluster_controllers::{self, ClusterArgs};
use crate::controllers::DetectorArgs;
use crate::failover::{self, FailoverArgs, FailoverFailure, Setting};
use crate::fleet::{self, FleetError};
use crate::instance::{Claim, InstanceError, Record};
use crate::join::{self, Endpoint, JoinError};
use crate::kubeconfig::{self, Access, CONTEXT, KubeconfigError, Place};
use crate::members::{self, Member, MemberError};
use crate::mishap;
use banner::Banner;
pub use keeping::Keeping;
pub use without::Part;

/// How long the parts have to end after they were asked to.
const FAREWELL: Duration = Duration::from_secs(5);
/// The parts that run besides the API server.
const DETECTOR: &str = "detector";
const PROPAGATION: &str = "propagation";
const FAILOVER: &str = "failover";
const SCHEDULER: &str = "scheduler";

/// Flags of `berth up`.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// Address of the API servers. Any but a loopback address lets others reach them
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,

    /// Port of the API server; 0 takes any free one. Members take the ports after it where those are free
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 6443,
        env = "BERTH_PORT",
        hide_env_values = true
    )]
    pub port: u16,

    /// Number of simulated member clusters; 0 for none
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub members: usize,

    /// File with Cluster manifests that describe the fleet, instead of --members (see examples/fleet.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "members")]
    pub fleet: Option<PathBuf>,

    /// Where to write the kubeconfig [default: ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Where everything is kept
    #[command(flatten)]
    pub keeping: Keeping,

    /// Leave out what shall be done by programs of your own, such as karmada-scheduler
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub without: Vec<Part>,

    /// Feature gates of controllers and scheduler; unlike elsewhere, Failover is on unless it is switched off
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = gates::parse)]
    pub feature_gates: FeatureGates,

    /// Flags of the detector
    #[command(flatten)]
    pub detector: DetectorArgs,

    /// Flags of failover
    #[command(flatten)]
    pub failover: FailoverArgs,

    /// Flags of the controllers of clusters
    #[command(flatten)]
    pub clusters: ClusterArgs,
}

impl Default for UpArgs {
    /// What no flag at all says.
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port: 6443,
            members: 3,
            fleet: None,
            kubeconfig: None,
            keeping: Keeping::default(),
            without: Vec::new(),
            feature_gates: FeatureGates::default(),
            detector: DetectorArgs::default(),
            failover: FailoverArgs::default(),
            clusters: ClusterArgs::default(),
        }
    }
}

/// Why the control plane could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The fleet file cannot be used.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// The kubeconfig cannot be written.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// Another one runs.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A member does not run.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// A member cannot join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The port is taken.
    #[error(
        "port {} of {} is in use: is a `berth up` running already? Choose another --port", .0.port(), .0.ip()
    )]
    PortInUse(SocketAddr),
    /// The data folder cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// What clients write cannot be kept any more.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The API server cannot start.
    #[error("cannot start the API server: {0}")]
    Server(StartError),
    /// A definition cannot be installed.
    #[error("cannot install {name}: {reason}")]
    Definition {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// An object of the fleet, or a namespace, is refused.
    #[error("cannot create {what}: {}", short(.source))]
    Object {
        /// What it is.
        what: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// A flag of the detector cannot be understood.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The detector cannot start, or ended.
    #[error("the detector: {0}")]
    Detector(#[from] DetectorError),
    /// The propagation to members has ended.
    #[error(transparent)]
    Propagation(#[from] PropagationError),
    /// Failover has ended.
    #[error(transparent)]
    Failover(#[from] FailoverFailure),
    /// What works on bindings has ended.
    #[error(transparent)]
    Bindings(#[from] BindingControllersError),
    /// The scheduler cannot start, or ended.
    #[error("the scheduler: {0}")]
    Scheduler(#[from] ServiceError),
    /// A part ended although nobody asked it to.
    #[error("the {0} ended unexpectedly")]
    Ended(&'static str),
}

/// What the server said, without the frame around it.
fn short(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// A control plane that runs.
#[derive(Debug)]
pub struct ControlPlane {
    server: Server,
    members: Vec<Member>,
    /// Members that are registered, and have no server here.
    others: usize,
    parts: JoinSet<(&'static str, Result<(), UpError>)>,
    cancel: CancellationToken,
}

/// Runs the control plane until the token is cancelled.
///
/// # Errors
/// When it cannot start, or a part of it fails. Nothing is left half-written then.
pub async fn run(args: UpArgs, cancel: CancellationToken) -> Result<(), UpError> {
    let began = Instant::now();
    let place = Place::reserve(kubeconfig::path(args.kubeconfig.clone())?)?;
    let mut claim = Claim::take(place.path())?;
    let mut record = Record {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        process: i32::try_from(std::process::id()).unwrap_or_default(),
        since: format!("{:.0}", jiff::Timestamp::now()),
        kubeconfig: place.path().to_owned(),
        store: args.keeping.describe(),
        components: components(&args.without),
        ..Record::default()
    };
    claim.tell(&record)?;
    let mut control_plane = tokio::select! {
        started = ControlPlane::start(&args) => started?,
        () = cancel.cancelled() => return Ok(()),
    };
    let path = place.write(&control_plane.kubeconfig())?;
    record.api_server = control_plane.server.url();
    claim.tell(&record)?;
    control_plane.welcome(&path, &record.store, &args.without, began.elapsed());
    let outcome = tokio::select! {
        () = cancel.cancelled() => Ok(()),
        failure = control_plane.failure() => Err(failure),
    };
    if outcome.is_ok() {
        // Nobody may be reading any more; that is no reason to fail.
        let _ = writeln!(std::io::stdout(), "\nstopping");
    }
    control_plane.stop().await;
    outcome
}

impl ControlPlane {
    /// Starts server, definitions, fleet, detector and scheduler; returns when kubectl finds all of it.
    ///
    /// # Errors
    /// When one of them cannot start.
    pub async fn start(args: &UpArgs) -> Result<Self, UpError> {
        let fleet = match &args.fleet {
            Some(path) => fleet::read(path)?,
            None => fleet::made_up(args.members),
        };
        let detector = args.detector.options(args.feature_gates)?;
        let failover = args
            .failover
            .parts(args.feature_gates.controllers, Setting::Simulated);
        let listen = SocketAddr::new(args.bind_address, args.port);
        if !listen.ip().is_loopback() {
            tracing::warn!(
                address = %listen.ip(),
                "the API servers can be reached from other machines; their tokens are in the kubeconfig"
            );
        }
        let kept = args.keeping.open()?;
        let server = Server::start(ServerConfig {
            listen,
            admission: vec![Arc::new(KarmadaAdmission)],
            ..kept.server("control-plane")?
        })
        .await
        .map_err(|error| match error {
            StartError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                UpError::PortInUse(listen)
            }
            other => UpError::Server(other),
        })?;
        let mut plane = Self {
            server,
            members: Vec::new(),
            others: 0,
            parts: JoinSet::new(),
            cancel: CancellationToken::new(),
        };
        if let Err(error) = plane.furnish(&fleet, args, &kept, detector, failover).await {
            plane.stop().await;
            return Err(error);
        }
        Ok(plane)
    }

    /// The API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The simulated members, in the order of the fleet.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A kubeconfig with a context for the control plane, which is the current one, and for each simulated member.
    pub fn kubeconfig(&self) -> String {
        let mut servers = vec![Access::to(&self.server, CONTEXT)];
        servers.extend(self.members.iter().map(Member::access));
        kubeconfig::text(&servers)
    }

    async fn furnish(
        &mut self,
        fleet: &[Cluster],
        args: &UpArgs,
        kept: &keeping::Place,
        detector: DetectorOptions,
        failover: failover::Parts,
    ) -> Result<(), UpError> {
        let client = self.server.client();
        furnishing::definitions(&client).await?;
        // After the definitions: a hundred members that start would keep those waiting.
        self.members = members::start(fleet, args.bind_address, args.port, kept).await?;
        self.join(&client, fleet).await?;
        self.simulate(&client);
        if !args.without.contains(&Part::Controllers) {
            self.start_controllers(&client, args, detector, failover);
        }
        if !args.without.contains(&Part::Scheduler) {
            let cancel = self.cancel.clone();
            let options = Options {
                gates: args.feature_gates.engine,
                ..Options::embedded()
            };
            self.parts.spawn(async move {
                let outcome = berth_scheduler::run_with_client(options, client, cancel).await;
                (SCHEDULER, outcome.map_err(UpError::from))
            });
        }
        Ok(())
    }

    /// Runs what karmada-controller-manager does elsewhere.
    fn start_controllers(
        &mut self,
        client: &kube::Client,
        args: &UpArgs,
        detector: DetectorOptions,
        failover: failover::Parts,
    ) {
        let (cancel, clusters_client) = (self.cancel.clone(), client.clone());
        let (clusters, detector_options) = (args.clusters.clone(), detector.clone());
        self.parts.spawn(async move {
            cluster_controllers::run(clusters_client, clusters, &detector_options, cancel).await;
            (cluster_controllers::NAME, Ok(()))
        });
        let (cancel, detector_client) = (self.cancel.clone(), client.clone());
        self.parts.spawn(async move {
            let outcome = detector::run(detector_client, detector, cancel).await;
            (DETECTOR, outcome.map_err(UpError::from))
        });
        let (cancel, propagation_client) = (self.cancel.clone(), client.clone());
        let options = PropagationOptions {
            inject_state: args.feature_gates.controllers.stateful_failover_injection,
            ..PropagationOptions::default()
        };
        self.parts.spawn(async move {
            let outcome = propagation::run(propagation_client, options, cancel).await;
            (PROPAGATION, outcome.map_err(UpError::from))
        });
        let (cancel, failover_client) = (self.cancel.clone(), client.clone());
        self.parts.spawn(async move {
            let outcome = failover.run(failover_client, cancel).await;
            (FAILOVER, outcome.map_err(UpError::from))
        });
        let (cancel, bindings_client) = (self.cancel.clone(), client.clone());
        let gates = args.feature_gates.controllers;
        self.parts.spawn(async move {
            let outcome = binding_controllers::run(bindings_client, gates, cancel).await;
            (binding_controllers::NAME, outcome.map_err(UpError::from))
        });
    }

    /// Lets workloads in the members live, and members fail when they are asked to.
    fn simulate(&mut self, client: &kube::Client) {
        let switches = self
            .members
            .iter()
            .map(|member| (member.name().to_owned(), member.server().reachability()))
            .collect();
        let (cancel, mishaps_client) = (self.cancel.clone(), client.clone());
        self.parts.spawn(async move {
            mishap::run(mishaps_client, switches, cancel).await;
            (mishap::NAME, Ok(()))
        });
        for member in &self.members {
            let (cancel, inside) = (self.cancel.clone(), member.server().client());
            self.parts.spawn(async move {
                berth_simulator::run(inside, cancel).await;
                (mishap::NAME, Ok(()))
            });
        }
    }

    /// Makes the clusters of the fleet members, in its order.
    async fn join(&mut self, client: &kube::Client, fleet: &[Cluster]) -> Result<(), UpError> {
        let mut simulated = self.members.iter();
        for cluster in fleet {
            if !members::is_simulated(cluster) {
                furnishing::register(client, cluster).await?;
                self.others += 1;
                continue;
            }
            if let Some(member) = simulated.next() {
                let endpoint = Endpoint {
                    url: member.server().url(),
                    ca_pem: member.server().ca_pem().to_owned(),
                };
                let mut wanted = cluster.clone();
                if mishap::described(cluster) {
                    mishap::ask(&mut wanted);
                }
                join::join(client, &member.server().client(), &endpoint, &wanted).await?;
                furnishing::report(client, cluster).await?;
            }
        }
        Ok(())
    }

    /// Waits until a part ends by itself, or a server cannot keep what it is told.
    pub async fn failure(&mut self) -> UpError {
        let members = self.members.iter().map(Member::server);
        let servers = members.chain([&self.server]);
        let failures = servers.map(|server| Box::pin(server.storage_failure()));
        let ended = async {
            match self.parts.join_next().await {
                Some(Ok((_, Err(error)))) => error,
                Some(Ok((part, Ok(())))) => UpError::Ended(part),
                Some(Err(_)) => UpError::Ended("control plane"),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            (failure, _, _) = futures::future::select_all(failures) => failure.into(),
            ended = ended => ended,
        }
    }

    /// Ends everything, the servers last, so that the others can say goodbye.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        let all = async { while self.parts.join_next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, all).await.is_err() {
            tracing::warn!("a part did not end in time");
        }
        let servers = self.members.into_iter().map(Member::stop);
        tokio::join!(self.server.shutdown(), futures::future::join_all(servers));
    }

    fn welcome(&self, kubeconfig: &std::path::Path, store: &str, without: &[Part], took: Duration) {
        let banner = Banner {
            url: self.server.url(),
            members: &self.members,
            others: self.others,
            kubeconfig,
            store,
            without,
            took,
        };
        // Nobody may be reading; that is no reason to stop.
        let _ = banner.write(&mut std::io::stdout().lock());
    }
}

/// What runs besides the API server.
fn components(without: &[Part]) -> Vec<String> {
    let mut components = Vec::new();
    if !without.contains(&Part::Controllers) {
        components.extend([
            DETECTOR,
            PROPAGATION,
            binding_controllers::NAME,
            cluster_controllers::NAME,
            FAILOVER,
        ]);
    }
    if !without.contains(&Part::Scheduler) {
        components.push(SCHEDULER);
    }
    components.push(mishap::NAME);
    components.into_iter().map(str::to_owned).collect()
}

/// Makes a Karmada control plane out of an API server: definitions, namespaces, and members without servers.
///
/// # Errors
/// When the server refuses one of them.
pub async fn prepare(client: &kube::Client, members: &[Cluster]) -> Result<(), UpError> {
    furnishing::definitions(client).await?;
    for member in members {
        furnishing::register(client, member).await?;
    }
    Ok(())
}
