//! Setup of a control plane on an API server that already runs: a real kube-apiserver or an existing cluster.

use std::path::Path;

use berth_api::Cluster;
use berth_api::feature_gates::ControllerGates;
use berth_component_base::user_agent::Component;
use berth_controllers::detector;
use berth_controllers::monitor::Monitor;
use berth_controllers::propagation::{self, PropagationOptions};
use berth_controllers::recent_templates::RecentTemplates;
use berth_scheduler::Options;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::eventually::eventually;

/// Annotation of the Clusters that tests create. Later tests in the same cluster remove the Clusters with this
/// annotation.
const TEST_MEMBER: &str = "e2e.berth/member";

/// Returns a client with the credentials of a kubeconfig.
///
/// # Panics
/// If the kubeconfig cannot be used.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub async fn client_of(kubeconfig: &Path) -> Client {
    let target = berth_component_base::kube_client::Target {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..Default::default()
    };
    let config = berth_component_base::kube_client::config(&target)
        .await
        .unwrap();
    berth_component_base::kube_client::client(config, Component::CommandLine).unwrap()
}

/// Installs CustomResourceDefinitions, creates this number of members, and starts the controllers and a scheduler, as
/// `berth up` does.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub(crate) async fn bootstrap(client: &Client, members: usize, cancel: &CancellationToken) {
    let mut members = berth_up::fleet::generate(members);
    for member in &mut members {
        member
            .annotations_mut()
            .insert(TEST_MEMBER.to_owned(), String::new());
    }
    berth_up::bootstrap::prepare(client, &members)
        .await
        .unwrap();
    let options = detector::DetectorOptions::parse("", &["kube-.*".to_owned()]).unwrap();
    let templates = RecentTemplates::default();
    tokio::spawn(detector::run(
        client.clone(),
        options,
        templates.clone(),
        Monitor::default(),
        cancel.clone(),
    ));
    let propagation = PropagationOptions::default();
    tokio::spawn(propagation::run(
        client.clone(),
        propagation,
        templates,
        Monitor::default(),
        cancel.clone(),
    ));
    tokio::spawn(berth::controllers::controller_set::run_binding_controllers(
        client.clone(),
        ControllerGates::default(),
        Monitor::default(),
        cancel.clone(),
    ));
    let (client, cancel) = (client.clone(), cancel.clone());
    tokio::spawn(async move {
        let _ = berth_scheduler::run_with_client(Options::embedded(), client, cancel).await;
    });
}

/// Removes the members that an earlier test created, and waits until their Clusters are gone.
#[expect(clippy::unwrap_used, reason = "this is how a test fails")]
pub(crate) async fn remove_test_members(client: &Client) {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let Ok(members) = clusters.list(&ListParams::default()).await else {
        // Without the CustomResourceDefinition of Clusters, no earlier test created a member.
        return;
    };
    for member in members.items {
        if member.annotations().contains_key(TEST_MEMBER) {
            let name = member.name_any();
            let no_finalizers = serde_json::json!({ "metadata": { "finalizers": null } });
            let _ = clusters
                .patch(&name, &PatchParams::default(), &Patch::Merge(no_finalizers))
                .await;
            let _ = clusters.delete(&name, &DeleteParams::default()).await;
        }
    }
    eventually("removal of the members of the previous test", async || {
        let left = clusters.list(&ListParams::default()).await.unwrap().items;
        match left
            .iter()
            .find(|c| c.annotations().contains_key(TEST_MEMBER))
        {
            None => Ok(()),
            Some(member) => Err(format!("{} still exists", member.name_any())),
        }
    })
    .await;
}
