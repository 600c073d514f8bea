//! `berth unjoin`: a member ceases to be one.
//!
//! Its workloads leave it first. Karmada's cluster controller sees to that, and holds the Cluster by a finalizer; where none
//! does, the Cluster is held here until its works are gone: a Cluster that is being deleted takes no workloads.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_api::component::Component;
use berth_api::well_known::{CLUSTER_FINALIZER, EXECUTION_FINALIZER, EXECUTION_SPACE_PREFIX};
use berth_api::work::Work;
use berth_apimachinery::api_error::api_error_message;
use berth_scheduler::connect::{self, ConnectError};
use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::command::MemberArgs;
use super::ownership::Registrant;
use super::{Hand, JoinError, Telling, control_plane, member};
use crate::answer;
use crate::control_plane::ControlPlaneArgs;

/// Holds a Cluster until its works are gone.
const HELD: &str = "members.berth/unjoin";
/// The pause between two looks.
const STEP: Duration = Duration::from_millis(200);

/// Flags of `berth unjoin`.
#[derive(Args, Clone, Debug)]
pub struct UnjoinArgs {
    /// The member
    #[arg(value_name = "NAME")]
    pub name: String,

    /// A kubeconfig of the member, with all rights in it; without one, what joining made there stays there
    #[arg(long, value_name = "PATH")]
    pub cluster_kubeconfig: Option<PathBuf>,

    /// The context of the member in that kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "cluster_kubeconfig")]
    pub cluster_context: Option<String>,

    /// How many seconds the Cluster may take to go; its workloads leave the member first
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub wait: u64,

    /// Let the Cluster go after that time all the same, without what is left in the member being removed
    #[arg(long)]
    pub force: bool,

    /// Say what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Where the members are kept.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Why a cluster is still a member.
#[derive(Debug, thiserror::Error)]
pub enum UnjoinError {
    /// The control plane cannot be addressed.
    #[error("{}", super::unreached(.0))]
    ControlPlane(ConnectError),
    /// The member cannot be addressed.
    #[error("the member: {0}")]
    Member(ConnectError),
    /// There is none.
    #[error("there is no member named {0}")]
    Nobody(String),
    /// An agent in it does the work.
    #[error(
        "{0} is a member in Pull mode: its agent has registered it, and `karmadactl unregister` takes it out"
    )]
    Pulls(String),
    /// The kubeconfig is not the member's.
    #[error("{path} leads to another cluster than the member {name}: nothing was done", path = .path.display())]
    Another {
        /// The member.
        name: String,
        /// The kubeconfig.
        path: PathBuf,
    },
    /// It does not go.
    #[error(
        "{name} is still there after {seconds} s, held by {holder}: its controllers remove the workloads first; wait longer with --wait, or --force it"
    )]
    Stays {
        /// The member.
        name: String,
        /// How long it was waited for.
        seconds: u64,
        /// What holds it.
        holder: String,
    },
    /// A server refuses.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The control plane refuses.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// What.
        doing: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Nobody reads what is said.
    #[error("cannot write the answer: {0}")]
    Write(#[from] std::io::Error),
}

