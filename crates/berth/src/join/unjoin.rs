//! The command `berth unjoin`, which removes a member.
//!
//! The Cluster must exist until the workloads are removed from the member. Karmada's cluster controller ensures this
//! with a finalizer. In a control plane without this controller, the command adds its own finalizer until the Works are
//! deleted. The scheduler places no workloads on a Cluster that is being deleted.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use berth_api::cluster::SyncMode;
use berth_api::well_known::{
    CLUSTER_FINALIZER, CONDITION_APPLIED, EXECUTION_FINALIZER, EXECUTION_SPACE_PREFIX,
};
use berth_api::work::Work;
use berth_api::{Cluster, condition};
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::kube_client::{self, ConnectError};
use berth_component_base::user_agent::Component;
use clap::Args;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ApiResource, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::command::MemberArgs;
use super::ownership::Registrant;
use super::{Applier, JoinError, Mode, cluster_registration, member_accounts};
use crate::control_plane::ControlPlaneArgs;
use crate::member_name;
use crate::output;

/// Finalizer of this command, which keeps a Cluster until its Works are deleted.
const FINALIZER: &str = "members.berth/unjoin";
/// Interval between two reads of the Cluster or of its Works.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Flags of `berth unjoin`.
#[derive(Args, Clone, Debug)]
pub struct UnjoinArgs {
    /// Name of the member
    #[arg(value_name = "NAME", value_parser = member_name::parse)]
    pub name: String,

    /// Kubeconfig of a user with all rights in the member; without it, the accounts of the control plane stay in the
    /// member
    #[arg(long, value_name = "PATH")]
    pub cluster_kubeconfig: Option<PathBuf>,

    /// Context of the member in that kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME", requires = "cluster_kubeconfig")]
    pub cluster_context: Option<String>,

    /// Seconds to wait for the removal of the workloads and the Cluster
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub wait: u64,

    /// Remove the Cluster after the time of --wait in any case; remaining workloads stay in the member
    #[arg(long)]
    pub force: bool,

    /// Report what would be done; nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// An error of `berth unjoin`.
#[derive(Debug, thiserror::Error)]
pub enum UnjoinError {
    /// The command cannot connect to the control plane.
    #[error("{}", super::control_plane_error(.0))]
    ControlPlane(ConnectError),
    /// The command cannot connect to the member.
    #[error("the member: {0}")]
    Member(ConnectError),
    /// The control plane has no member with this name.
    #[error("there is no member named {0}")]
    NotFound(String),
    /// The member uses Pull mode.
    #[error(
        "{0} is a member in Pull mode, which its agent has registered: remove it with `karmadactl unregister`"
    )]
    PullMode(String),
    /// The kubeconfig selects another cluster.
    #[error("{path} leads to another cluster than the member {name}: nothing was done", path = .path.display())]
    WrongCluster {
        /// Name of the member.
        name: String,
        /// Path of the kubeconfig.
        path: PathBuf,
    },
    /// The Cluster or its Works still exist after the timeout.
    #[error(
        "{name} still exists after {seconds} s, kept by {kept_by}: controllers remove the workloads first; wait longer with --wait, or pass --force"
    )]
    TimedOut {
        /// Name of the member.
        name: String,
        /// Waiting time, in seconds.
        seconds: u64,
        /// Finalizers or Works that keep the Cluster.
        kept_by: String,
    },
    /// The control plane or the member refuses a request.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A request to the control plane failed.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// The attempted action, such as `read the member m1`.
        doing: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

fn refused(doing: impl Into<String>) -> impl FnOnce(kube::Error) -> UnjoinError {
    let doing = doing.into();
    move |source| UnjoinError::Refused {
        doing,
        source: Box::new(source),
    }
}

