//! The member's side: the accounts by which the control plane comes in.

use berth_api::well_known::{NAMESPACE_CLUSTER, SYSTEM, SYSTEM_VALUE};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, ObjectMeta};

use super::hand::{Hand, JoinError};
use super::ownership::{Ownership, Registrant};
use super::{named, token};

/// The namespace whose UID tells a cluster from all others.
const KUBE_SYSTEM: &str = "kube-system";
/// The account that acts for others; who it may act for is not for joining to say.
const IMPERSONATOR: &str = "karmada-impersonator";
/// What the accounts of control planes begin with.
const ACCOUNTS: &str = "karmada-";

/// Tokens of the two accounts.
pub(super) struct Tokens {
    pub(super) own: String,
    pub(super) impersonator: String,
}

/// What tells a cluster from all others.
pub(crate) async fn id_of(member: &Hand<'_>) -> Result<String, JoinError> {
    let namespaces: Api<Namespace> = Api::all(member.client.clone());
    let system = namespaces.get(KUBE_SYSTEM).await.map_err(|error| {
        JoinError::new(
            format!("read the id of the cluster in {}", member.place()),
            error,
        )
    })?;
    Ok(system.uid().unwrap_or_default())
}

fn account(name: &str) -> ServiceAccount {
    let mut account = ServiceAccount {
        metadata: named(name),
        ..ServiceAccount::default()
    };
    account.metadata.namespace = Some(NAMESPACE_CLUSTER.to_owned());
    account
}

fn account_of(cluster: &str) -> String {
    format!("{ACCOUNTS}{cluster}")
}

fn own_account_of(cluster: &str, registrant: &Registrant) -> String {
    format!("{}-{}", account_of(cluster), registrant.id())
}

fn role_of(account: &str) -> String {
    format!("karmada-controller-manager:{account}")
}

/// The account, role and binding of one name, as they are in a member.
struct Installed {
    account: String,
    objects: [Option<ObjectMeta>; 3],
}

impl Installed {
    async fn read(member: &Hand<'_>, account: &str) -> Result<Self, JoinError> {
        let client = || member.client.clone();
        let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
        let roles: Api<ClusterRole> = Api::all(client());
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        let role = role_of(account);
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

    /// Returns to whom all of them belong. A role without a label follows its account.
    fn ownership(&self, registrant: &Registrant) -> Ownership {
        let known = |object: &Option<ObjectMeta>| {
            let object = object.as_ref()?;
            Some(registrant.ownership(object))
        };
        let [account, ..] = &self.objects;
        if self
            .objects
            .iter()
            .any(|one| known(one) == Some(Ownership::Theirs))
        {
            Ownership::Theirs
        } else {
            known(account).unwrap_or(Ownership::Ours)
        }
    }

    /// Says that they stay, and why.
    fn stays(&self, member: &Hand<'_>, ownership: Ownership) {
        let what = format!("ServiceAccount {NAMESPACE_CLUSTER}/{}", self.account);
        member.tell(&what, &ownership.to_string());
    }

    async fn delete(&self, member: &Hand<'_>) -> Result<(), JoinError> {
        let client = || member.client.clone();
        let role = role_of(&self.account);
        let bindings: Api<ClusterRoleBinding> = Api::all(client());
        member.delete(&bindings, &role).await?;
        let roles: Api<ClusterRole> = Api::all(client());
        member.delete(&roles, &role).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
        member.delete(&accounts, &self.account).await?;
        token::forget(member, &self.account).await
    }
}

/// Returns the name of the account of a control plane: Karmada's, or where another control plane has that, one that ends
/// in the id of this one.
async fn free_account(
    member: &Hand<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<String, JoinError> {
    let name = account_of(cluster);
    let installed = Installed::read(member, &name).await?;
    match installed.ownership(registrant) {
        Ownership::Ours => Ok(name),
        taken => {
            installed.stays(member, taken);
            Ok(own_account_of(cluster, registrant))
        }
    }
}

/// Makes the accounts of the control plane in a member; returns tokens of them.
pub(super) async fn accounts(
    member: &Hand<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<Tokens, JoinError> {
    let client = || member.client.clone();
    let namespace = Namespace {
        metadata: named(NAMESPACE_CLUSTER),
        ..Namespace::default()
    };
    member.apply(&Api::all(client()), namespace).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
    member.apply(&accounts, account(IMPERSONATOR)).await?;
    let name = free_account(member, registrant, cluster).await?;
    let mut own = account(&name);
    own.metadata = registrant.mark(own.metadata);
    member.apply(&accounts, own).await?;
    let role = role_of(&name);
    let rights = ClusterRole {
        metadata: registrant.mark(named(&role)),
        rules: Some(rules()),
        ..ClusterRole::default()
    };
    member.apply(&Api::all(client()), rights).await?;
    let binding = ClusterRoleBinding {
        metadata: registrant.mark(named(&role)),
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
    Ok(Tokens {
        own: token::of(member, &name).await?,
        impersonator: token::of(member, IMPERSONATOR).await?,
    })
}

/// Everything that can be propagated, whatever its kind, and to read what is no resource.
fn rules() -> Vec<PolicyRule> {
    let all = || Some(vec!["*".to_owned()]);
    vec![
        PolicyRule {
            api_groups: all(),
            resources: all(),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        },
        PolicyRule {
            non_resource_urls: all(),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        },
    ]
}

/// Removes what [`accounts`] made. What other control planes use, or others made, stays.
pub(super) async fn forget(
    member: &Hand<'_>,
    registrant: &Registrant,
    cluster: &str,
) -> Result<(), JoinError> {
    let client = || member.client.clone();
    let mut deleted = vec![IMPERSONATOR.to_owned()];
    for name in [account_of(cluster), own_account_of(cluster, registrant)] {
        let installed = Installed::read(member, &name).await?;
        match installed.ownership(registrant) {
            _ if installed.is_absent() => {}
            Ownership::Ours => {
                installed.delete(member).await?;
                deleted.push(name);
            }
            used => installed.stays(member, used),
        }
    }
    let accounts: Api<ServiceAccount> = Api::namespaced(client(), NAMESPACE_CLUSTER);
    let left = accounts
        .list_metadata(&ListParams::default())
        .await
        .map_err(|error| JoinError::new(format!("list accounts in {}", member.place()), error))?;
    let others = left.items.iter().filter(|account| {
        let other = account.name_any();
        other.starts_with(ACCOUNTS) && !deleted.contains(&other)
    });
    if others.count() > 0 {
        let what = format!("Namespace {NAMESPACE_CLUSTER}");
        member.tell(&what, "stays: another control plane uses it");
        return Ok(());
    }
    member.delete(&accounts, IMPERSONATOR).await?;
    token::forget(member, IMPERSONATOR).await?;
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
