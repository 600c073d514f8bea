//! Fault injection for simulated members: `berth fail` and `berth heal`.
//!
//! The request is an annotation of the Cluster, so kubectl and a fleet file can make it too. Only the API server of the
//! member becomes unreachable; its simulated workloads keep running. The controllers react as they do to a real member
//! (condition `Ready`, taints, evictions).

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;

use berth_api::Cluster;
use berth_api::component::Component;
use berth_apiserver::Reachability;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use futures::TryStreamExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::control_plane::{self, LookupError};
use crate::kubeconfig::CONTEXT;

/// Annotation of a Cluster whose value `unreachable` makes the API server of the simulated member unreachable.
pub const FAULT_ANNOTATION: &str = "simulation.berth/fails";
const UNREACHABLE: &str = "unreachable";

/// Name of the simulation in `berth status`.
pub const NAME: &str = "simulation";

/// Flags of `berth fail` and `berth heal`.
#[derive(Args, Clone, Debug)]
pub struct FaultArgs {
    /// Names of simulated members
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<String>,

    /// Kubeconfig of the `berth up` [default: $KUBECONFIG, or ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// Requested change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Makes them unreachable.
    Fail,
    /// Makes them reachable again.
    Heal,
}

/// Reason why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// No `berth up` is running.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no simulated member of this name.
    #[error("{name} is not a simulated member; the simulated members are: {known}")]
    NotSimulated {
        /// Name in the request.
        name: String,
        /// Names of the simulated members.
        known: String,
    },
    /// The control plane refuses the change.
    #[error("cannot annotate cluster {name}: {source}")]
    Refused {
        /// Name of the member.
        name: String,
        /// Cause.
        source: Box<kube::Error>,
    },
}

/// Requests the change from the control plane of a kubeconfig.
///
/// # Errors
/// When a member is not simulated, or the control plane refuses the change.
pub async fn request(args: FaultArgs, fault: Fault) -> Result<(), FaultError> {
    let path = control_plane::instance(args.kubeconfig)?.kubeconfig;
    let target = Target {
        kubeconfig: Some(path.clone()),
        context: Some(CONTEXT.to_owned()),
        master: None,
    };
    let client = connect::reach(connect::config(&target).await?, Component::CommandLine).await?;
    // The kubeconfig has a context for each simulated member.
    let contexts = Kubeconfig::read_from(&path).map(|kubeconfig| kubeconfig.contexts);
    let known: Vec<String> = contexts
        .unwrap_or_default()
        .into_iter()
        .map(|context| context.name)
        .filter(|name| name != CONTEXT)
        .collect();
    if let Some(unknown) = args.members.iter().find(|name| !known.contains(name)) {
        return Err(FaultError::NotSimulated {
            name: unknown.clone(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        });
    }
    let clusters: Api<Cluster> = Api::all(client);
    let value = (fault == Fault::Fail).then_some(UNREACHABLE);
    let change =
        Patch::Merge(json!({ "metadata": { "annotations": { FAULT_ANNOTATION: value } } }));
    for name in &args.members {
        let refused = |source| FaultError::Refused {
            name: name.clone(),
            source: Box::new(source),
        };
        let before = clusters.get_metadata(name).await.map_err(refused)?;
        let failed = before
            .annotations()
            .get(FAULT_ANNOTATION)
            .is_some_and(|value| value == UNREACHABLE);
        clusters
            .patch(name, &PatchParams::default(), &change)
            .await
            .map_err(refused)?;
        let outcome = match (fault, failed) {
            (Fault::Fail, false) => {
                "is unreachable now; it becomes not ready after the failure threshold"
            }
            (Fault::Heal, true) => {
                "is reachable again; it becomes ready after the success threshold"
            }
            (Fault::Fail, true) => "is unreachable already; `berth heal` makes it reachable again",
            (Fault::Heal, false) => "was not unreachable",
        };
        let _ = writeln!(std::io::stdout(), "{name} {outcome}");
    }
    Ok(())
}

/// Reports whether the manifest describes a cluster that is not ready.
pub(crate) fn is_described_as_not_ready(cluster: &Cluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status != "True")
}

/// Adds the annotation that makes the member unreachable.
pub(crate) fn annotate(cluster: &mut Cluster) {
    cluster
        .annotations_mut()
        .insert(FAULT_ANNOTATION.to_owned(), UNREACHABLE.to_owned());
}

/// Applies the annotations of Clusters to the members until the token is cancelled.
pub(crate) async fn run(
    client: Client,
    members: HashMap<String, Reachability>,
    cancel: CancellationToken,
) {
    let clusters: Api<Cluster> = Api::all(client);
    let stream = watcher(clusters, watcher::Config::default().any_semantic())
        .default_backoff()
        .applied_objects();
    let mut stream = std::pin::pin!(stream);
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.try_next() => event,
        };
        match event {
            Ok(Some(cluster)) => {
                if let Some(member) = members.get(&cluster.name_any()) {
                    let fault = cluster.annotations().get(FAULT_ANNOTATION);
                    member.set(fault.is_none_or(|value| value != UNREACHABLE));
                }
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "the watch of clusters failed; retrying"),
        }
    }
}