/// Removes a member from the control plane. If the flags name its kubeconfig, also removes the accounts in the member.
///
/// # Errors
/// Fails if a step fails. While the Cluster exists, a second run can complete the removal.
pub async fn run(args: UnjoinArgs) -> Result<(), UnjoinError> {
    let resources = [
        ApiResource::erase::<Cluster>(&()),
        ApiResource::erase::<Work>(&()),
    ];
    let client = args.control_plane.client(&resources).await;
    let client = client.map_err(UnjoinError::ControlPlane)?;
    let mode = if args.dry_run {
        Mode::DryRun
    } else {
        Mode::Verbose
    };
    let applier = Applier::new(&client, "control plane", mode);
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = &args.name;
    let cluster = clusters.get_opt(name).await;
    let cluster = cluster
        .map_err(refused(format!("read the member {name}")))?
        .ok_or_else(|| UnjoinError::NotFound(name.clone()))?;
    if cluster.spec.sync_mode == SyncMode::Pull {
        return Err(UnjoinError::PullMode(name.clone()));
    }
    let member_client = member_client(&args, &cluster).await?;
    // The registrant is read from a Secret, which is deleted with the Cluster. Therefore it is read first.
    let registrant = Registrant::read(&applier, name).await?;
    if args.dry_run {
        applier.delete(&clusters, name).await?;
    } else {
        let end = Instant::now() + Duration::from_secs(args.wait);
        let has_finalizer = add_finalizer(&clusters, &cluster).await?;
        let _ = clusters
            .delete(name, &DeleteParams::background())
            .await
            .map_err(refused(format!("delete the member {name}")))?;
        if has_finalizer {
            wait_until_works_are_gone(&client, &args, end).await?;
            remove_finalizer(&clusters, name).await?;
        }
        wait_until_gone(&client, &args, end).await?;
        applier.report(&format!("Cluster {name}"), "deleted");
        if has_finalizer {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            applier
                .delete(&namespaces, &execution_namespace(name))
                .await?;
        }
    }
    cluster_registration::delete_secrets(&applier, &cluster).await?;
    let remaining_accounts = match &member_client {
        Some(client) => {
            member_accounts::delete(&Applier::new(client, name, mode), &registrant, name).await?;
            ""
        }
        None => {
            "; accounts of the control plane remain in the member (--cluster-kubeconfig removes them)"
        }
    };
    let result = if args.dry_run {
        "would no longer be a member (dry run: nothing was written)"
    } else {
        "is no longer a member"
    };
    output::print(&format!("{name} {result}{remaining_accounts}\n"))?;
    Ok(())
}

/// Returns a client for the member, or `None` if the flags name no kubeconfig. Checks that the kubeconfig selects the
/// cluster of the member.
async fn member_client(
    args: &UnjoinArgs,
    cluster: &Cluster,
) -> Result<Option<Client>, UnjoinError> {
    let Some(path) = &args.cluster_kubeconfig else {
        return Ok(None);
    };
    let access = MemberArgs {
        cluster_kubeconfig: path.clone(),
        cluster_context: args.cluster_context.clone(),
    };
    let config = access.config().await.map_err(UnjoinError::Member)?;
    let client =
        kube_client::client(config, Component::CommandLine).map_err(UnjoinError::Member)?;
    let id = Applier::new(&client, &args.name, Mode::Quiet)
        .cluster_id()
        .await?;
    if cluster.spec.id.as_ref().is_some_and(|known| *known != id) {
        return Err(UnjoinError::WrongCluster {
            name: args.name.clone(),
            path: path.clone(),
        });
    }
    Ok(Some(client))
}

/// Returns the namespace that contains a member's Works.
fn execution_namespace(name: &str) -> String {
    format!("{EXECUTION_SPACE_PREFIX}{name}")
}

/// Adds the finalizer of this command to a Cluster, unless the Cluster has the finalizer of the cluster controller or
/// is being deleted. Returns whether the Cluster has the finalizer of this command.
async fn add_finalizer(clusters: &Api<Cluster>, cluster: &Cluster) -> Result<bool, UnjoinError> {
    let finalizers = cluster.finalizers();
    if finalizers
        .iter()
        .any(|finalizer| finalizer == CLUSTER_FINALIZER)
    {
        return Ok(false);
    }
    if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Ok(true);
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let mut all = finalizers.to_vec();
    all.push(FINALIZER.to_owned());
    let metadata = json!({ "finalizers": all, "resourceVersion": cluster.resource_version() });
    let (name, patch) = (
        cluster.name_any(),
        Patch::Merge(json!({ "metadata": metadata })),
    );
    let patched = clusters.patch(&name, &PatchParams::default(), &patch).await;
    patched.map_err(refused(format!("add a finalizer to member {name}")))?;
    Ok(true)
}

