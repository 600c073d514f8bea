//! A fixture for tests of the scheduler's plugins and extenders: a control plane with four clusters, a scheduler, and
//! bindings to schedule.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

use berth_api::well_known::CONDITION_SCHEDULED;
use berth_api::{Cluster, ResourceBinding};
use berth_scheduler::Options;
use berth_scheduler::config::BindAddress;
use berth_scheduler::config::{DeclaredProfiles, Document, ProfileFlags, SchedulerConfiguration};
use berth_scheduler::framework::Registry;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::bare_control_plane::{BareControlPlane, RunningScheduler};
use crate::events::{self, Wanted};
use crate::eventually::eventually;
use crate::program::free_port;
use crate::sample;

/// A control plane and a scheduler.
#[derive(Debug)]
pub struct SchedulerFixture {
    /// The control plane.
    pub bare: BareControlPlane,
    scheduler: RunningScheduler,
    port: u16,
}

/// The result of scheduling a binding: its clusters, or the reason and the message of its `Scheduled` condition.
pub type Outcome = Result<Vec<String>, (String, String)>;

impl SchedulerFixture {
    /// Starts a control plane with four clusters, and a scheduler with these plugins and this configuration.
    ///
    /// # Panics
    /// If the server does not start, or if the configuration is invalid.
    pub async fn start(registry: Registry, configuration: Value) -> Self {
        Self::start_on(four_clusters().await, registry, configuration)
    }

    /// Starts a scheduler with these plugins and this configuration on a running control plane.
    ///
    /// # Panics
    /// If the configuration is invalid.
    pub fn start_on(bare: BareControlPlane, registry: Registry, configuration: Value) -> Self {
        let options = Options {
            registry,
            declared: parse_configuration(configuration),
            ..Options::embedded()
        };
        Self::start_with_options(bare, options)
    }

    /// Starts a scheduler with these options on a running control plane. The scheduler serves its metrics on a free
    /// port.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start_with_options(bare: BareControlPlane, options: Options) -> Self {
        let port = free_port();
        let options = Options {
            health: BindAddress::At(([127, 0, 0, 1], port).into()),
            ..options
        };
        let scheduler = RunningScheduler::start(options, bare.client.clone());
        Self {
            bare,
            scheduler,
            port,
        }
    }

    /// Creates a binding, and waits for its first [`Outcome`].
    ///
    /// # Panics
    /// If the server rejects the binding, or if the binding gets no `Scheduled` condition in time.
    pub async fn schedule(&self, binding: &ResourceBinding) -> Outcome {
        self.bare.bind(binding).await;
        self.outcome(binding.metadata.name.as_deref().unwrap())
            .await
    }

    /// Waits until a binding has a `Scheduled` condition, and returns its [`Outcome`].
    ///
    /// # Panics
    /// If the binding gets no `Scheduled` condition in time.
    pub async fn outcome(&self, name: &str) -> Outcome {
        outcome(&self.bare, name).await
    }

    /// Waits until a binding is scheduled, and returns its clusters. Ignores failures before that.
    ///
    /// # Panics
    /// If the binding is not scheduled in time.
    pub async fn placed_clusters(&self, name: &str) -> Vec<String> {
        placed_clusters(&self.bare, name).await
    }

    /// Waits until an event about the template of a binding exists. Returns all events about objects with the name of the
    /// binding.
    ///
    /// # Panics
    /// If the events are not recorded in time.
    pub async fn events(&self, binding: &str) -> Vec<Event> {
        let wanted = Wanted {
            kind: "Deployment",
            name: binding,
            ..Wanted::default()
        };
        events::wait_for(&self.bare.client, "default", wanted).await;
        let mut all = events::in_namespace(&self.bare.client, "default").await;
        all.retain(|event| event.involved_object.name.as_deref() == Some(binding));
        all
    }

    /// Waits for an event about a binding, with a message that contains `text`.
    ///
    /// # Panics
    /// If the event is not recorded in time.
    pub async fn wait_for_event(&self, binding: &str, text: &str) {
        let wanted = Wanted {
            name: binding,
            text,
            ..Wanted::default()
        };
        events::wait_for(&self.bare.client, "default", wanted).await;
    }

    /// Returns the body that the scheduler serves at a path.
    ///
    /// # Panics
    /// If the scheduler does not serve the path.
    pub async fn get(&self, path: &str) -> String {
        get(self.port, path).await
    }

    /// Stops the scheduler and the control plane.
    ///
    /// # Panics
    /// If the scheduler ended with an error.
    pub async fn stop(self) {
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }
}

