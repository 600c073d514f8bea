//! `berth up`: a whole control plane in one process, with a simulated fleet.

mod arguments;
mod banner;
mod error;
mod furnishing;
pub(crate) mod keeping;
mod without;

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::component::Component;
use berth_apiserver::{Server, ServerConfig, StartError};
use berth_scheduler::Options;
use berth_scheduler::connect;
use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::admission::KarmadaAdmission;
use crate::cluster_proxy::ClusterProxy;
use crate::controllers::controller_set::{self, ControllerSet};
use crate::controllers::failover_flags::Setting;
use crate::fleet;
use crate::instance::{Claim, Record};
use crate::join::{self, Endpoint};
use crate::kubeconfig::{self, Access, CONTEXT, Place};
use crate::members::{self, Member};
use crate::mishap;
use crate::open_files;
pub use arguments::UpArgs;
use banner::Banner;
pub use error::UpError;
pub use keeping::Keeping;
pub use without::Part;

/// How long the parts have to end after they were asked to.
const FAREWELL: Duration = Duration::from_secs(5);
/// The part that is no controller, as `berth status` names it.
const SCHEDULER: &str = "scheduler";

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
    open_files::raise_limit();
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
        let controllers =
            ControllerSet::new(&args.controllers, args.feature_gates, Setting::Simulated)?;
        let listen = SocketAddr::new(args.bind_address, args.port);
        let kept = args.keeping.open()?;
        let server = Server::start(ServerConfig {
            listen,
            admission: vec![Arc::new(KarmadaAdmission)],
            connects: vec![Arc::new(ClusterProxy)],
            ..kept.server("control-plane")?
        })
        .await
        .map_err(|error| match error {
            StartError::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
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
        let mut plane = Self {
            server,
            members: Vec::new(),
            others: 0,
            parts: JoinSet::new(),
            cancel: CancellationToken::new(),
        };
        if let Err(error) = plane.furnish(&fleet, args, &kept, controllers).await {
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
        controllers: ControllerSet,
    ) -> Result<(), UpError> {
        let client = connect::named(self.server.client(), Component::CommandLine);
        furnishing::definitions(&client).await?;
        furnishing::proxy_admin(&client).await?;
        // After the definitions: a hundred members that start would keep those waiting.
        self.members = members::start(fleet, args.bind_address, args.port, kept).await?;
        self.join(&client, fleet).await?;
        self.simulate(&client);
        if !args.without.contains(&Part::Controllers) {
            let client = connect::named(self.server.client(), Component::Controllers);
            for (name, part) in controllers.components(&client, &self.cancel) {
                self.parts
                    .spawn(part.map(move |ended| (name, ended.map_err(UpError::from))));
            }
        }
        if !args.without.contains(&Part::Scheduler) {
            let cancel = self.cancel.clone();
            let client = self.server.client();
            let options = Options::embedded().with_gates(args.feature_gates);
            self.parts.spawn(async move {
                let outcome = berth_scheduler::run_with_client(options, client, cancel).await;
                (SCHEDULER, outcome.map_err(UpError::from))
            });
        }
        Ok(())
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
            let inside = connect::named(member.server().client(), Component::Simulator);
            let cancel = self.cancel.clone();
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
                let inside = connect::named(member.server().client(), Component::CommandLine);
                join::join(client, &inside, &endpoint, &wanted).await?;
                furnishing::report(client, cluster).await?;
            }
        }
        Ok(())
    }

    /// Waits until a part or the storage of a server ends by itself.
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
        components.extend(controller_set::NAMES);
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
