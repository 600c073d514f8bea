//! `berth up`: a whole control plane in one process, with a simulated fleet.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_apiserver::{Server, ServerConfig, StartError};
use berth_controllers::detector::{self, DetectorError, DetectorOptions, OptionsError};
use berth_scheduler::{Options, ServiceError};
use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::KarmadaAdmission;
use crate::controllers::DetectorArgs;
use crate::fleet::{self, FleetError};
use crate::kubeconfig::{self, KubeconfigError, Place};
use crate::release;

/// How long the parts have to end after they were asked to.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a server may take to serve a new definition.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// Flags of `berth up`.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// Address of the API server. Any but a loopback address lets others reach it
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,

    /// Port of the API server; 0 takes any free one
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

    /// Flags of the detector
    #[command(flatten)]
    pub detector: DetectorArgs,
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
            detector: DetectorArgs::default(),
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
    /// The port is taken.
    #[error(
        "port {} of {} is in use: is a `berth up` running already? Choose another --port", .0.port(), .0.ip()
    )]
    PortInUse(SocketAddr),
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
    /// The scheduler cannot start, or ended.
    #[error("the scheduler: {0}")]
    Scheduler(#[from] ServiceError),
    /// A part ended although nobody asked it to.
    #[error("{0} ended unexpectedly")]
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
    parts: JoinSet<(&'static str, Result<(), UpError>)>,
    cancel: CancellationToken,
    /// Names and regions of the members.
    members: Vec<(String, String)>,
}

/// Runs the control plane until the token is cancelled.
///
/// # Errors
/// When it cannot start, or a part of it fails. Nothing is left half-written then.
pub async fn run(args: UpArgs, cancel: CancellationToken) -> Result<(), UpError> {
    let began = Instant::now();
    let place = Place::reserve(args.kubeconfig.clone())?;
    let mut control_plane = ControlPlane::start(&args).await?;
    let path = place.write(&control_plane.server.kubeconfig(kubeconfig::CONTEXT))?;
    control_plane.welcome(&path, began.elapsed());
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
        let members = match &args.fleet {
            Some(path) => fleet::read(path)?,
            None => fleet::made_up(args.members),
        };
        let detector = args.detector.options()?;
        let listen = SocketAddr::new(args.bind_address, args.port);
        if !listen.ip().is_loopback() {
            tracing::warn!(
                address = %listen.ip(),
                "the API server can be reached from other machines; its token is in the kubeconfig"
            );
        }
        let server = Server::start(ServerConfig {
            listen,
            admission: vec![Arc::new(KarmadaAdmission)],
            ..ServerConfig::default()
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
            parts: JoinSet::new(),
            cancel: CancellationToken::new(),
            members: members
                .iter()
                .map(|member| {
                    (
                        member.metadata.name.clone().unwrap_or_default(),
                        member.spec.region.clone().unwrap_or_default(),
                    )
                })
                .collect(),
        };
        if let Err(error) = plane.furnish(&members, detector).await {
            plane.stop().await;
            return Err(error);
        }
        Ok(plane)
    }

    /// The API server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    async fn furnish(
        &mut self,
        members: &[Cluster],
        detector: DetectorOptions,
    ) -> Result<(), UpError> {
        let client = self.server.client();
        prepare(&client, members).await?;
        let (cancel, detector_client) = (self.cancel.clone(), client.clone());
        self.parts.spawn(async move {
            let outcome = detector::run(detector_client, detector, cancel).await;
            ("the detector", outcome.map_err(UpError::from))
        });
        let (cancel, release_client) = (self.cancel.clone(), client.clone());
        self.parts.spawn(async move {
            release::run(release_client, cancel).await;
            ("the release of bindings", Ok(()))
        });
        let cancel = self.cancel.clone();
        let options = Options::embedded();
        self.parts.spawn(async move {
            let outcome = berth_scheduler::run_with_client(options, client, cancel).await;
            ("the scheduler", outcome.map_err(UpError::from))
        });
        Ok(())
    }

    /// Waits until a part ends by itself.
    pub async fn failure(&mut self) -> UpError {
        match self.parts.join_next().await {
            Some(Ok((_, Err(error)))) => error,
            Some(Ok((part, Ok(())))) => UpError::Ended(part),
            Some(Err(_)) => UpError::Ended("a part of the control plane"),
            None => std::future::pending().await,
        }
    }

    /// Ends everything, the server last, so that the others can say goodbye.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        let all = async { while self.parts.join_next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, all).await.is_err() {
            tracing::warn!("a part did not end in time");
        }
        self.server.shutdown().await;
    }

    fn welcome(&self, path: &std::path::Path, took: Duration) {
        let mut out = std::io::stdout().lock();
        // Nobody may be reading; that is no reason to stop.
        let _ = self.write_welcome(&mut out, path, took);
    }

    fn write_welcome(
        &self,
        out: &mut impl std::io::Write,
        path: &std::path::Path,
        took: Duration,
    ) -> std::io::Result<()> {
        let members: Vec<String> = self
            .members
            .iter()
            .take(6)
            .map(|(name, region)| {
                if region.is_empty() {
                    name.clone()
                } else {
                    format!("{name} ({region})")
                }
            })
            .collect();
        let more = self.members.len().saturating_sub(members.len());
        let members = match (members.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => members.join(", "),
            (false, more) => format!("{} and {more} more", members.join(", ")),
        };
        writeln!(
            out,
            "berth {} is ready ({:.2} s)\n",
            env!("CARGO_PKG_VERSION"),
            took.as_secs_f64()
        )?;
        writeln!(out, "  API server   {}", self.server.url())?;
        writeln!(out, "  kubeconfig   {}", path.display())?;
        writeln!(
            out,
            "  scheduler    {}",
            berth_api::well_known::DEFAULT_SCHEDULER
        )?;
        writeln!(out, "  members      {members}\n")?;
        writeln!(out, "In another terminal:\n")?;
        writeln!(
            out,
            "  export KUBECONFIG={}",
            shell_word(&path.display().to_string())
        )?;
        writeln!(out, "  kubectl apply -f examples/nginx.yaml")?;
        writeln!(out, "  kubectl get resourcebindings\n")?;
        writeln!(out, "Press Ctrl-C to stop.")?;
        out.flush()
    }
}

