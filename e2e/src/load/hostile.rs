//! How long an administrator, a lease and a health check wait while hostile clients do their worst.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::requests::{self, Wanted};
use super::server_process::{Keeping, ServerProcess};
use super::{LoadError, at_most, millis, percentile};
use crate::hostile::{Attack, Attacker, Misdeed};

/// The requests of other clients meanwhile.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
/// Bound on the requests of other clients.
const LATEST: Duration = Duration::from_secs(20);
/// How long the hostile clients may take to get ready.
const READY: Duration = Duration::from_mins(2);
/// The size of what is written while watches are not read, and how often before anything is measured.
const NEWS: usize = 32 << 10;
const WRITES: usize = 20;

/// Hostile clients of the API server.
#[derive(Args, Clone, Debug)]
pub struct Hostile {
    /// Hostile connections of each kind
    #[arg(long, default_value_t = 2000)]
    pub connections: usize,
    /// Requests of the administrator that are measured meanwhile
    #[arg(long, default_value_t = 500)]
    pub requests: usize,
}

/// Carries it out, one kind after the other.
///
/// # Errors
/// When a request of an innocent client fails or takes too long.
pub async fn hostile(hostile: &Hostile) -> Result<Value, LoadError> {
    let keeping = Keeping {
        data_dir: None,
        fsync: false,
    };
    let mut kinds = Vec::new();
    for misdeed in Misdeed::ALL {
        // Of its own: each finds a server that nothing else has happened to.
        let server = ServerProcess::start(&keeping).await?;
        let siege = Siege::prepare(server.kubeconfig()).await?;
        let before = server.resident_kib();
        let attack = siege.attack(misdeed, hostile.connections);
        attack.begun(READY).await;
        if misdeed == Misdeed::UnreadWatch {
            siege.write_news(WRITES).await?;
        }
        let processor = server.processor_time();
        let began = Instant::now();
        let waits = siege.measure(hostile.requests).await?;
        let processor = server.processor_time().saturating_sub(processor);
        let (made, open) = attack.connections();
        kinds.push(json!({
            "kind": format!("{misdeed:?}"),
            "connections": hostile.connections, "made": made, "open at the end": open,
            "GET p50, ms": millis(percentile(&waits.gets, 0.5)),
            "GET p99, ms": at_most(millis(percentile(&waits.gets, 0.99)), 50.0),
            "renewals": waits.renewals.len(),
            "renewal p99, ms": millis(percentile(&waits.renewals, 0.99)),
            "health checks on new connections": waits.checks.len(),
            "health check p99, ms": millis(percentile(&waits.checks, 0.99)),
            "server's processor time, part of one core":
                (processor.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0).round() / 100.0,
            "MiB more": server.resident_kib().saturating_sub(before) / 1024,
        }));
    }
    Ok(json!({ "scenario": "hostile", "kinds": kinds }))
}

/// A server with an account for hostile clients, and innocent clients beside them.
#[derive(Debug)]
pub struct Siege {
    kubeconfig: PathBuf,
    administrator: SomeClient,
    holder: SomeClient,
    attacker: Attacker,
}

/// A client, which has no form of its own for people.
struct SomeClient(Client);

impl std::fmt::Debug for SomeClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// How long the innocent waited, sorted.
#[derive(Debug, Default)]
pub struct Waits {
    /// GETs of an administrator.
    pub gets: Vec<Duration>,
    /// Renewals of a lease by a service account.
    pub renewals: Vec<Duration>,
    /// Anonymous health checks, each over a new connection.
    pub checks: Vec<Duration>,
}

impl Waits {
    /// The longest of all.
    pub fn longest(&self) -> Duration {
        let all = [&self.gets, &self.renewals, &self.checks];
        let longest = all.iter().filter_map(|waits| waits.last()).max();
        longest.copied().unwrap_or_default()
    }
}

/// Who asks.
enum As<'a> {
    Administrator,
    Account(&'a str),
    Anonymous,
}

async fn config(kubeconfig: &Path, who: &As<'_>) -> Result<Config, LoadError> {
    let wrong = |error: &dyn std::fmt::Display| LoadError::Wrong(error.to_string());
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| wrong(&error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| wrong(&error))?;
    // A refusal is to be seen.
    config.default_retry = false;
    config.auth_info.token = match who {
        As::Administrator => config.auth_info.token,
        As::Account(token) => Some((*token).to_owned().into()),
        As::Anonymous => None,
    };
    Ok(config)
}

