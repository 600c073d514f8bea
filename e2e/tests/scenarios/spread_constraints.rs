//! Scenarios with spread constraints, and with cluster affinities by field and by name.

use berth_api::{PropagationPolicy, ResourceBinding};
use berth_e2e::{Plane, Setup};
use serde_json::{Value, json};

use crate::assertions::{is_settled, targets, wait_for_member_changes, wait_until_placed};
use crate::manifests::{
    config_map, deployment, job, merged, on_clusters, on_labelled_clusters, policy, spread,
};

/// A spread constraint requests one or two of three clusters, for kinds with and without replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requested_number_of_clusters_is_used() {
    let plane = Plane::start().await;
    let labels = json!({ "metadata": { "labels": { "location": "CHN" } } });
    for member in ["member1", "member2", "member3"] {
        let clusters = plane.all::<berth_api::Cluster>();
        plane.edit(&clusters, member, labels.clone()).await;
    }
    wait_for_member_changes(&plane).await;
    let templates = [
        deployment("nginx", 3),
        job("pi", 3, 3),
        config_map("settings"),
    ];
    for (index, template) in templates.into_iter().enumerate() {
        let count = i32::try_from(index % 2 + 1).unwrap();
        let name = template["metadata"]["name"].as_str().unwrap().to_owned();
        let kind = template["kind"].as_str().unwrap().to_lowercase();
        let placement = merged(
            on_labelled_clusters("location", "CHN"),
            spread(count, count),
        );
        plane
            .create_all([policy(&name, &[&template], placement), template])
            .await;
        let bindings = plane.api::<ResourceBinding>();
        let binding = plane
            .until(&bindings, &format!("{name}-{kind}"), "placed", is_settled)
            .await;
        assert_eq!(binding.spec.clusters.len(), index % 2 + 1, "{name}");
    }
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_member_with_most_capacity_is_chosen_and_kept() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 3);
    plane
        .create_all([policy("p", &[&nginx], spread(1, 1)), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member3", 3)]).await;
    // The scheduler prefers the current member to a member with more capacity.
    plane
        .report("member1", crate::manifests::free_cpu(4000))
        .await;
    wait_for_member_changes(&plane).await;
    let replicas = json!({ "spec": { "replicas": 4 } });
    let deployments = plane.api::<k8s_openapi::api::apps::v1::Deployment>();
    plane.edit(&deployments, "nginx", replicas).await;
    wait_until_placed(&plane, "nginx-deployment", &[("member3", 4)]).await;
    plane.stop().await;
}

fn by_region(regions: i32) -> Value {
    merged(
        on_clusters(&["member1", "member2"]),
        json!({ "spreadConstraints": [
            { "spreadByField": "region", "minGroups": regions, "maxGroups": regions },
            { "spreadByField": "cluster", "minGroups": 1, "maxGroups": 1 },
        ] }),
    )
}

/// The policy requests two regions first, then one region.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_requested_number_of_regions_is_used() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 3);
    plane
        .create_all([policy("p", &[&nginx], by_region(2)), nginx])
        .await;
    wait_until_placed(
        &plane,
        "nginx-deployment",
        &[("member1", 3), ("member2", 3)],
    )
    .await;
    let one = json!({ "spec": { "placement": by_region(1) } });
    plane
        .edit(&plane.api::<PropagationPolicy>(), "p", one)
        .await;
    let binding = plane
        .until(
            &plane.api::<ResourceBinding>(),
            "nginx-deployment",
            "in one region",
            |binding| is_settled(binding) && binding.spec.clusters.len() == 1,
        )
        .await;
    assert_eq!(targets(&binding)[0].1, 3);
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_selected_by_provider_region_and_zone() {
    let plane = Plane::start_with(Setup { members: 6 }).await;
    // The first three members have the provider `aws`, and the other members `gcp`. The regions repeat after three
    // members.
    let cases = [
        (
            "provider-and-region",
            json!([
                { "key": "provider", "operator": "In", "values": ["gcp"] },
                { "key": "region", "operator": "NotIn", "values": ["eu-west", "us-east"] },
            ]),
            vec![("member6", 1)],
        ),
        (
            "region",
            json!([{ "key": "region", "operator": "In", "values": ["us-east"] }]),
            vec![("member2", 1), ("member5", 1)],
        ),
        (
            "zone",
            json!([{ "key": "zone", "operator": "In", "values": ["eu-west-1b", "eu-west-4a"] }]),
            vec![("member1", 1), ("member4", 1)],
        ),
    ];
    for (name, expressions, wanted) in cases {
        let template = deployment(name, 1);
        let placement =
            json!({ "clusterAffinity": { "fieldSelector": { "matchExpressions": expressions } } });
        plane
            .create_all([policy(name, &[&template], placement), template])
            .await;
        wait_until_placed(&plane, &format!("{name}-deployment"), &wanted).await;
    }
    plane.stop().await;
}

/// The policy names the member in `clusterNames` and in `exclude`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_excluded_member_is_never_used() {
    let plane = Plane::start().await;
    let nginx = deployment("nginx", 1);
    let placement = json!({ "clusterAffinity": {
        "clusterNames": ["member1", "member2"], "exclude": ["member2"] } });
    plane
        .create_all([policy("p", &[&nginx], placement), nginx])
        .await;
    wait_until_placed(&plane, "nginx-deployment", &[("member1", 1)]).await;
    plane.stop().await;
}
