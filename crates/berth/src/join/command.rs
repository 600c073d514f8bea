//! The command `berth join`, which registers an existing cluster as a member.

use std::path::PathBuf;

use berth_api::Cluster;
use berth_api::cluster::{ClusterSpec, SyncMode};
use berth_api::names::cluster_name;
use berth_apimachinery::api_error::api_error_message;
use berth_component_base::kube_client::{self, ConnectError, Target, retry_requests};
use berth_component_base::user_agent::Component;
use clap::Args;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, ListParams};

use super::rights::{GroupResource, Rights};
use super::served_resources::{self, UnservedResource};
use super::{Applier, Endpoint, JoinError, Mode, register};
use crate::control_plane::ControlPlaneArgs;
use crate::output;

/// Flags of `berth join`.
#[derive(Args, Clone, Debug)]
pub struct JoinArgs {
    /// Name of the member
    #[arg(value_name = "NAME", value_parser = cluster_name)]
    pub name: String,

    /// Flags for the access to the member.
    #[command(flatten)]
    pub member: MemberArgs,

    /// URL at which the control plane reaches the member's API [default: that of the Cluster, or the server of the member's
    /// kubeconfig]
    #[arg(long, value_name = "URL")]
    pub cluster_endpoint: Option<String>,

    /// Provider of the member; an empty value removes it
    #[arg(long, value_name = "NAME")]
    pub cluster_provider: Option<String>,

    /// Region of the member; an empty value removes it
    #[arg(long, value_name = "NAME")]
    pub cluster_region: Option<String>,

    /// Zones of the member; an empty value removes them
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub cluster_zones: Option<Vec<String>>,

    /// Resources that the control plane may manage in the member, as RESOURCE or RESOURCE.GROUP [default: all rights]
    #[arg(long, value_name = "RESOURCE,...", value_delimiter = ',')]
    pub resources: Vec<GroupResource>,

    /// Report the changes that would be made; both servers are read, and nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Flags that select the control plane.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// Flags for an administrator's access to a member.
#[derive(Args, Clone, Debug)]
pub struct MemberArgs {
    /// Kubeconfig of a user with all rights in the member
    #[arg(long, value_name = "PATH", required = true)]
    pub cluster_kubeconfig: PathBuf,

    /// Context of the member in that kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub cluster_context: Option<String>,
}

/// An error of `berth join`.
#[derive(Debug, thiserror::Error)]
pub enum JoinCommandError {
    /// The command cannot connect to the control plane.
    #[error("{}", super::control_plane_error(.0))]
    ControlPlane(ConnectError),
    /// The command cannot connect to the member.
    #[error("the member: {0}")]
    Member(ConnectError),
    /// Another cluster is registered under the name.
    #[error(
        "there is a member named {0} already, and it is another cluster: choose another name, or run `berth unjoin {0}` first"
    )]
    NameTaken(String),
    /// The cluster is already registered under another name.
    #[error("this cluster is a member already, as {0}: run `berth unjoin {0}` first")]
    IsMember(String),
    /// The member is being removed.
    #[error(
        "the member {name} is being removed, and is kept by {kept_by}: wait until `berth unjoin {name}` has removed it, and join again"
    )]
    BeingRemoved {
        /// Name of the member.
        name: String,
        /// Finalizers that keep the Cluster.
        kept_by: String,
    },
    /// The member does not serve a resource of `--resources`.
    #[error(transparent)]
    Resource(#[from] UnservedResource),
    /// The kubeconfig of the member selects the control plane.
    #[error(
        "{} leads to the control plane itself: name a context of the member with --cluster-context", .0.display()
    )]
    Itself(PathBuf),
    /// The kubeconfig contains no certificate authority for the member.
    #[error(
        "{0} has no certificate authority for the member: add certificate-authority-data to the cluster in this kubeconfig"
    )]
    NoAuthority(PathBuf),
    /// The control plane or the member refuses a request.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The list of members cannot be read.
    #[error("cannot list the members: {}", api_error_message(.0))]
    List(Box<kube::Error>),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

impl JoinCommandError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::NoAuthority(_)
                | Self::Itself(_)
                | Self::Resource(UnservedResource::Unknown { .. })
        )
    }
}

impl MemberArgs {
    /// Returns the client configuration for the member.
    pub(crate) async fn config(&self) -> Result<kube::Config, ConnectError> {
        let target = Target {
            kubeconfig: Some(self.cluster_kubeconfig.clone()),
            context: self.cluster_context.clone(),
            master: None,
        };
        let mut config = kube_client::config(&target).await?;
        retry_requests(&mut config);
        Ok(config)
    }
}