/// Sends a request, and returns how long it took.
async fn timed(client: &Client, wanted: &Wanted) -> Result<Duration, LoadError> {
    let began = Instant::now();
    let answered = async { requests::whole(requests::send(client, wanted).await?).await };
    match tokio::time::timeout(LATEST, answered).await {
        Ok(answer) => answer.map(|_| began.elapsed()),
        Err(_) => Err(LoadError::Late {
            what: format!("{} {}", wanted.method, wanted.path),
            limit: LATEST,
        }),
    }
}

impl Siege {
    /// Makes what is needed on a server.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn prepare(kubeconfig: PathBuf) -> Result<Self, LoadError> {
        let wrong = |error: &dyn std::fmt::Display| LoadError::Wrong(error.to_string());
        let reached = config(&kubeconfig, &As::Administrator).await?;
        let address = reached.cluster_url.authority().map(ToString::to_string);
        let address = address.unwrap_or_default().parse();
        let ca = reached.root_cert.clone().unwrap_or_default();
        let administrator = Client::try_from(reached)?;
        let create = async |path: &str, object: Value| {
            let wanted = Wanted::create(path, &object);
            let bytes = requests::whole(requests::send(&administrator, &wanted).await?).await?;
            serde_json::from_slice::<Value>(&bytes).map_err(|error| wrong(&error))
        };
        let named = |name: &str| json!({ "metadata": { "name": name } });
        create(MAPS, named("innocent")).await?;
        create(LEASES, named("innocent")).await?;
        let mut tokens = Vec::new();
        for (name, rule) in [
            (
                "hostile",
                json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"] }),
            ),
            (
                "holder",
                json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "patch"] }),
            ),
        ] {
            create(ACCOUNTS, named(name)).await?;
            let role = json!({ "metadata": { "name": name }, "rules": [rule] });
            create(&format!("{RIGHTS}/roles"), role).await?;
            let binding = json!({ "metadata": { "name": name },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
                "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": "default" }] });
            create(&format!("{RIGHTS}/rolebindings"), binding).await?;
            let token = create(&format!("{ACCOUNTS}/{name}/token"), json!({ "spec": {} })).await?;
            tokens.push(
                token["status"]["token"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        let holder = config(&kubeconfig, &As::Account(&tokens[1])).await?;
        let attacker = Attacker::new(
            address.map_err(|error| wrong(&error))?,
            &ca,
            &tokens[0],
            &format!("{MAPS}?watch=true"),
        );
        Ok(Self {
            kubeconfig,
            administrator: SomeClient(administrator),
            holder: SomeClient(Client::try_from(holder)?),
            attacker: attacker.map_err(|error| wrong(&error))?,
        })
    }

    /// Lets hostile clients misbehave over so many connections.
    pub fn attack(&self, misdeed: Misdeed, count: usize) -> Attack {
        self.attacker.attack(misdeed, count)
    }

    /// Writes what a watch has to tell.
    ///
    /// # Errors
    /// When a write fails.
    pub async fn write_news(&self, writes: usize) -> Result<(), LoadError> {
        for number in 0..writes {
            let news = format!("{number} {}", "x".repeat(NEWS));
            let wanted = Wanted::merge(
                format!("{MAPS}/innocent"),
                &json!({ "data": { "k": news } }),
            );
            timed(&self.administrator.0, &wanted).await?;
        }
        Ok(())
    }

    /// Lets the innocent work until an administrator has got so many answers.
    ///
    /// # Errors
    /// When one of their requests fails or takes too long.
    pub async fn measure(&self, gets: usize) -> Result<Waits, LoadError> {
        let (mut got, mut renewed, mut checked) = (Vec::new(), Vec::new(), Vec::new());
        let working = async {
            for _ in 0..gets {
                let wanted = Wanted::get(&format!("{MAPS}/innocent"));
                got.push(timed(&self.administrator.0, &wanted).await?);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<(), LoadError>(())
        };
        let renewing = async {
            for number in 0_u64.. {
                let change = json!({ "spec": { "leaseTransitions": number } });
                let wanted = Wanted::merge(format!("{LEASES}/innocent"), &change);
                renewed.push(timed(&self.holder.0, &wanted).await?);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), LoadError>(())
        };
        let checking = async {
            for _ in 0_u64.. {
                let client = Client::try_from(config(&self.kubeconfig, &As::Anonymous).await?)?;
                checked.push(timed(&client, &Wanted::get("/healthz")).await?);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), LoadError>(())
        };
        tokio::select! {
            ended = working => ended?,
            ended = renewing => ended?,
            ended = checking => ended?,
        }
        let mut waits = Waits {
            gets: got,
            renewals: renewed,
            checks: checked,
        };
        for all in [&mut waits.gets, &mut waits.renewals, &mut waits.checks] {
            all.sort_unstable();
        }
        Ok(waits)
    }
}