/// Starts a control plane with four clusters and no scheduler.
///
/// # Panics
/// If the server does not start.
pub async fn four_clusters() -> BareControlPlane {
    let clusters: Vec<_> = (1..=4).map(cluster).collect();
    BareControlPlane::start(&clusters).await
}

/// Waits until a binding has a `Scheduled` condition, and returns its [`Outcome`].
///
/// # Panics
/// If the binding gets no `Scheduled` condition in time.
pub async fn outcome(bare: &BareControlPlane, name: &str) -> Outcome {
    eventually(&format!("the condition of {name}"), async || {
        current_outcome(bare, name).await.ok_or("it has none")
    })
    .await
}

/// Waits until a binding is scheduled, and returns its clusters. Ignores failures before that.
///
/// # Panics
/// If the binding is not scheduled in time.
pub async fn placed_clusters(bare: &BareControlPlane, name: &str) -> Vec<String> {
    eventually(
        &format!("{name} to be scheduled"),
        async || match current_outcome(bare, name).await {
            Some(Ok(clusters)) => Ok(clusters),
            other => Err(format!("{other:?}")),
        },
    )
    .await
}

/// Returns the outcome of a binding, or `None` if the binding has no `Scheduled` condition.
async fn current_outcome(bare: &BareControlPlane, name: &str) -> Option<Outcome> {
    let binding = bare.bindings("default").get(name).await.unwrap();
    let status = binding.status.unwrap_or_default();
    let mut conditions = status.conditions.into_iter();
    let scheduled = conditions.find(|condition| condition.type_ == CONDITION_SCHEDULED)?;
    let clusters = binding.spec.clusters.into_iter();
    Some(if scheduled.status == "True" {
        let mut names: Vec<_> = clusters.map(|cluster| cluster.name).collect();
        names.sort_unstable();
        Ok(names)
    } else {
        Err((scheduled.reason, scheduled.message))
    })
}

/// Returns the body that a server on a local port serves at a path. Waits until the port is open.
///
/// # Panics
/// If the server does not serve the path.
pub async fn get(port: u16, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    eventually(&format!("{path} of port {port}"), async || {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.contains(" 200 "), "{path}: {response}");
        Ok::<_, std::io::Error>(body.to_owned())
    })
    .await
}

/// Parses a configuration as the scheduler parses a configuration file.
///
/// # Panics
/// If the configuration is invalid.
pub fn parse_configuration(mut configuration: Value) -> DeclaredProfiles {
    configuration["apiVersion"] = json!("scheduler.config.berth/v1alpha1");
    configuration["kind"] = json!("SchedulerConfiguration");
    let document = Document::read("test", &configuration.to_string()).unwrap();
    let configuration: SchedulerConfiguration = document.parse().unwrap();
    DeclaredProfiles::from_document(document, configuration, ProfileFlags::default()).unwrap()
}

/// Returns a ready cluster named `m` plus its number. The label `number` also contains the number.
pub fn cluster(number: u32) -> Cluster {
    let labels = json!({ "metadata": { "labels": { "number": number.to_string() } } });
    sample::cluster(&format!("m{number}"), labels)
}

/// Returns a binding of a Deployment. Its placement selects all clusters.
pub fn to_all_clusters(name: &str, scheduler: &str) -> ResourceBinding {
    binding(name, scheduler, ("apps/v1", "Deployment"), json!({}))
}

/// Returns a binding of a Deployment. Its placement selects one cluster, which is the cluster with the best score.
pub fn to_best_cluster(name: &str, scheduler: &str) -> ResourceBinding {
    binding(
        name,
        scheduler,
        ("apps/v1", "Deployment"),
        sample::on_best_cluster(),
    )
}

/// Returns a binding of a ConfigMap. Its placement selects all clusters.
pub fn config_map_to_all_clusters(name: &str, scheduler: &str) -> ResourceBinding {
    binding(name, scheduler, ("v1", "ConfigMap"), json!({}))
}

fn binding(
    name: &str,
    scheduler: &str,
    (api_version, kind): (&str, &str),
    placement: Value,
) -> ResourceBinding {
    let replicas = i32::from(kind == "Deployment");
    let resource = json!({ "apiVersion": api_version, "kind": kind });
    let spec = json!({ "schedulerName": scheduler, "resource": resource, "replicas": replicas,
        "placement": placement });
    sample::binding(name, json!({ "spec": spec }))
}