/// Makes a Karmada control plane out of an API server: definitions, namespaces, members.
///
/// # Errors
/// When the server refuses one of them.
pub async fn prepare(client: &kube::Client, members: &[Cluster]) -> Result<(), UpError> {
    let definitions = berth_api::crds::all().map_err(|error| UpError::Definition {
        name: "the definitions".to_owned(),
        reason: error.to_string(),
    })?;
    for definition in &definitions {
        install(client, definition).await?;
    }
    for namespace in [
        berth_api::well_known::NAMESPACE_SYSTEM,
        berth_api::well_known::NAMESPACE_CLUSTER,
    ] {
        create_namespace(client, namespace).await?;
    }
    for member in members {
        join(client, member).await?;
    }
    Ok(())
}

/// Applies a definition and waits until its kind is served.
async fn install(
    client: &kube::Client,
    definition: &CustomResourceDefinition,
) -> Result<(), UpError> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let failed = |reason: String| UpError::Definition {
        name: name.clone(),
        reason,
    };
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("berth").force();
    api.patch(&name, &apply, &Patch::Apply(definition))
        .await
        .map_err(|error| failed(short(&error)))?;
    let served = await_condition(api, &name, conditions::is_crd_established());
    match tokio::time::timeout(ESTABLISHED, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it is not served in time".to_owned())),
    }
}

/// A word that a shell reads as it stands.
fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

async fn create_namespace(client: &kube::Client, name: &str) -> Result<(), UpError> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(source) => Err(UpError::Object {
            what: format!("namespace {name}"),
            source: Box::new(source),
        }),
    }
}

/// Registers a member and reports the status that its manifest describes; without conditions it is ready.
async fn join(client: &kube::Client, member: &Cluster) -> Result<(), UpError> {
    let name = member.metadata.name.clone().unwrap_or_default();
    let refused = |source| UpError::Object {
        what: format!("member cluster {name}"),
        source: Box::new(source),
    };
    let clusters: Api<Cluster> = Api::all(client.clone());
    let created = Cluster {
        status: None,
        ..member.clone()
    };
    clusters
        .create(&PostParams::default(), &created)
        .await
        .map_err(refused)?;
    let mut status = member.status.clone().unwrap_or_default();
    if status.conditions.is_empty() {
        status.conditions = vec![
            condition(
                "Ready",
                "ClusterReady",
                "cluster is healthy and ready to accept workloads",
            ),
            condition(
                "CompleteAPIEnablements",
                "Complete",
                "all API resources of the cluster are known",
            ),
        ];
    }
    let patch = Patch::Merge(json!({ "status": status }));
    clusters
        .patch_status(&name, &PatchParams::default(), &patch)
        .await
        .map_err(refused)?;
    Ok(())
}

fn condition(kind: &str, reason: &str, message: &str) -> Condition {
    let now = jiff::Timestamp::now();
    Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now)),
        observed_generation: None,
    }
}
