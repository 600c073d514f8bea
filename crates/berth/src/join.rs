//! The commands `berth join` and `berth unjoin`, which register clusters as members and remove members. They are
//! compatible with `karmadactl join` and `karmadactl unjoin`.
//!
//! `berth join` creates these objects:
//!
//! - In the member, the namespace `karmada-cluster` with two ServiceAccounts. `karmada-NAME` gets a ClusterRole with
//!   all rights or with the chosen [`rights`]. `karmada-impersonator` gets its rights later, from the controller
//!   `unifiedAuth`.
//! - In the control plane, the Cluster and two Secrets in the namespace `karmada-cluster`. The Secret NAME contains the
//!   `token` of the first account and the `caBundle` of the member. The Secret NAME-impersonator contains the `token`
//!   of the second account. The Cluster owns both Secrets.
//!
//! The accounts, the role and the role binding have a label with the id of the control plane. If another control plane
//! already uses an account with this name, the id of the joining control plane is appended to the name. With limited
//! rights, there is no impersonator. The credentials of the user are not stored. A second `berth join` replaces the
//! tokens, and also the rights if its flags select other rights.

mod applier;
mod cluster_registration;
pub mod command;
mod field_changes;
mod member_accounts;
mod ownership;
pub mod rights;
mod served_resources;
mod token;
pub mod unjoin;

use berth_api::Cluster;
use berth_api::well_known::{SYSTEM, SYSTEM_VALUE};
use berth_component_base::kube_client::ConnectError;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

pub use self::applier::JoinError;
use self::applier::{Applier, Mode};
use self::cluster_registration::Credentials;
use self::ownership::Registrant;
use self::rights::Rights;

/// Returns the message of a connection error. The message says that the error concerns the control plane.
fn control_plane_error(error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { .. } => error.to_string(),
        other => format!("the control plane: {other}"),
    }
}

/// The address of a member's API server, and its certificate authority.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// URL of the API server.
    pub url: String,
    /// Certificates of the authority, in PEM.
    pub ca_pem: String,
}

/// Registers a cluster as a member, and prints nothing. `member` is a client with all rights in the cluster.
///
/// # Errors
/// Fails if the control plane or the member refuses a request.
pub async fn join(
    control_plane: &kube::Client,
    member: &kube::Client,
    endpoint: &Endpoint,
    cluster: &Cluster,
) -> Result<Cluster, JoinError> {
    let control_plane = Applier::new(control_plane, "the control plane", Mode::Quiet);
    let member = Applier::new(member, &cluster.name_any(), Mode::Quiet);
    register(&control_plane, &member, endpoint, cluster, &Rights::All).await
}

/// Creates the accounts in the member, and registers the member with the control plane.
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
    let tokens = member_accounts::create(member, &registrant, &name, rights).await?;
    let credentials = Credentials {
        ca_pem: endpoint.ca_pem.clone(),
        token: tokens.own,
        impersonator: tokens.impersonator,
    };
    let mut desired = Cluster {
        status: None,
        ..cluster.clone()
    };
    desired.spec.api_endpoint = Some(endpoint.url.clone());
    desired.spec.id = Some(id);
    cluster_registration::write(control_plane, desired, credentials).await
}

/// Returns the name of the Secret with the token of the impersonator.
fn impersonator_secret_name(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// Returns metadata with the label `SYSTEM`, which marks the objects of Karmada.
fn system_metadata(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(SYSTEM.to_owned(), SYSTEM_VALUE.to_owned())].into()),
        ..ObjectMeta::default()
    }
}
