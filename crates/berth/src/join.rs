//! Joining: what makes a cluster a member, as karmadactl's `join` leaves it behind.
//!
//! In the member: the namespace `karmada-cluster` with the account `karmada-NAME`, a role with all rights and a
//! binding of the two. On the control plane: the Cluster, and in `karmada-cluster` the Secret NAME with the
//! account's `token` and the member's `caBundle`, which goes when the Cluster goes. Doing it again changes nothing
//! but the token.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_api::cluster::LocalSecretReference;
use berth_api::well_known::NAMESPACE_CLUSTER;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Who writes.
const MANAGER: &str = "berth-join";
/// As long as a token may last. It dies with its account before.
const TOKEN_SECONDS: i64 = 1 << 32;

/// Why a cluster did not become a member.
#[derive(Debug, thiserror::Error)]
#[error("cannot create {what}: {}", said(.source))]
pub struct JoinError {
    what: String,
    source: Box<kube::Error>,
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
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
    let name = cluster.name_any();
    let token = account(member, &name).await?;
    let id = id_of(member).await?;
    let mut wanted = Cluster {
        status: None,
        ..cluster.clone()
    };
    wanted.spec.api_endpoint = Some(endpoint.url.clone());
    wanted.spec.id = Some(id);
    wanted.spec.secret_ref = Some(LocalSecretReference {
        namespace: NAMESPACE_CLUSTER.to_owned(),
        name: name.clone(),
    });
    let what = format!("member cluster {name}");
    let joined = apply(&Api::all(control_plane.clone()), &name, &wanted, &what).await?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(NAMESPACE_CLUSTER.to_owned()),
            owner_references: Some(joined.owner_ref(&()).into_iter().collect()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([
            (
                "caBundle".to_owned(),
                ByteString(endpoint.ca_pem.clone().into_bytes()),
            ),
            ("token".to_owned(), ByteString(token.into_bytes())),
        ])),
        ..Secret::default()
    };
    let secrets = Api::namespaced(control_plane.clone(), NAMESPACE_CLUSTER);
    let what = format!("secret {NAMESPACE_CLUSTER}/{name}");
    apply(&secrets, &name, &secret, &what).await?;
    Ok(joined)
}

/// The account of the control plane in a member, with all rights; returns a token of it.
async fn account(member: &kube::Client, cluster: &str) -> Result<String, JoinError> {
    let name = format!("karmada-{cluster}");
    let role = format!("karmada-controller-manager:{name}");
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let what = |kind: &str, name: &str| format!("{kind} {name} in {cluster}");
    let namespace = Namespace {
        metadata: named(NAMESPACE_CLUSTER),
        ..Namespace::default()
    };
    apply(
        &Api::all(member.clone()),
        NAMESPACE_CLUSTER,
        &namespace,
        &what("namespace", NAMESPACE_CLUSTER),
    )
    .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(member.clone(), NAMESPACE_CLUSTER);
    let own = ServiceAccount {
        metadata: named(&name),
        ..ServiceAccount::default()
    };
    apply(&accounts, &name, &own, &what("service account", &name)).await?;
    let all = |list: &mut PolicyRule| list.verbs = vec!["*".to_owned()];
    let mut resources = PolicyRule {
        api_groups: Some(vec!["*".to_owned()]),
        resources: Some(vec!["*".to_owned()]),
        ..PolicyRule::default()
    };
    let mut paths = PolicyRule {
        non_resource_urls: Some(vec!["*".to_owned()]),
        ..PolicyRule::default()
    };
    all(&mut resources);
    all(&mut paths);
    let rights = ClusterRole {
        metadata: named(&role),
        rules: Some(vec![resources, paths]),
        ..ClusterRole::default()
    };
    apply(
        &Api::all(member.clone()),
        &role,
        &rights,
        &what("cluster role", &role),
    )
    .await?;
    let binding = ClusterRoleBinding {
        metadata: named(&role),
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
    apply(
        &Api::all(member.clone()),
        &role,
        &binding,
        &what("cluster role binding", &role),
    )
    .await?;
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let issued = accounts
        .create_token_request(&name, &PostParams::default(), &request)
        .await
        .map_err(failed(&what("a token of", &name)))?;
    Ok(issued
        .status
        .and_then(|status| status.token)
        .unwrap_or_default())
}

/// What tells a cluster from all others: the UID of its `kube-system`.
async fn id_of(member: &kube::Client) -> Result<String, JoinError> {
    let namespaces: Api<Namespace> = Api::all(member.clone());
    let system = namespaces
        .get("kube-system")
        .await
        .map_err(failed("the id of the cluster"))?;
    Ok(system.uid().unwrap_or_default())
}

async fn apply<K>(api: &Api<K>, name: &str, object: &K, what: &str) -> Result<K, JoinError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let parameters = PatchParams::apply(MANAGER).force();
    api.patch(name, &parameters, &Patch::Apply(object))
        .await
        .map_err(failed(what))
}

fn failed(what: &str) -> impl FnOnce(kube::Error) -> JoinError + use<'_> {
    move |source| JoinError {
        what: what.to_owned(),
        source: Box::new(source),
    }
}
