//! Joining: what makes a cluster a member, as karmadactl's `join` leaves it behind, and what takes it apart again.
//!
//! In the member: the namespace `karmada-cluster` with the account `karmada-NAME`, a role with all rights on resources,
//! a binding of the two, and the account `karmada-impersonator`, which gets no right here. On the control plane: the
//! Cluster, and in `karmada-cluster` the Secrets NAME, with the first account's `token` and the member's `caBundle`, and
//! NAME-impersonator with the second one's `token`; both go when the Cluster goes. A label of account, role and binding
//! names the control plane that uses them; where another one has the names, they end in the id of this one. Nothing of the
//! way in that the joining person used is kept. Doing it again changes nothing but the tokens.

pub mod command;
pub(crate) mod control_plane;
mod hand;
pub(crate) mod member;
mod ownership;
mod token;
pub mod unjoin;

use berth_api::Cluster;
use berth_api::well_known::{SYSTEM, SYSTEM_VALUE};
use berth_scheduler::connect::ConnectError;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use self::control_plane::Credentials;
pub use self::hand::JoinError;
use self::hand::{Hand, Telling};
use self::ownership::Registrant;

/// Why the control plane is not reached: of the two servers that joining is about, it is this one.
fn unreached(error: &ConnectError) -> String {
    match error {
        ConnectError::Unreachable { .. } => error.to_string(),
        other => format!("the control plane: {other}"),
    }
}

/// Where the API of a member is, and how to know it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Its URL.
    pub url: String,
    /// The certificate of its authority, PEM.
    pub ca_pem: String,
}

/// Makes a cluster a member. `member` is a client with all rights in it.
///
/// # Errors
/// When one of the two servers refuses something.
pub async fn join(
    control_plane: &kube::Client,
    member: &kube::Client,
    endpoint: &Endpoint,
    cluster: &Cluster,
) -> Result<Cluster, JoinError> {
    let control_plane = Hand::new(control_plane, "the control plane", Telling::Nothing);
    let member = Hand::new(member, &cluster.name_any(), Telling::Nothing);
    between(&control_plane, &member, endpoint, cluster).await
}

/// Makes the two meet.
async fn between(
    control_plane: &Hand<'_>,
    member: &Hand<'_>,
    endpoint: &Endpoint,
    cluster: &Cluster,
) -> Result<Cluster, JoinError> {
    let name = cluster.name_any();
    let id = member::id_of(member).await?;
    let registrant = Registrant::read(control_plane, &name).await?;
    let accounts = member::accounts(member, &registrant, &name).await?;
    let credentials = Credentials {
        ca_pem: endpoint.ca_pem.clone(),
        token: accounts.own,
        impersonator: accounts.impersonator,
    };
    let mut wanted = Cluster {
        status: None,
        ..cluster.clone()
    };
    wanted.spec.api_endpoint = Some(endpoint.url.clone());
    wanted.spec.id = Some(id);
    control_plane::register(control_plane, wanted, credentials).await
}

/// Metadata of an object that joining makes, with the label by which Karmada knows its own.
fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(SYSTEM.to_owned(), SYSTEM_VALUE.to_owned())].into()),
        ..ObjectMeta::default()
    }
}
