//! The objects that `berth up` creates at its start: CustomResourceDefinitions, namespaces, RBAC objects and Clusters.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::timestamp;
use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::{Namespace, Service, ServicePort, ServiceSpec};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// An error of creating an object.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// A CustomResourceDefinition cannot be installed.
    #[error("cannot install {name}: {reason}")]
    Definition {
        /// Name of the CustomResourceDefinition.
        name: String,
        /// Cause.
        reason: String,
    },
    /// The API server refuses an object.
    #[error("cannot create {what}: {}", api_error_message(.source))]
    Object {
        /// Kind and name of the object.
        what: String,
        /// Cause.
        source: Box<kube::Error>,
    },
}

/// Name of the ClusterRole and the ClusterRoleBinding that let the administrator use `clusters/proxy`. Karmada uses the
/// same name.
const PROXY_ADMIN: &str = "cluster-proxy-admin";
/// Maximum time until the API server serves the kind of a new CustomResourceDefinition.
const ESTABLISH_TIMEOUT: Duration = Duration::from_mins(1);

/// Installs Karmada's CustomResourceDefinitions and creates Karmada's namespaces.
///
/// # Errors
/// When the server refuses an object.
pub async fn definitions(client: &kube::Client) -> Result<(), BootstrapError> {
    for definition in berth_api::crds::all() {
        install(client, &definition).await?;
    }
    for namespace in [
        berth_api::well_known::NAMESPACE_SYSTEM,
        berth_api::well_known::NAMESPACE_CLUSTER,
    ] {
        create_namespace(client, namespace).await?;
    }
    Ok(())
}

/// Prepares an API server as a Karmada control plane: installs Karmada's CustomResourceDefinitions and namespaces, and
/// creates the Clusters `members`. Starts no server for a member.
///
/// # Errors
/// When the API server refuses an object.
pub async fn prepare(client: &kube::Client, members: &[Cluster]) -> Result<(), BootstrapError> {
    definitions(client).await?;
    for member in members {
        register(client, member).await?;
    }
    Ok(())
}

/// Allows the administrator to reach all members through `clusters/proxy`, as Karmada's installation does. The
/// ClusterRoleBinding must name the user: in a member, the impersonator account may impersonate only the users that
/// such a binding names.
///
/// # Errors
/// When the server refuses one of the two objects.
pub async fn proxy_admin(client: &kube::Client) -> Result<(), BootstrapError> {
    let metadata = || ObjectMeta {
        name: Some(PROXY_ADMIN.to_owned()),
        ..ObjectMeta::default()
    };
    let list = |item: &str| Some(vec![item.to_owned()]);
    let role = ClusterRole {
        metadata: metadata(),
        rules: Some(vec![PolicyRule {
            api_groups: list("cluster.karmada.io"),
            resources: list("clusters/proxy"),
            verbs: vec!["*".to_owned()],
            ..PolicyRule::default()
        }]),
        ..ClusterRole::default()
    };
    create(client, &format!("ClusterRole {PROXY_ADMIN}"), &role).await?;
    let binding = ClusterRoleBinding {
        metadata: metadata(),
        role_ref: RoleRef {
            api_group: Some(ClusterRole::GROUP.to_owned()),
            kind: ClusterRole::KIND.to_owned(),
            name: PROXY_ADMIN.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some(ClusterRole::GROUP.to_owned()),
            kind: "User".to_owned(),
            name: berth_apiserver::ADMIN.to_owned(),
            ..Subject::default()
        }]),
    };
    let what = format!("ClusterRoleBinding {PROXY_ADMIN}");
    create(client, &what, &binding).await
}

/// Applies a CustomResourceDefinition and waits until the server serves its kind.
async fn install(
    client: &kube::Client,
    definition: &CustomResourceDefinition,
) -> Result<(), BootstrapError> {
    let name = definition.metadata.name.clone().unwrap_or_default();
    let failed = |reason: String| BootstrapError::Definition {
        name: name.clone(),
        reason,
    };
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let apply = PatchParams::apply("berth").force();
    api.patch(&name, &apply, &Patch::Apply(definition))
        .await
        .map_err(|error| failed(api_error_message(&error)))?;
    let served = await_condition(api, &name, conditions::is_crd_established());
    match tokio::time::timeout(ESTABLISH_TIMEOUT, served).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("it was not established in time".to_owned())),
    }
}

