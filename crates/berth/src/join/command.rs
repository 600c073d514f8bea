//! `berth join`: a cluster of one's own becomes a member.

use std::path::PathBuf;

use berth_api::Cluster;
use berth_api::cluster::{ClusterSpec, SyncMode};
use berth_api::component::Component;
use berth_apimachinery::api_error::api_error_message;
use berth_scheduler::connect::{self, ConnectError, Target};
use clap::Args;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};

use super::{Endpoint, Hand, JoinError, Telling, between, member};
use crate::answer;
use crate::control_plane::{ControlPlaneArgs, patient};

/// The longest name of a member.
const LONGEST_NAME: usize = 48;

/// Flags of `berth join`.
#[derive(Args, Clone, Debug)]
pub struct JoinArgs {
    /// The name of the member
    #[arg(value_name = "NAME", value_parser = cluster_name)]
    pub name: String,

    /// The way into it.
    #[command(flatten)]
    pub way: MemberArgs,

    /// Where the control plane reaches the member's API [default: the server of the member's kubeconfig]
    #[arg(long, value_name = "URL")]
    pub cluster_endpoint: Option<String>,

    /// Who provides the member
    #[arg(long, value_name = "NAME")]
    pub cluster_provider: Option<String>,

    /// The region of the member
    #[arg(long, value_name = "NAME")]
    pub cluster_region: Option<String>,

    /// The zones of the member
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub cluster_zones: Vec<String>,

    /// Say what would be done; both servers are read, and nothing is written
    #[arg(long)]
    pub dry_run: bool,

    /// Where the members are kept.
    #[command(flatten)]
    pub control_plane: ControlPlaneArgs,
}

/// The way into a member, as its administrator has it.
#[derive(Args, Clone, Debug)]
pub struct MemberArgs {
    /// A kubeconfig of the member, with all rights in it
    #[arg(long, value_name = "PATH", required = true)]
    pub cluster_kubeconfig: PathBuf,

    /// The context of the member in that kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub cluster_context: Option<String>,
}

/// Why a cluster is not joined.
#[derive(Debug, thiserror::Error)]
pub enum JoinCommandError {
    /// The control plane cannot be addressed.
    #[error("{}", super::unreached(.0))]
    ControlPlane(ConnectError),
    /// The member cannot be addressed.
    #[error("the member: {0}")]
    Member(ConnectError),
    /// The name is in use.
    #[error(
        "there is a member named {0} already, and it is another cluster: choose another name, or run `berth unjoin {0}` first"
    )]
    NameTaken(String),
    /// The cluster is a member.
    #[error("this cluster is a member already, as {0}: run `berth unjoin {0}` first")]
    IsMember(String),
    /// It would be its own member.
    #[error(
        "{} leads to the control plane itself: name a context of the member with --cluster-context", .0.display()
    )]
    Itself(PathBuf),
    /// Nobody could tell that the member is the member.
    #[error(
        "{0} names no authority of the member's certificate: add certificate-authority-data to its cluster"
    )]
    NoAuthority(PathBuf),
    /// A server refuses.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The list of members cannot be read.
    #[error("cannot list the members: {}", api_error_message(.0))]
    List(Box<kube::Error>),
    /// Nobody reads what is said.
    #[error("cannot write the answer: {0}")]
    Write(#[from] std::io::Error),
}

impl JoinCommandError {
    /// Whether the command line has to change.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::NoAuthority(_) | Self::Itself(_))
    }
}

impl MemberArgs {
    /// What the kubeconfig says.
    pub(crate) async fn config(&self) -> Result<kube::Config, ConnectError> {
        let target = Target {
            kubeconfig: Some(self.cluster_kubeconfig.clone()),
            context: self.cluster_context.clone(),
            master: None,
        };
        let mut config = connect::config(&target).await?;
        patient(&mut config);
        Ok(config)
    }
}

