//! Creation of a cluster's execution namespace, for the cluster controller and the binding controller.
//! `berth_api::names` derives its name.

use berth_api::names;
use berth_api::well_known::SYSTEM;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, PostParams};

/// Creates the execution namespace of a cluster.
///
/// # Errors
/// When the namespace already exists (code 409), or when the request fails.
pub(crate) async fn create_execution_namespace(
    client: Client,
    cluster: &str,
) -> Result<(), kube::Error> {
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(names::execution_namespace(cluster)),
            labels: Some([(SYSTEM.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(client);
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.map(drop)
}
