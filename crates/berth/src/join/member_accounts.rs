//! The objects that joining creates in the member: the ServiceAccounts that the control plane uses, and their rights.
//! The module `cluster_registration` creates the objects in the control plane.

use berth_api::well_known::{CONTROL_PLANE, NAMESPACE_CLUSTER, SYSTEM, SYSTEM_VALUE};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleRef, Subject};
use kube::ResourceExt;
use kube::api::{Api, ListParams, ObjectMeta};
use kube::core::PartialObjectMeta;

use super::applier::{Applier, JoinError};
use super::ownership::{Ownership, Registrant};
use super::rights::Rights;
use super::{system_metadata, token};

/// Account with which the control plane impersonates users. The controller `unifiedAuth` grants its rights.
pub(super) const IMPERSONATOR: &str = "karmada-impersonator";
/// Prefix of the names of the accounts that control planes use.
const ACCOUNT_PREFIX: &str = "karmada-";

/// Tokens of the accounts.
pub(super) struct AccountTokens {
    /// Token of the account of this control plane.
    pub(super) own: String,
    /// The impersonator, or `None` if the rights are limited.
    pub(super) impersonator: Option<Impersonator>,
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

/// An account with which the control plane impersonates users in a member.
pub(super) struct Impersonator {
    /// Name of the account.
    pub(super) account: String,
    /// Token of the account.
    pub(super) token: String,
}

/// Returns the name of the impersonator of a control plane that cannot use [`IMPERSONATOR`].
fn own_impersonator(control_plane: &str) -> String {
    format!("{IMPERSONATOR}-{control_plane}")
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

/// Returns the name for the impersonator of this control plane, which is Karmada's `karmada-impersonator`. If another
/// control plane may use this account, the id of this control plane is appended. Otherwise the users of one control plane
/// would get the rights that the other one grants, and both would overwrite the ClusterRole of the account.
async fn unused_impersonator_name(
    member: &Applier<'_>,
    registrant: &Registrant,
) -> Result<String, JoinError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(member.client.clone(), NAMESPACE_CLUSTER);
    let found = member.metadata(&accounts, IMPERSONATOR).await?;
    let ownership = found.map_or(Ownership::Ours, |found| registrant.ownership(&found));
    if ownership == Ownership::Ours {
        return Ok(IMPERSONATOR.to_owned());
    }
    let what = format!("ServiceAccount {NAMESPACE_CLUSTER}/{IMPERSONATOR}");
    member.report(&what, &ownership.to_string());
    Ok(own_impersonator(registrant.id()))
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
    let impersonator = match rights {
        Rights::All => Some(unused_impersonator_name(member, registrant).await?),
        Rights::Resources(_) => None,
    };
    if let Some(name) = &impersonator {
        let mut impersonator = account(name);
        impersonator.metadata = registrant.mark(impersonator.metadata);
        member.apply(&accounts, impersonator).await?;
    }
    let name = unused_account_name(member, registrant, cluster).await?;
    let mut own = account(&name);
    own.metadata = registrant.mark(own.metadata);
    member.apply(&accounts, own).await?;
    let role = role_name(&name);
    let cluster_role = ClusterRole {
        metadata: registrant.mark(system_metadata(&role)),
        rules: Some(rights.rules(&[IMPERSONATOR, &own_impersonator(registrant.id())])),
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
    let own = token::issue(member, &name).await?;
    let impersonator = match impersonator {
        Some(account) => Some(Impersonator {
            token: token::issue(member, &account).await?,
            account,
        }),
        None => None,
    };
    Ok(AccountTokens { own, impersonator })
}

/// Deletes the objects that [`create`] created. The namespace is kept if the member has accounts of other control planes,
/// and `karmada-impersonator` if one of these control planes may use it.
pub(super) async fn delete(
    member: &Applier<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<(), JoinError> {
    let client = || member.client.clone();
    let own_impersonator = own_impersonator(registrant.id());
    let mut deleted = vec![IMPERSONATOR.to_owned(), own_impersonator.clone()];
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
    let mut others = left.items;
    others.retain(|account| {
        let other = account.name_any();
        other.starts_with(ACCOUNT_PREFIX) && !deleted.contains(&other)
    });
    delete_impersonator(member, &accounts, &own_impersonator).await?;
    let names: Vec<String> = others.iter().map(ResourceExt::name_any).collect();
    // An account without the label may belong to a control plane that uses the common impersonator.
    let uses_common = |account: &PartialObjectMeta<ServiceAccount>| {
        let owner = account.labels().get(CONTROL_PLANE);
        owner.is_none_or(|owner| !names.contains(&self::own_impersonator(owner)))
    };
    if !others.iter().any(uses_common) {
        delete_impersonator(member, &accounts, IMPERSONATOR).await?;
    }
    if !others.is_empty() {
        let what = format!("Namespace {NAMESPACE_CLUSTER}");
        member.report(&what, "stays: another control plane uses it");
        return Ok(());
    }
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

async fn delete_impersonator(
    member: &Applier<'_>,
    accounts: &Api<ServiceAccount>,
    name: &str,
) -> Result<(), JoinError> {
    member.delete(accounts, name).await?;
    token::delete_secret(member, name).await
}