/// Makes a cluster a member, and says what was done.
///
/// # Errors
/// When it cannot; what was done until then stays, and another try goes on from there.
pub async fn run(args: JoinArgs) -> Result<(), JoinCommandError> {
    let config = args.way.config().await.map_err(JoinCommandError::Member)?;
    let client = args.control_plane.client().await;
    let client = client.map_err(JoinCommandError::ControlPlane)?;
    let member_client = connect::client(config.clone(), Component::CommandLine)
        .map_err(JoinCommandError::Member)?;
    let telling = if args.dry_run {
        Telling::DryRun
    } else {
        Telling::Everything
    };
    let control_plane = Hand::new(&client, "control plane", telling);
    let member = Hand::new(&member_client, &args.name, telling);
    let id = member::id_of(&member).await?;
    if member::id_of(&control_plane).await? == id {
        return Err(JoinCommandError::Itself(args.way.cluster_kubeconfig));
    }
    is_free(&client, &args.name, &id).await?;
    let ca_pem = match &config.root_cert {
        Some(certificates) => pem(certificates),
        None if config.accept_invalid_certs => String::new(),
        None => return Err(JoinCommandError::NoAuthority(args.way.cluster_kubeconfig)),
    };
    let url = config.cluster_url.to_string();
    let endpoint = Endpoint {
        url: args
            .cluster_endpoint
            .unwrap_or_else(|| url.trim_end_matches('/').to_owned()),
        ca_pem,
    };
    let mut cluster = Cluster::new(
        &args.name,
        ClusterSpec {
            sync_mode: SyncMode::Push,
            provider: args.cluster_provider,
            region: args.cluster_region,
            zones: args.cluster_zones,
            insecure_skip_tls_verification: config.accept_invalid_certs.then_some(true),
            proxy_url: config.proxy_url.as_ref().map(ToString::to_string),
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.name = Some(args.name.clone());
    between(&control_plane, &member, &endpoint, &cluster).await?;
    let name = &args.name;
    let said = if args.dry_run {
        format!("{name} would be a member (dry run: nothing was written)\n")
    } else {
        format!("{name} is a member\n")
    };
    answer::print(&said)?;
    Ok(())
}

/// Whether a cluster can be the member of this name; it can when it is already.
async fn is_free(client: &kube::Client, name: &str, id: &str) -> Result<(), JoinCommandError> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let all = clusters.list(&ListParams::default()).await;
    let all = all.map_err(|error| JoinCommandError::List(Box::new(error)))?;
    for cluster in all {
        let same_name = cluster.name_any() == name;
        let same_id = cluster.spec.id.as_deref() == Some(id);
        match (same_name, same_id) {
            (true, false) => return Err(JoinCommandError::NameTaken(name.to_owned())),
            (false, true) => return Err(JoinCommandError::IsMember(cluster.name_any())),
            (true, true) | (false, false) => {}
        }
    }
    Ok(())
}

/// Certificates as text.
fn pem(certificates: &[Vec<u8>]) -> String {
    use base64::Engine as _;
    const LINE: usize = 64;
    let mut text = String::new();
    for certificate in certificates {
        let encoded = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for (place, letter) in encoded.chars().enumerate() {
            if place > 0 && place % LINE == 0 {
                text.push('\n');
            }
            text.push(letter);
        }
        text.push_str("\n-----END CERTIFICATE-----\n");
    }
    text
}

/// The name of a member: a DNS label, and not too long for what is made of it.
pub(crate) fn cluster_name(text: &str) -> Result<String, String> {
    let is_inner = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if text.is_empty() || text.len() > LONGEST_NAME {
        return Err(format!("must have 1 to {LONGEST_NAME} characters"));
    }
    let valid = text.chars().all(|letter| is_inner(letter) || letter == '-')
        && text.starts_with(is_inner)
        && text.ends_with(is_inner);
    if valid {
        Ok(text.to_owned())
    } else {
        Err("must consist of lower case letters, digits and '-', with neither end a '-'".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels() {
        for name in ["a", "member-1", "0", &"a".repeat(48)] {
            assert_eq!(cluster_name(name), Ok(name.to_owned()));
        }
        for name in ["", "-a", "a-", "A", "a.b", "a_b", &"a".repeat(49)] {
            assert!(cluster_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn certificates_become_lines() {
        let text = pem(&[vec![1; 60], vec![2]]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7);
        assert_eq!((lines[1].len(), lines[2].len()), (64, 16));
        assert_eq!(lines[5], "Ag==");
    }
}