/// Waits until the Works of a member are deleted. At the timeout, fails or forces the removal.
async fn wait_until_works_are_gone(
    client: &Client,
    args: &UnjoinArgs,
    end: Instant,
) -> Result<(), UnjoinError> {
    let namespace = execution_namespace(&args.name);
    let works: Api<Work> = Api::namespaced(client.clone(), &namespace);
    loop {
        let left = match works.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items.len(),
            // The control plane does not serve the resource Work.
            Err(kube::Error::Api(status)) if status.code == 404 => 0,
            Err(error) => return Err(refused(format!("list the works in {namespace}"))(error)),
        };
        if left == 0 {
            return Ok(());
        }
        if Instant::now() < end {
            tokio::time::sleep(POLL_INTERVAL).await;
        } else if args.force {
            return force_removal(client, &args.name).await;
        } else {
            return Err(UnjoinError::TimedOut {
                name: args.name.clone(),
                seconds: args.wait,
                kept_by: remaining_works(client, &args.name)
                    .await?
                    .unwrap_or_default(),
            });
        }
    }
}

/// Describes the Works of a member that are left, and the reason for which the objects of one of them could not be
/// deleted. Returns `None` if no Work is left.
async fn remaining_works(client: &Client, name: &str) -> Result<Option<String>, UnjoinError> {
    let namespace = execution_namespace(name);
    let works: Api<Work> = Api::namespaced(client.clone(), &namespace);
    let works = match works.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(refused(format!("list the works in {namespace}"))(error)),
    };
    if works.is_empty() {
        return Ok(None);
    }
    let mut description = format!("works in {namespace} ({} left", works.len());
    let failed = works.iter().find_map(|work| {
        let applied = condition::find(&work.status.as_ref()?.conditions, CONDITION_APPLIED)?;
        (applied.status == "False").then(|| (work.name_any(), &applied.message))
    });
    if let Some((work, message)) = failed {
        let _ = write!(description, "; {work}: {message}");
    }
    description.push(')');
    Ok(Some(description))
}

/// Removes the finalizer of this command from a Cluster.
async fn remove_finalizer(clusters: &Api<Cluster>, name: &str) -> Result<(), UnjoinError> {
    let failed = || format!("remove the finalizer of member {name}");
    let Some(stored) = clusters
        .get_metadata_opt(name)
        .await
        .map_err(refused(failed()))?
    else {
        return Ok(());
    };
    let finalizers = stored.finalizers().iter();
    let others: Vec<_> = finalizers
        .filter(|finalizer| *finalizer != FINALIZER)
        .collect();
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": others } }));
    let patched = clusters.patch(name, &PatchParams::default(), &patch).await;
    ignore_not_found(patched).map_err(refused(failed()))
}

/// Waits until the Cluster is deleted. At the timeout, fails or forces the removal.
async fn wait_until_gone(
    client: &Client,
    args: &UnjoinArgs,
    end: Instant,
) -> Result<(), UnjoinError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let name = &args.name;
    loop {
        let stored = clusters.get_metadata_opt(name).await;
        let Some(stored) = stored.map_err(refused(format!("read the member {name}")))? else {
            return Ok(());
        };
        if Instant::now() < end {
            tokio::time::sleep(POLL_INTERVAL).await;
        } else if args.force {
            return force_removal(client, name).await;
        } else {
            return Err(UnjoinError::TimedOut {
                name: name.clone(),
                seconds: args.wait,
                kept_by: stored
                    .finalizers()
                    .iter()
                    .cloned()
                    .chain(remaining_works(client, name).await?)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        }
    }
}

/// Removes all finalizers of a Cluster, and the execution finalizer of its Works.
async fn force_removal(client: &Client, name: &str) -> Result<(), UnjoinError> {
    let namespace = execution_namespace(name);
    let works: Api<Work> = Api::namespaced(client.clone(), &namespace);
    let parameters = PatchParams::default();
    let works_left = match works.list(&ListParams::default()).await {
        Ok(list) => list.items,
        // The control plane does not serve the resource Work.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(refused(format!("list the works in {namespace}"))(error)),
    };
    for work in works_left {
        if work
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == EXECUTION_FINALIZER)
        {
            let finalizers = work.finalizers().iter();
            let others: Vec<_> = finalizers
                .filter(|finalizer| *finalizer != EXECUTION_FINALIZER)
                .collect();
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": others } }));
            let work = work.name_any();
            let patched = works.patch(&work, &parameters, &patch).await;
            ignore_not_found(patched).map_err(refused(format!(
                "remove the finalizer of Work {namespace}/{work}"
            )))?;
        }
    }
    let clusters: Api<Cluster> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let patched = clusters.patch(name, &parameters, &patch).await;
    ignore_not_found(patched).map_err(refused(format!("remove the finalizer of member {name}")))
}

fn ignore_not_found<T>(result: Result<T, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}
