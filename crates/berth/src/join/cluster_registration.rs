//! The registration of a member in the control plane: its Cluster, and the two Secrets with the credentials for the
//! member. The module `member_accounts` creates the objects in the member.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;
use berth_api::well_known::NAMESPACE_CLUSTER;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::Api;
use kube::{Resource as _, ResourceExt as _};

use super::applier::{Applier, JoinError};
use super::system_metadata;

/// Credentials for a member, which the control plane stores in Secrets.
pub(super) struct Credentials {
    /// Certificates of the member's authority, in PEM.
    pub(super) ca_pem: String,
    /// Token of the account `karmada-NAME`.
    pub(super) token: String,
    /// Token of the account `karmada-impersonator`.
    pub(super) impersonator: String,
}

/// Returns the name of the Secret with the token of `karmada-impersonator`.
fn impersonator_secret_name(cluster: &str) -> String {
    format!("{cluster}-impersonator")
}

/// Writes the Cluster and its Secrets.
pub(super) async fn write(
    control_plane: &Applier<'_>,
    mut cluster: Cluster,
    credentials: Credentials,
) -> Result<Cluster, JoinError> {
    let name = cluster.name_any();
    let reference = |name: String| LocalSecretReference {
        namespace: NAMESPACE_CLUSTER.to_owned(),
        name,
    };
    cluster.spec.secret_ref = Some(reference(name.clone()));
    cluster.spec.impersonator_secret_ref = Some(reference(impersonator_secret_name(&name)));
    let client = || control_plane.client.clone();
    let namespace = Namespace {
        metadata: system_metadata(NAMESPACE_CLUSTER),
        ..Namespace::default()
    };
    control_plane.apply(&Api::all(client()), namespace).await?;
    let applied = control_plane.apply(&Api::all(client()), cluster).await?;
    let secrets: Api<Secret> = Api::namespaced(client(), NAMESPACE_CLUSTER);
    let Credentials {
        ca_pem,
        token,
        impersonator,
    } = credentials;
    let own = [("caBundle", ca_pem), ("token", token)];
    for (name, data) in [
        (name.clone(), own.to_vec()),
        (
            impersonator_secret_name(&name),
            vec![("token", impersonator)],
        ),
    ] {
        let secret = secret(&applied, &name, data);
        control_plane.apply(&secrets, secret).await?;
    }
    Ok(applied)
}

/// Returns a Secret whose owner is the Cluster.
fn secret(cluster: &Cluster, name: &str, data: Vec<(&str, String)>) -> Secret {
    let mut metadata = system_metadata(name);
    metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    metadata.owner_references = Some(cluster.owner_ref(&()).into_iter().collect());
    let bytes = |text: String| ByteString(text.into_bytes());
    let data = data
        .into_iter()
        .map(|(key, text)| (key.to_owned(), bytes(text)));
    Secret {
        metadata,
        data: Some(data.collect::<BTreeMap<_, _>>()),
        ..Secret::default()
    }
}

/// Deletes the Secrets that a removed Cluster owns. A control plane without garbage collection would keep them.
pub(super) async fn delete_secrets(
    control_plane: &Applier<'_>,
    cluster: &Cluster,
) -> Result<(), JoinError> {
    let secrets: Api<Secret> = Api::namespaced(control_plane.client.clone(), NAMESPACE_CLUSTER);
    let name = cluster.name_any();
    for name in [name.clone(), impersonator_secret_name(&name)] {
        let stored = control_plane.metadata(&secrets, &name).await?;
        let is_owned = stored.is_some_and(|stored| {
            let owners = stored.owner_references.unwrap_or_default();
            owners
                .iter()
                .any(|owner| cluster.uid().is_some_and(|uid| uid == owner.uid))
        });
        if is_owned {
            control_plane.delete(&secrets, &name).await?;
        }
    }
    Ok(())
}
