//! End-to-end tests of filters and scores that are written in CEL, with the configuration in `examples/expression`, and
//! of the ClusterScores that they read.

#![expect(clippy::unwrap_used, reason = "test code")]

mod prometheus;
mod scores;

use std::path::Path;

use berth_api::well_known::CONDITION_SCHEDULED;
use berth_api::{Cluster, ResourceBinding};
use berth_e2e::{BareControlPlane, RunningScheduler, eventually, sample};
use berth_scheduler::Options;
use berth_scheduler::config::{DeclaredProfiles, Document, ProfileFlags, SchedulerConfiguration};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Returns the options of a scheduler with this configuration.
fn options(text: &str) -> Options {
    let document = Document::read("config.yaml", text).unwrap();
    let configuration: SchedulerConfiguration = document.parse().unwrap();
    let flags = ProfileFlags {
        scheduler_name: None,
        plugins: None,
    };
    Options {
        declared: DeclaredProfiles::from_document(document, configuration, flags).unwrap(),
        ..Options::embedded()
    }
}

/// Reads the example configuration.
fn example() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(folder.join("../examples/expression/config.yaml")).unwrap()
}

fn cluster(name: &str, labels: Value, carbon: &str) -> Cluster {
    let metadata = json!({ "labels": labels, "annotations": { "carbon": carbon } });
    sample::cluster(name, json!({ "metadata": metadata }))
}

/// Returns a binding of a Deployment in the namespace of a team, with the fields that the detector writes. Its placement
/// selects one cluster, which is the cluster with the best score.
fn binding(name: &str, team: &str) -> ResourceBinding {
    let spec = json!({ "resource": { "namespace": team }, "placement": sample::on_best_cluster() });
    sample::binding(
        name,
        json!({ "metadata": { "namespace": team }, "spec": spec }),
    )
}

/// Waits until the binding of a team, which has the name of the team, has the condition `Scheduled`. Returns the clusters
/// of the binding, or the message of the condition if scheduling failed.
async fn outcome(bare: &BareControlPlane, name: &str) -> Result<String, String> {
    let api = bare.bindings(name);
    eventually(&format!("the condition of {name}"), async || {
        let binding = api.get(name).await.map_err(|error| error.to_string())?;
        let conditions = binding.status.unwrap_or_default().conditions;
        let mut conditions = conditions.into_iter();
        let scheduled = conditions
            .find(|condition| condition.type_ == CONDITION_SCHEDULED)
            .ok_or("it has none")?;
        let names: Vec<_> = binding
            .spec
            .clusters
            .into_iter()
            .map(|cluster| cluster.name)
            .collect();
        Ok::<_, String>(match scheduled.status.as_str() {
            "True" => Ok(names.join(",")),
            _ => Err(scheduled.message),
        })
    })
    .await
}

/// Checks that each binding is scheduled to the best cluster of its team, and that a binding without a matching cluster
/// is scheduled once a cluster gets the label of its team.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_configuration_filters_scores_and_follows_cluster_changes() {
    let bare = BareControlPlane::start(&[
        cluster("m1", json!({ "team": "red", "cost-tier": "high" }), "10"),
        cluster("m2", json!({ "team": "red", "cost-tier": "low" }), "90"),
        cluster("m3", json!({ "team": "blue", "cost-tier": "high" }), "50"),
        cluster("m4", json!({}), "0"),
    ])
    .await;
    bare.add_namespaces(&["red", "blue", "green"].map(str::to_owned))
        .await;
    let scheduler = RunningScheduler::start(options(&example()), bare.client.clone());
    // The scores of the binding `red` are 90 for m1, and 2·100 + 10 for m2. The filter rejects the other two clusters.
    bare.bind(&binding("red", "red")).await;
    assert_eq!(outcome(&bare, "red").await, Ok("m2".to_owned()));
    bare.bind(&binding("blue", "blue")).await;
    assert_eq!(outcome(&bare, "blue").await, Ok("m3".to_owned()));
    bare.bind(&binding("green", "green")).await;
    let message = outcome(&bare, "green").await.unwrap_err();
    assert!(
        message.contains("3 cluster(s) belonged to another team"),
        "{message}"
    );
    assert!(message.contains("failed: no such key: "), "{message}");
    // A new label of a cluster requeues the unschedulable binding.
    let clusters: Api<Cluster> = Api::all(bare.client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "team": "green" } } }));
    clusters
        .patch("m4", &PatchParams::default(), &label)
        .await
        .unwrap();
    eventually("green to be scheduled to m4", async || {
        match outcome(&bare, "green").await {
            Ok(cluster) if cluster == "m4" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    scheduler.stop().await.unwrap();
    bare.stop().await;
}
