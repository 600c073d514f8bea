//! The registration of a member in the control plane: its Cluster, and the two Secrets with the credentials for the
//! member. The module `member_accounts` creates the objects in the member.

use std::collections::BTreeMap;

use berth_api::cluster::LocalSecretReference;
use berth_api::well_known::{IMPERSONATOR_ACCOUNT, NAMESPACE_CLUSTER};
use berth_api::{Cluster, Work, names};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::Api;
use kube::{Resource as _, ResourceExt as _};

use super::applier::{Applier, JoinError, Mode};
use super::member_accounts::{IMPERSONATOR, Impersonator};
use super::{impersonator_secret_name, system_metadata};

/// Credentials for a member, which the control plane stores in Secrets.
pub(super) struct Credentials {
    /// Certificates of the member's authority, in PEM.
    pub(super) ca_pem: String,
    /// Token of the account `karmada-NAME`.
    pub(super) token: String,
    /// The impersonator, or `None` if the control plane may not impersonate users in the member.
    pub(super) impersonator: Option<Impersonator>,
}

/// Writes the Cluster and its Secrets. Writes the Secrets first, because the controllers connect to a new Cluster at once,
/// and consider a member whose credentials are absent as not ready.
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
    if let Some(impersonator) = &credentials.impersonator {
        let secret = impersonator_secret_name(&name);
        cluster.spec.impersonator_secret_ref = Some(reference(secret));
        if impersonator.account != IMPERSONATOR {
            let annotations = cluster.metadata.annotations.get_or_insert_default();
            let account = impersonator.account.clone();
            annotations.insert(IMPERSONATOR_ACCOUNT.to_owned(), account);
        }
    }
    let client = || control_plane.client.clone();
    let namespace = Namespace {
        metadata: system_metadata(NAMESPACE_CLUSTER),
        ..Namespace::default()
    };
    control_plane.apply(&Api::all(client()), namespace).await?;
    let clusters: Api<Cluster> = Api::all(client());
    let owner = control_plane.metadata(&clusters, &name).await?;
    let owner = owner.map(|metadata| Cluster {
        metadata,
        ..cluster.clone()
    });
    write_secrets(control_plane, &name, owner.as_ref(), &credentials).await?;
    let applied = control_plane.apply(&clusters, cluster).await?;
    if owner.is_none() && !control_plane.is_dry_run() {
        let quiet = Applier::new(
            control_plane.client,
            control_plane.server_name(),
            Mode::Quiet,
        );
        write_secrets(&quiet, &name, Some(&applied), &credentials).await?;
    }
    delete_outdated(control_plane, &name, &credentials).await?;
    Ok(applied)
}

/// Deletes what an earlier registration wrote for an impersonator that the control plane no longer uses: the Secret, and
/// the Works with the rights of the account.
async fn delete_outdated(
    control_plane: &Applier<'_>,
    name: &str,
    credentials: &Credentials,
) -> Result<(), JoinError> {
    let client = || control_plane.client.clone();
    let account = match &credentials.impersonator {
        None => {
            let secrets: Api<Secret> = Api::namespaced(client(), NAMESPACE_CLUSTER);
            control_plane
                .delete(&secrets, &impersonator_secret_name(name))
                .await?;
            None
        }
        Some(impersonator) => Some(impersonator.account.as_str()),
    };
    if account == Some(IMPERSONATOR) {
        return Ok(());
    }
    let works: Api<Work> = Api::namespaced(client(), &names::execution_namespace(name));
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        let work = names::work_name(kind, IMPERSONATOR, "");
        control_plane.delete(&works, &work).await?;
    }
    Ok(())
}

/// Writes the Secrets of the Cluster `name`, which owns them if it exists.
async fn write_secrets(
    control_plane: &Applier<'_>,
    name: &str,
    owner: Option<&Cluster>,
    credentials: &Credentials,
) -> Result<(), JoinError> {
    let secrets: Api<Secret> = Api::namespaced(control_plane.client.clone(), NAMESPACE_CLUSTER);
    let Credentials {
        ca_pem,
        token,
        impersonator,
    } = credentials;
    let own = vec![("caBundle", ca_pem.clone()), ("token", token.clone())];
    let impersonator = impersonator.as_ref().map(|impersonator| {
        let data = vec![("token", impersonator.token.clone())];
        (impersonator_secret_name(name), data)
    });
    for (name, data) in [(name.to_owned(), own)].into_iter().chain(impersonator) {
        let secret = secret(owner, &name, data);
        control_plane.apply(&secrets, secret).await?;
    }
    Ok(())
}

/// Returns a Secret whose owner is the Cluster, if there is one.
fn secret(owner: Option<&Cluster>, name: &str, data: Vec<(&str, String)>) -> Secret {
    let mut metadata = system_metadata(name);
    metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    let owner = owner.and_then(|cluster| cluster.owner_ref(&()));
    metadata.owner_references = owner.map(|owner| vec![owner]);
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
