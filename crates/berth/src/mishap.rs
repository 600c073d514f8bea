//! Simulated members that fail on request: `berth fail` and `berth heal`.
//!
//! The request is an annotation of the Cluster, so that kubectl and a fleet file can make it, too. What follows from it
//! (the condition `Ready`, taints, evictions) is up to the controllers: they see a member that cannot be reached, as they
//! would see a real one. The simulated cluster itself lives on meanwhile.

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

/// Annotation of a Cluster: with the value `unreachable`, the API server of the simulated member cannot be reached.
pub const FAILS: &str = "simulation.berth/fails";
const UNREACHABLE: &str = "unreachable";

/// What is called where people look at what runs.
pub const NAME: &str = "simulation";

/// Flags of `berth fail` and `berth heal`.
#[derive(Args, Clone, Debug)]
pub struct MishapArgs {
    /// Names of simulated members
    #[arg(required = true, value_name = "MEMBER")]
    pub members: Vec<String>,

    /// The kubeconfig of the `berth up` [default: $KUBECONFIG, or ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// What is to happen to the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// They cannot be reached.
    Fail,
    /// They can be reached again.
    Heal,
}

/// Why it does not happen.
#[derive(Debug, thiserror::Error)]
pub enum MishapError {
    /// Nothing is up, so nothing is simulated.
    #[error(transparent)]
    NotUp(#[from] LookupError),
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no such member.
    #[error("{name} is no simulated member; there are: {known}")]
    NotSimulated {
        /// As asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The control plane refuses.
    #[error("cannot tell the control plane about {name}: {source}")]
    Refused {
        /// The member.
        name: String,
        /// Why not.
        source: Box<kube::Error>,
    },
}

/// Asks for it on the control plane of a kubeconfig.
///
/// # Errors
/// When the members are not simulated ones, or the control plane refuses.
pub async fn request(args: MishapArgs, mishap: Mishap) -> Result<(), MishapError> {
    let path = control_plane::instance(args.kubeconfig)?.kubeconfig;
    let target = Target {
        kubeconfig: Some(path.clone()),
        context: Some(CONTEXT.to_owned()),
        master: None,
    };
    let client = connect::reach(connect::config(&target).await?, Component::CommandLine).await?;
    // Each simulated member has a context in it.
    let contexts = Kubeconfig::read_from(&path).map(|kubeconfig| kubeconfig.contexts);
    let known: Vec<String> = contexts
        .unwrap_or_default()
        .into_iter()
        .map(|context| context.name)
        .filter(|name| name != CONTEXT)
        .collect();
    if let Some(stranger) = args.members.iter().find(|name| !known.contains(name)) {
        return Err(MishapError::NotSimulated {
            name: stranger.clone(),
            known: if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            },
        });
    }
    let clusters: Api<Cluster> = Api::all(client);
    let value = (mishap == Mishap::Fail).then_some(UNREACHABLE);
    let change = Patch::Merge(json!({ "metadata": { "annotations": { FAILS: value } } }));
    for name in &args.members {
        let refused = |source| MishapError::Refused {
            name: name.clone(),
            source: Box::new(source),
        };
        let before = clusters.get_metadata(name).await.map_err(refused)?;
        let failed = before
            .annotations()
            .get(FAILS)
            .is_some_and(|what| what == UNREACHABLE);
        clusters
            .patch(name, &PatchParams::default(), &change)
            .await
            .map_err(refused)?;
        let said = match (mishap, failed) {
            (Mishap::Fail, false) => {
                "cannot be reached any more; when that has lasted for the failure threshold, it is not ready"
            }
            (Mishap::Heal, true) => {
                "can be reached again; when that has lasted for the success threshold, it is ready"
            }
            (Mishap::Fail, true) => "is cut off already; `berth heal` lets it be reached again",
            (Mishap::Heal, false) => "was not cut off",
        };
        let _ = writeln!(std::io::stdout(), "{name} {said}");
    }
    Ok(())
}

/// The annotation that a manifest asks for by saying that its cluster is not ready.
pub(crate) fn described(cluster: &Cluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status != "True")
}

/// Asks for the failure of a member whose manifest says that it is not ready.
pub(crate) fn ask(cluster: &mut Cluster) {
    cluster
        .annotations_mut()
        .insert(FAILS.to_owned(), UNREACHABLE.to_owned());
}

/// Does what the annotations ask for until the token is cancelled.
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
        let seen = tokio::select! {
            () = cancel.cancelled() => return,
            seen = stream.try_next() => seen,
        };
        match seen {
            Ok(Some(cluster)) => {
                if let Some(member) = members.get(&cluster.name_any()) {
                    let fails = cluster.annotations().get(FAILS);
                    member.set(fails.is_none_or(|what| what != UNREACHABLE));
                }
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(%error, "the watch of clusters broke; trying again"),
        }
    }
}