/// Registers a cluster as a member, and prints a line for each written object.
///
/// # Errors
/// Fails if a step fails. The objects of earlier steps remain, and a second run completes the registration.
pub async fn run(args: JoinArgs) -> Result<(), JoinCommandError> {
    let config = args
        .member
        .config()
        .await
        .map_err(JoinCommandError::Member)?;
    let resources = [ApiResource::erase::<Cluster>(&())];
    let client = args.control_plane.client(&resources).await;
    let client = client.map_err(JoinCommandError::ControlPlane)?;
    let member_client = kube_client::client(config.clone(), Component::CommandLine)
        .map_err(JoinCommandError::Member)?;
    let mode = if args.dry_run {
        Mode::DryRun
    } else {
        Mode::Verbose
    };
    let control_plane = Applier::new(&client, "control plane", mode);
    let member = Applier::new(&member_client, &args.name, mode);
    let id = member.cluster_id().await?;
    if control_plane.cluster_id().await? == id {
        return Err(JoinCommandError::Itself(args.member.cluster_kubeconfig));
    }
    let existing = check_not_joined(&client, &args.name, &id).await?;
    served_resources::check(&member, &args.resources).await?;
    let ca_pem = match &config.root_cert {
        Some(certificates) => pem(certificates),
        None if config.accept_invalid_certs => String::new(),
        None => {
            return Err(JoinCommandError::NoAuthority(
                args.member.cluster_kubeconfig,
            ));
        }
    };
    let existing = existing.map(|cluster| cluster.spec).unwrap_or_default();
    let url = config.cluster_url.to_string();
    let url = url.trim_end_matches('/');
    let endpoint = Endpoint {
        url: args.cluster_endpoint.unwrap_or_else(|| {
            let known = existing.api_endpoint.filter(|known| !known.is_empty());
            if let Some(known) = known.as_ref().filter(|known| *known != url) {
                let kept =
                    format!("keeps the endpoint {known}; --cluster-endpoint={url} changes it");
                control_plane.report(&format!("Cluster {}", args.name), &kept);
            }
            known.unwrap_or_else(|| url.to_owned())
        }),
        ca_pem,
    };
    // An empty value is not written, because the fields of Karmada's Go types are omitted if they are empty.
    let mut cluster = Cluster::new(
        &args.name,
        ClusterSpec {
            sync_mode: SyncMode::Push,
            provider: args.cluster_provider.or(existing.provider),
            region: args.cluster_region.or(existing.region),
            zones: args.cluster_zones.map_or(existing.zones, |zones| {
                zones.into_iter().filter(|zone| !zone.is_empty()).collect()
            }),
            insecure_skip_tls_verification: config.accept_invalid_certs.then_some(true),
            proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.name = Some(args.name.clone());
    let rights = Rights::of(args.resources);
    register(&control_plane, &member, &endpoint, &cluster, &rights).await?;
    let name = &args.name;
    let summary = if args.dry_run {
        format!("{name} would be a member (dry run: nothing was written)\n")
    } else {
        format!("{name} is a member\n")
    };
    output::print(&summary)?;
    Ok(())
}

/// Checks that the name and the cluster are unused, or that the cluster is already registered under this name. Returns
/// the Cluster in the second case.
async fn check_not_joined(
    client: &kube::Client,
    name: &str,
    id: &str,
) -> Result<Option<Cluster>, JoinCommandError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let all = clusters.list(&ListParams::default()).await;
    let all = all.map_err(|error| JoinCommandError::List(Box::new(error)))?;
    let mut existing = None;
    for cluster in all {
        let same_name = cluster.name_any() == name;
        let same_id = cluster.spec.id.as_deref() == Some(id);
        if (same_name || same_id) && cluster.metadata.deletion_timestamp.is_some() {
            return Err(JoinCommandError::BeingRemoved {
                name: cluster.name_any(),
                kept_by: cluster.finalizers().join(", "),
            });
        }
        match (same_name, same_id) {
            (true, false) => return Err(JoinCommandError::NameTaken(name.to_owned())),
            (false, true) => return Err(JoinCommandError::IsMember(cluster.name_any())),
            (true, true) => existing = Some(cluster),
            (false, false) => {}
        }
    }
    Ok(existing)
}

/// Encodes certificates as PEM.
fn pem(certificates: &[Vec<u8>]) -> String {
    use base64::Engine as _;
    const LINE: usize = 64;
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for (position, letter) in encoded.chars().enumerate() {
            if position > 0 && position % LINE == 0 {
                text.push('\n');
            }
            text.push(letter);
        }
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_lines_have_64_characters() {
        let text = pem(&[vec![1; 60], vec![2]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
        assert_eq!(lines[5], "Ag==");
    }
}
