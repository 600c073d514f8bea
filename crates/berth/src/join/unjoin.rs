//! `berth unjoin`: a member ceases to be one.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::Cluster;
use berth_api::cluster::SyncMode;
use berth_api::well_known::{EXECUTION_FINALIZER, EXECUTION_SPACE_PREFIX};
use berth_api::work::Work;
use berth_scheduler::connect::{self, ConnectError};
use clap::Args;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::command::MemberArgs;
use super::hand::said;
use super::{Hand, JoinError, Telling, control_plane, member};
use crate::control_plane::ControlPlaneArgs;

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
    #[error("the control plane: {0}")]
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
        "{name} is still there after {seconds} s, held by {finalizers}: its controllers remove the workloads first; wait longer with --wait, or --force it"
    )]
    Stays {
        /// The member.
        name: String,
        /// How long it was waited for.
        seconds: u64,
        /// What holds it.
        finalizers: String,
    },
    /// A server refuses.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The control plane refuses.
    #[error("cannot {doing}: {}", said(.source))]
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
    if args.dry_run {
        hand.delete(&clusters, name).await?;
    } else {
        let _ = clusters
            .delete(name, &DeleteParams::background())
            .await
            .map_err(refused(format!("delete the member {name}")))?;
        goes(&client, &args).await?;
        hand.tell(&format!("Cluster {name}"), "deleted");
    }
    control_plane::forget(&hand, &cluster).await?;
    let rest = match &member_client {
        Some(client) => {
            member::forget(&Hand::new(client, name, telling), name).await?;
            ""
        }
        None => "; what joining made in it is still there (--cluster-kubeconfig removes it)",
    };
    let is_no_member = if args.dry_run {
        "would be no member any more (dry run: nothing was written)"
    } else {
        "is no member any more"
    };
    writeln!(std::io::stdout(), "{name} {is_no_member}{rest}")?;
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
    let client = connect::client(config).map_err(UnjoinError::Member)?;
    let id = member::id_of(&Hand::new(&client, &args.name, Telling::Nothing)).await?;
    if cluster.spec.id.as_ref().is_some_and(|known| *known != id) {
        return Err(UnjoinError::Another {
            name: args.name.clone(),
            path: path.clone(),
        });
    }
    Ok(Some(client))
}

/// Waits until the Cluster is gone.
async fn goes(client: &Client, args: &UnjoinArgs) -> Result<(), UnjoinError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = &args.name;
    let end = Instant::now() + Duration::from_secs(args.wait);
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
                finalizers: stored.finalizers().join(", "),
            });
        }
    }
}

/// Takes away what holds a Cluster, and the works that are to leave its member.
async fn let_go(client: &Client, name: &str) -> Result<(), UnjoinError> {
    let space = format!("{EXECUTION_SPACE_PREFIX}{name}");
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
