//! Registration of clusters as members, compatible with `karmadactl join`, and its reversal.
//!
//! Joining creates:
//!
//! - In the member: the namespace `karmada-cluster`, in it the account `karmada-NAME` with a role and a binding for all
//!   rights or for the chosen [`rights`], and the account `karmada-impersonator`, which gets its rights later.
//! - In the control plane: the Cluster, and in `karmada-cluster` the Secrets NAME (`token` of the first account and
//!   `caBundle` of the member) and NAME-impersonator (`token` of the second account). The Cluster owns both.
//!
//! A label of account, role and binding names the control plane that uses them. If another control plane uses these
//! names, the id of this control plane is appended. The user's own credentials are not stored. Joining again changes
//! only the tokens, and the rights if others are chosen.

mod applier;
pub mod command;
pub(crate) mod control_plane;
pub(crate) mod member;
mod ownership;
pub mod rights;
mod token;
pub mod unjoin;

use berth_api::Cluster;
use berth_api::well_known::{SYSTEM, SYSTEM_VALUE};
use berth_scheduler::connect::ConnectError;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

pub use self::applier::JoinError;
use self::applier::{Applier, Verbosity};
use self::control_plane::Credentials;
use self::ownership::Registrant;
use self::rights::Rights;

/// Describes a connection error so that it names the control plane, not the member.
fn control_plane_error(error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { .. } => error.to_string(),
        other => format!("the control plane: {other}"),
    }
}

/// Address of a member's API server, and its certificate authority.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// URL of the API server.
    pub url: String,
    /// Certificates of the authority, in PEM.
    pub ca_pem: String,
}

/// Registers a cluster as a member. `member` is a client with all rights in it.
///
/// # Errors
/// When one of the two servers refuses a request.
pub async fn join(
    control_plane: &kube::Client,
    member: &kube::Client,
    endpoint: &Endpoint,
    cluster: &Cluster,
) -> Result<Cluster, JoinError> {
    let control_plane = Applier::new(control_plane, "the control plane", Verbosity::Quiet);
    let member = Applier::new(member, &cluster.name_any(), Verbosity::Quiet);
    register(&control_plane, &member, endpoint, cluster, &Rights::All).await
}

/// Creates the accounts in the member, and registers it with the control plane.
async fn register(
    control_plane: &Applier<'_>,
    member: &Applier<'_>,
    endpoint: &Endpoint,
    cluster: &Cluster,
    rights: &Rights,
) -> Result<Cluster, JoinError> {
    let name = cluster.name_any();
    let id = member.cluster_id().await?;
    let registrant = Registrant::read(control_plane, &name).await?;
    let accounts = member::accounts(member, &registrant, &name, rights).await?;
    let credentials = Credentials {
        ca_pem: endpoint.ca_pem.clone(),
        token: accounts.own,
        impersonator: accounts.impersonator,
    };
    let mut desired = Cluster {
        status: None,
        ..cluster.clone()
    };
    desired.spec.api_endpoint = Some(endpoint.url.clone());
    desired.spec.id = Some(id);
    control_plane::register(control_plane, desired, credentials).await
}

/// Returns metadata with the label of objects that belong to Karmada.
fn system_metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(SYSTEM.to_owned(), SYSTEM_VALUE.to_owned())].into()),
        ..ObjectMeta::default()
    }
}