async fn create_namespace(client: &kube::Client, name: &str) -> Result<(), BootstrapError> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    create(client, &format!("namespace {name}"), &namespace).await
}

/// Creates an object if it does not exist.
async fn create<K>(client: &kube::Client, what: &str, object: &K) -> Result<(), BootstrapError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let objects: Api<K> = Api::all(client.clone());
    match objects.create(&PostParams::default(), object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(source) => Err(BootstrapError::Object {
            what: what.to_owned(),
            source: Box::new(source),
        }),
    }
}

/// Creates or updates a Service of type `ExternalName` in the namespace `karmada-system`, through which programs on this
/// machine find a server. `port` is the port of the Service.
///
/// # Errors
/// When the server refuses the Service.
pub async fn external_service(
    client: &kube::Client,
    name: &str,
    port: u16,
    server: SocketAddr,
) -> Result<(), BootstrapError> {
    let number = |port: u16| IntOrString::Int(i32::from(port));
    let service = Service {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(ServiceSpec {
            type_: Some("ExternalName".to_owned()),
            external_name: Some(server.ip().to_string()),
            ports: Some(vec![ServicePort {
                name: Some("grpc".to_owned()),
                port: i32::from(port),
                target_port: Some(number(server.port())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    };
    let namespace = berth_api::well_known::NAMESPACE_SYSTEM;
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let created = services.create(&PostParams::default(), &service).await;
    let written = match created {
        // The Service is from an earlier start, in which the server had another port.
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            let patch = Patch::Merge(json!({ "spec": service.spec }));
            services.patch(name, &PatchParams::default(), &patch).await
        }
        created => created,
    };
    written.map_err(|source| BootstrapError::Object {
        what: format!("Service {namespace}/{name}"),
        source: Box::new(source),
    })?;
    Ok(())
}

/// Creates the Cluster of a member that has no server in this process. An existing Cluster stays unchanged.
///
/// # Errors
/// When the server refuses the Cluster or its status.
pub async fn register(client: &kube::Client, member: &Cluster) -> Result<(), BootstrapError> {
    let name = member.metadata.name.clone().unwrap_or_default();
    let refused = |source| BootstrapError::Object {
        what: format!("member cluster {name}"),
        source: Box::new(source),
    };
    let clusters: Api<Cluster> = Api::all(client.clone());
    let created = Cluster {
        status: None,
        ..member.clone()
    };
    match clusters.create(&PostParams::default(), &created).await {
        Ok(_) => write_status(client, member).await,
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        Err(source) => Err(refused(source)),
    }
}

/// Writes the status in the manifest `member` to the Cluster in the control plane. If the manifest has no conditions,
/// the member is reported as ready.
///
/// # Errors
/// When the server refuses the status.
pub async fn write_status(client: &kube::Client, member: &Cluster) -> Result<(), BootstrapError> {
    let name = member.metadata.name.clone().unwrap_or_default();
    let clusters: Api<Cluster> = Api::all(client.clone());
    let mut status = member.status.clone().unwrap_or_default();
    if status.conditions.is_empty() {
        status.conditions = vec![
            condition(
                "Ready",
                "ClusterReady",
                "cluster is healthy and ready to accept workloads",
            ),
            condition(
                "CompleteAPIEnablements",
                "Complete",
                "all API resources of the cluster are known",
            ),
        ];
    }
    let patch = Patch::Merge(json!({ "status": status }));
    clusters
        .patch_status(&name, &PatchParams::default(), &patch)
        .await
        .map_err(|source| BootstrapError::Object {
            what: format!("the status of member cluster {name}"),
            source: Box::new(source),
        })?;
    Ok(())
}

fn condition(kind: &str, reason: &str, message: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: Time(timestamp::now()),
        observed_generation: None,
    }
}