fn refused(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> UnjoinError {
    let doing = doing.into();
    move |source| UnjoinError::Refused {
        doing,
        source: Box::new(source),
    }
}

/// Takes a member out.
///
/// # Errors
/// When it cannot; another try goes on from there.
pub async fn run(args: UnjoinArgs) -> Result<(), UnjoinError> {
    let client = args.control_plane.client().await;
    let client = client.map_err(UnjoinError::ControlPlane)?;
    let telling = if args.dry_run {
        Telling::DryRun
    } else {
        Telling::Everything
    };
    let hand = Hand::new(&client, "control plane", telling);
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = &args.name;
    let cluster = clusters.get_opt(name).await;
    let cluster = cluster
        .map_err(refused(format!("read the member {name}")))?
        .ok_or_else(|| UnjoinError::Nobody(name.clone()))?;
    if cluster.spec.sync_mode == SyncMode::Pull {
        return Err(UnjoinError::Pulls(name.clone()));
    }
    let member_client = the_member(&args, &cluster).await?;
    // Its Secret goes with the Cluster.
    let registrant = Registrant::read(&hand, name).await?;
    if args.dry_run {
        hand.delete(&clusters, name).await?;
    } else {
        let end = Instant::now() + Duration::from_secs(args.wait);
        let held = hold(&clusters, &cluster).await?;
        let _ = clusters
            .delete(name, &DeleteParams::background())
            .await
            .map_err(refused(format!("delete the member {name}")))?;
        if held {
            is_left(&client, &args, end).await?;
            release(&clusters, name).await?;
        }
        goes(&client, &args, end).await?;
        hand.tell(&format!("Cluster {name}"), "deleted");
        if held {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            hand.delete(&namespaces, &space_of(name)).await?;
        }
    }
    control_plane::forget(&hand, &cluster).await?;
    let rest = match &member_client {
        Some(client) => {
            member::forget(&Hand::new(client, name, telling), &registrant, name).await?;
            ""
        }
        None => "; what joining made in it is still there (--cluster-kubeconfig removes it)",
    };
    let is_no_member = if args.dry_run {
        "would be no member any more (dry run: nothing was written)"
    } else {
        "is no member any more"
    };
    answer::print(&format!("{name} {is_no_member}{rest}\n"))?;
    Ok(())
}

/// A client for the member, where there is a way into it and it is the right one.
async fn the_member(args: &UnjoinArgs, cluster: &Cluster) -> Result<Option<Client>, UnjoinError> {
    let Some(path) = &args.cluster_kubeconfig else {
        return Ok(None);
    };
    let way = MemberArgs {
        cluster_kubeconfig: path.clone(),
        cluster_context: args.cluster_context.clone(),
    };
    let config = way.config().await.map_err(UnjoinError::Member)?;
    let client = connect::client(config, Component::CommandLine).map_err(UnjoinError::Member)?;
    let id = member::id_of(&Hand::new(&client, &args.name, Telling::Nothing)).await?;
    if cluster.spec.id.as_ref().is_some_and(|known| *known != id) {
        return Err(UnjoinError::Another {
            name: args.name.clone(),
            path: path.clone(),
        });
    }
    Ok(Some(client))
}

/// Where the works of a member are.
fn space_of(name: &str) -> String {
    format!("{EXECUTION_SPACE_PREFIX}{name}")
}

/// Holds a Cluster that no controller holds, and says whether it does.
async fn hold(clusters: &Api<Cluster>, cluster: &Cluster) -> Result<bool, UnjoinError> {
    let finalizers = cluster.finalizers();
    if finalizers.iter().any(|one| one == CLUSTER_FINALIZER) {
        return Ok(false);
    }
    if finalizers.iter().any(|one| one == HELD) {
        return Ok(true);
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let mut all = finalizers.to_vec();
    all.push(HELD.to_owned());
    let metadata = json!({ "finalizers": all, "resourceVersion": cluster.resource_version() });
    let (name, patch) = (
        cluster.name_any(),
        Patch::Merge(json!({ "metadata": metadata })),
    );
    let held = clusters.patch(&name, &PatchParams::default(), &patch).await;
    held.map_err(refused(format!("hold the member {name}")))?;
    Ok(true)
}

/// Waits until the works of a member are gone.
async fn is_left(client: &Client, args: &UnjoinArgs, end: Instant) -> Result<(), UnjoinError> {
    let space = space_of(&args.name);
    let works: Api<Work> = Api::namespaced(client.clone(), &space);
    loop {
        let left = match works.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items.len(),
            // A control plane without works.
            Err(kube::Error::Api(status)) if status.code == 404 => 0,
            Err(error) => return Err(refused(format!("list the works in {space}"))(error)),
        };
        if left == 0 {
            return Ok(());
        }
        if Instant::now() < end {
            tokio::time::sleep(STEP).await;
        } else if args.force {
            return let_go(client, &args.name).await;
        } else {
            return Err(UnjoinError::Stays {
                name: args.name.clone(),
                seconds: args.wait,
                holder: format!("works in {space} ({left} left)"),
            });
        }
    }
}

/// Gives up a Cluster that was held here.
async fn release(clusters: &Api<Cluster>, name: &str) -> Result<(), UnjoinError> {
    let failed = || format!("let the member {name} go");
    let Some(stored) = clusters
        .get_metadata_opt(name)
        .await
        .map_err(refused(failed()))?
    else {
        return Ok(());
    };
    let finalizers = stored.finalizers().iter();
    let others: Vec<_> = finalizers.filter(|one| *one != HELD).collect();
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": others } }));
    let patched = clusters.patch(name, &PatchParams::default(), &patch).await;
    unless_gone(patched).map_err(refused(failed()))
}

/// Waits until the Cluster is gone.
async fn goes(client: &Client, args: &UnjoinArgs, end: Instant) -> Result<(), UnjoinError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = &args.name;
    loop {
        let stored = clusters.get_metadata_opt(name).await;
        let Some(stored) = stored.map_err(refused(format!("read the member {name}")))? else {
            return Ok(());
        };
        if Instant::now() < end {
            tokio::time::sleep(STEP).await;
        } else if args.force {
            return let_go(client, name).await;
        } else {
            return Err(UnjoinError::Stays {
                name: name.clone(),
                seconds: args.wait,
                holder: stored.finalizers().join(", "),
            });
        }
    }
}

/// Takes away what holds a Cluster, and the works that are to leave its member.
async fn let_go(client: &Client, name: &str) -> Result<(), UnjoinError> {
    let space = space_of(name);
    let works: Api<Work> = Api::namespaced(client.clone(), &space);
    let parameters = PatchParams::default();
    let list = works.list(&ListParams::default()).await;
    for work in list.map_err(refused(format!("list the works in {space}")))? {
        if work
            .finalizers()
            .iter()
            .any(|one| one == EXECUTION_FINALIZER)
        {
            let finalizers = work.finalizers().iter();
            let others: Vec<_> = finalizers
                .filter(|one| *one != EXECUTION_FINALIZER)
                .collect();
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": others } }));
            let work = work.name_any();
            let patched = works.patch(&work, &parameters, &patch).await;
            unless_gone(patched).map_err(refused(format!("let work {space}/{work} go")))?;
        }
    }
    let clusters: Api<Cluster> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let patched = clusters.patch(name, &parameters, &patch).await;
    unless_gone(patched).map_err(refused(format!("let the member {name} go")))
}

fn unless_gone<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
