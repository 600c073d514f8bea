//! The objects that joining creates in the member: the ServiceAccounts that the control plane uses, and their rights.
//! The module `cluster_registration` creates the objects in the control plane.

use berth_api::well_known::{NAMESPACE_CLUSTER, SYSTEM, SYSTEM_VALUE};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, ObjectMeta};

use super::applier::{Applier, JoinError};
use super::ownership::{Ownership, Registrant};
use super::rights::Rights;
use super::{system_metadata, token};

/// Account with which the control plane impersonates users. The controller `unifiedAuth` grants its rights.
const IMPERSONATOR: &str = "karmada-impersonator";
/// Prefix of the names of the accounts that control planes use.
const ACCOUNT_PREFIX: &str = "karmada-";

/// Tokens of the two accounts.
pub(super) struct AccountTokens {
    /// Token of the account of this control plane.
    pub(super) own: String,
    /// Token of [`IMPERSONATOR`].
    pub(super) impersonator: String,
}

fn account(name: &str) -> ServiceAccount {
    let mut account = ServiceAccount {
        metadata: system_metadata(name),
        ..ServiceAccount::default()
    };
    account.metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    account
}

fn account_name(cluster: &str) -> String {
    format!("{ACCOUNT_PREFIX}{cluster}")
}

fn own_account_name(cluster: &str, registrant: &Registrant) -> String {
    format!("{}-{}", account_name(cluster), registrant.id())
}

fn role_name(account: &str) -> String {
    format!("karmada-controller-manager:{account}")
}

/// An account in a member, with its ClusterRole and ClusterRoleBinding. Each of the three objects may be missing.
struct AccountObjects {
    account: String,
    objects: [Option<ObjectMeta>; 3],
}

impl AccountObjects {
    async fn read(member: &Applier<'_>, account: &str) -> Result<Self, JoinError> {
        let client = || member.client.clone();
        let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
        let roles: Api<ClusterRole> = Api::all(client());
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        let role = role_name(account);
        Ok(Self {
            account: account.to_owned(),
            objects: [
                member.metadata(&accounts, account).await?,
                member.metadata(&roles, &role).await?,
                member.metadata(&bindings, &role).await?,
            ],
        })
    }

    fn is_absent(&self) -> bool {
        self.objects.iter().all(Option::is_none)
    }

    /// Returns the owner of the three objects. The account determines the owner, unless an object has the label of
    /// another control plane.
    fn ownership(&self, registrant: &Registrant) -> Ownership {
        let owner_of = |object: &Option<ObjectMeta>| {
            let object = object.as_ref()?;
            Some(registrant.ownership(object))
        };
        let [account, ..] = &self.objects;
        if self
            .objects
            .iter()
            .any(|one| owner_of(one) == Some(Ownership::Theirs))
        {
            Ownership::Theirs
        } else {
            owner_of(account).unwrap_or(Ownership::Ours)
        }
    }

    /// Prints that the objects are kept, and the reason.
    fn report_kept(&self, member: &Applier<'_>, ownership: Ownership) {
        let what = format!("ServiceAccount {NAMESPACE_CLUSTER}/{}", self.account);
        member.report(&what, &ownership.to_string());
    }

    async fn delete(&self, member: &Applier<'_>) -> Result<(), JoinError> {
        let client = || member.client.clone();
        let role = role_name(&self.account);
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        member.delete(&bindings, &role).await?;
        let roles: Api<ClusterRole> = Api::all(client());
        member.delete(&roles, &role).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
        member.delete(&accounts, &self.account).await?;
        token::delete_secret(member, &self.account).await
    }
}

/// Returns the name for the account of this control plane, which is Karmada's `karmada-NAME`. If another control plane
/// may use an account with this name, the id of this control plane is appended.
async fn unused_account_name(
    member: &Applier<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<String, JoinError> {
    let name = account_name(cluster);
    let found = AccountObjects::read(member, &name).await?;
    match found.ownership(registrant) {
        Ownership::Ours => Ok(name),
        other => {
            found.report_kept(member, other);
            Ok(own_account_name(cluster, registrant))
        }
    }
}

/// Creates the accounts of the control plane in a member, and returns their tokens.
pub(super) async fn create(
    member: &Applier<'_>,
    registrant: &Registrant,
    cluster: &str,
    rights: &Rights,
) -> Result<AccountTokens, JoinError> {
    let client = || member.client.clone();
    let namespace = Namespace {
        metadata: system_metadata(NAMESPACE_CLUSTER),
        ..Namespace::default()
    };
    member.apply(&Api::all(client()), namespace).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
    member.apply(&accounts, account(IMPERSONATOR)).await?;
    let name = unused_account_name(member, registrant, cluster).await?;
    let mut own = account(&name);
    own.metadata = registrant.mark(own.metadata);
    member.apply(&accounts, own).await?;
    let role = role_name(&name);
    let cluster_role = ClusterRole {
        metadata: registrant.mark(system_metadata(&role)),
        rules: Some(rights.rules()),
        ..ClusterRole::default()
    };
    member.apply(&Api::all(client()), cluster_role).await?;
    let binding = ClusterRoleBinding {
        metadata: registrant.mark(system_metadata(&role)),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.clone(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: name.clone(),
            namespace: Some(NAMESPACE_CLUSTER.to_owned()),
            ..Subject::default()
        }]),
    };
    member.apply(&Api::all(client()), binding).await?;
    Ok(AccountTokens {
        own: token::issue(member, &name).await?,
        impersonator: token::issue(member, IMPERSONATOR).await?,
    })
}

/// Deletes the objects that [`create`] created. The namespace and `karmada-impersonator` are kept if the member has
/// accounts of other control planes.
pub(super) async fn delete(
    member: &Applier<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<(), JoinError> {
    let client = || member.client.clone();
    let mut deleted = vec![IMPERSONATOR.to_owned()];
    for name in [account_name(cluster), own_account_name(cluster, registrant)] {
        let found = AccountObjects::read(member, &name).await?;
        match found.ownership(registrant) {
            _ if found.is_absent() => {}
            Ownership::Ours => {
                found.delete(member).await?;
                deleted.push(name);
            }
            other => found.report_kept(member, other),
        }
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
    let left = accounts
        .list_metadata(&ListParams::default())
        .await
        .map_err(|error| {
            JoinError::new(format!("list accounts in {}", member.server_name()), error)
        })?;
    let others = left.items.iter().filter(|account| {
        let other = account.name_any();
        other.starts_with(ACCOUNT_PREFIX) && !deleted.contains(&other)
    });
    if others.count() > 0 {
        let what = format!("Namespace {NAMESPACE_CLUSTER}");
        member.report(&what, "stays: another control plane uses it");
        return Ok(());
    }
    member.delete(&accounts, IMPERSONATOR).await?;
    token::delete_secret(member, IMPERSONATOR).await?;
    let namespaces: Api<Namespace> = Api::all(client());
    let namespace = member.metadata(&namespaces, NAMESPACE_CLUSTER).await?;
    let labels = namespace.and_then(|namespace| namespace.labels);
    if labels.is_some_and(|labels| {
        labels
            .get(SYSTEM)
            .is_some_and(|label| label == SYSTEM_VALUE)
    }) {
        member.delete(&namespaces, NAMESPACE_CLUSTER).await?;
    }
    Ok(())
}
