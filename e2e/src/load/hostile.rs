//! Latency of an administrator, a lease and a health check during attacks by hostile clients.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use super::requests::{self, PlannedRequest};
use super::server_process::{ServerProcess, Storage};
use super::{LoadError, at_most, millis, percentile};
use crate::hostile::{Attack, Attacker, Misbehavior};

/// Paths that other clients use meanwhile.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
/// Time limit for requests of other clients.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Time limit for the start of all hostile clients.
const ATTACK_START_TIMEOUT: Duration = Duration::from_mins(2);
/// Size of the object written while watches are not read.
const WRITE_SIZE: usize = 32 << 10;
/// Number of such writes before the measurement.
const WRITES: usize = 20;

/// Options of the scenario.
#[derive(Args, Clone, Debug)]
pub struct Hostile {
    /// Hostile connections of each kind
    #[arg(long, default_value_t = 2000)]
    pub connections: usize,
    /// Requests of the administrator that are measured meanwhile
    #[arg(long, default_value_t = 500)]
    pub requests: usize,
}

/// Runs the scenario, one kind of misbehavior after the other, and returns its report.
///
/// # Errors
/// If a request of another client fails or takes too long.
pub async fn hostile(hostile: &Hostile) -> Result<Value, LoadError> {
    let storage = Storage {
        data_dir: None,
        fsync: false,
    };
    let mut kinds = Vec::new();
    for misbehavior in Misbehavior::ALL {
        // Each kind gets a fresh server.
        let server = ServerProcess::start(&storage).await?;
        let attacked = AttackedServer::prepare(server.kubeconfig()).await?;
        let before = server.resident_kib();
        let attack = attacked.attack(misbehavior, hostile.connections);
        attack.wait_until_started(ATTACK_START_TIMEOUT).await;
        if misbehavior == Misbehavior::UnreadWatch {
            attacked.write_large_objects(WRITES).await?;
        }
        let processor = server.processor_time();
        let began = Instant::now();
        let waits = attacked.measure(hostile.requests).await?;
        let processor = server.processor_time().saturating_sub(processor);
        let (made, open) = attack.connections();
        kinds.push(json!({
            "kind": format!("{misbehavior:?}"),
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

/// A server with an account for hostile clients, and other clients to measure.
#[derive(Debug)]
pub struct AttackedServer {
    kubeconfig: PathBuf,
    administrator: DebugClient,
    holder: DebugClient,
    attacker: Attacker,
}

/// A client with a `Debug` implementation.
struct DebugClient(Client);

impl std::fmt::Debug for DebugClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// Latencies of the other clients, sorted.
#[derive(Debug, Default)]
pub struct Latencies {
    /// GET requests of an administrator.
    pub gets: Vec<Duration>,
    /// Renewals of a lease by a service account.
    pub renewals: Vec<Duration>,
    /// Anonymous health checks, each over a new connection.
    pub checks: Vec<Duration>,
}

impl Latencies {
    /// Returns the longest latency.
    pub fn longest(&self) -> Duration {
        let all = [&self.gets, &self.renewals, &self.checks];
        let longest = all.iter().filter_map(|waits| waits.last()).max();
        longest.copied().unwrap_or_default()
    }
}

/// Identity of a client.
enum Identity<'a> {
    Administrator,
    Account(&'a str),
    Anonymous,
}

async fn config(kubeconfig: &Path, who: &Identity<'_>) -> Result<Config, LoadError> {
    let wrong = |error: &dyn std::fmt::Display| LoadError::Unexpected(error.to_string());
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| wrong(&error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| wrong(&error))?;
    // Rejected requests must be visible.
    config.default_retry = false;
    config.auth_info.token = match who {
        Identity::Administrator => config.auth_info.token,
        Identity::Account(token) => Some((*token).to_owned().into()),
        Identity::Anonymous => None,
    };
    Ok(config)
}

/// Sends a request and returns its latency.
async fn timed(client: &Client, wanted: &PlannedRequest) -> Result<Duration, LoadError> {
    let began = Instant::now();
    let response = async { requests::read_body(requests::send(client, wanted).await?).await };
    match tokio::time::timeout(REQUEST_TIMEOUT, response).await {
        Ok(body) => body.map(|_| began.elapsed()),
        Err(_) => Err(LoadError::Timeout {
            what: format!("{} {}", wanted.method, wanted.path),
            limit: REQUEST_TIMEOUT,
        }),
    }
}

impl AttackedServer {
    /// Creates accounts and objects on a server.
    ///
    /// # Errors
    /// If the server rejects a request.
    pub async fn prepare(kubeconfig: PathBuf) -> Result<Self, LoadError> {
        let wrong = |error: &dyn std::fmt::Display| LoadError::Unexpected(error.to_string());
        let reached = config(&kubeconfig, &Identity::Administrator).await?;
        let address = reached.cluster_url.authority().map(ToString::to_string);
        let address = address.unwrap_or_default().parse();
        let ca = reached.root_cert.clone().unwrap_or_default();
        let administrator = Client::try_from(reached)?;
        let create = async |path: &str, object: Value| {
            let wanted = PlannedRequest::create(path, &object);
            let bytes = requests::read_body(requests::send(&administrator, &wanted).await?).await?;
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
        let holder = config(&kubeconfig, &Identity::Account(&tokens[1])).await?;
        let attacker = Attacker::new(
            address.map_err(|error| wrong(&error))?,
            &ca,
            &tokens[0],
            &format!("{MAPS}?watch=true"),
        );
        Ok(Self {
            kubeconfig,
            administrator: DebugClient(administrator),
            holder: DebugClient(Client::try_from(holder)?),
            attacker: attacker.map_err(|error| wrong(&error))?,
        })
    }

    /// Starts an attack over `count` connections.
    pub fn attack(&self, misbehavior: Misbehavior, count: usize) -> Attack {
        self.attacker.attack(misbehavior, count)
    }

    /// Writes an object, which causes watch events.
    ///
    /// # Errors
    /// If a write fails.
    pub async fn write_large_objects(&self, writes: usize) -> Result<(), LoadError> {
        for number in 0..writes {
            let text = format!("{number} {}", "x".repeat(WRITE_SIZE));
            let wanted = PlannedRequest::merge(
                format!("{MAPS}/innocent"),
                &json!({ "data": { "k": text } }),
            );
            timed(&self.administrator.0, &wanted).await?;
        }
        Ok(())
    }

    /// Measures the other clients until the administrator has sent this number of GET requests.
    ///
    /// # Errors
    /// If a request fails or takes too long.
    pub async fn measure(&self, gets: usize) -> Result<Latencies, LoadError> {
        let (mut got, mut renewed, mut checked) = (Vec::new(), Vec::new(), Vec::new());
        let working = async {
            for _ in 0..gets {
                let wanted = PlannedRequest::get(&format!("{MAPS}/innocent"));
                got.push(timed(&self.administrator.0, &wanted).await?);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok::<(), LoadError>(())
        };
        let renewing = async {
            for number in 0_u64.. {
                let change = json!({ "spec": { "leaseTransitions": number } });
                let wanted = PlannedRequest::merge(format!("{LEASES}/innocent"), &change);
                renewed.push(timed(&self.holder.0, &wanted).await?);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), LoadError>(())
        };
        let checking = async {
            for _ in 0_u64.. {
                let client =
                    Client::try_from(config(&self.kubeconfig, &Identity::Anonymous).await?)?;
                checked.push(timed(&client, &PlannedRequest::get("/healthz")).await?);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok::<(), LoadError>(())
        };
        tokio::select! {
            ended = working => ended?,
            ended = renewing => ended?,
            ended = checking => ended?,
        }
        let mut waits = Latencies {
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
