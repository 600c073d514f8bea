//! Tests of `berth simulate --fail-on-unscheduled` with policies that select nothing, and of fleet files whose Clusters
//! have an incomplete status.

use berth::up::UpArgs;
use berth_test_requirements::needs;
use berth_test_transcripts::assert_snapshot;

use crate::live_diff::Plane;
use crate::program::{Files, app, deployment, policy, simulate, simulated};

const FLEET: &str = "-f examples/fleet.yaml -f -";
const STRICT: &str = "-f examples/fleet.yaml -f - --fail-on-unscheduled";

#[test]
fn a_policy_that_selects_nothing_is_a_failure_with_a_hint() {
    let web = deployment("web", 1);
    let own = policy("web", "{}");
    let changed = |from: &str, to: &str| format!("{web}---\n{}", own.replace(from, to));
    let second = |selector: &str| {
        changed(
            "  placement",
            &format!("  - {{apiVersion: apps/v1, {selector}}}\n  placement"),
        )
    };
    let kind = changed("kind: Deployment,", "kind: Deploymnt,");
    let group = changed(
        "apiVersion: apps/v1, kind: Deployment,",
        "apiVersion: example.com/v1, kind: Gadget,",
    );
    let labels = "labelSelector: {matchLabels: {app: api}}}";
    assert_snapshot!(simulated(&[
        ("an unknown kind", STRICT, &kind),
        ("without the flag", FLEET, &kind),
        (
            "a wrong group",
            STRICT,
            &changed("apiVersion: apps/v1,", "apiVersion: v1,")
        ),
        (
            "an unknown name",
            STRICT,
            &changed("name: web}", "name: wbe}")
        ),
        (
            "another namespace",
            STRICT,
            &changed("namespace: shop", "namespace: store")
        ),
        ("no such label", STRICT, &changed("name: web}", labels)),
        ("a kind of a user", STRICT, &group),
        (
            "a second selector may name an object that does not exist yet",
            STRICT,
            &second("kind: Deployment, name: later"),
        ),
        (
            "a second selector with an unknown kind",
            STRICT,
            &second("kind: Deploymnt"),
        ),
    ]));
}

#[test]
fn failures_are_counted_in_singular_and_plural() {
    let nowhere = "{clusterAffinity: {clusterNames: [nowhere]}}";
    let one = app("web", 1, nowhere);
    let two = format!("{one}---\n{}", app("api", 1, nowhere));
    let and_a_policy = format!("{two}---\n{}", policy("other", "{}"));
    assert_snapshot!(simulated(&[
        ("a binding", STRICT, &one),
        ("two bindings", STRICT, &two),
        ("two bindings and a policy", STRICT, &and_a_policy),
    ]));
}

#[test]
fn a_missing_fleet_is_refused() {
    assert_snapshot!(simulated(&[
        ("no fleet", "-f examples/nginx.yaml", ""),
        (
            "no fleet that can change",
            "-f examples/nginx.yaml --without member1",
            "",
        ),
        ("no fleet, as JSON", "-f examples/nginx.yaml -o json", ""),
    ]));
}

/// A fleet whose Clusters have an incomplete status: `east` is simulated, and `west` has a separate API server.
const SPARSE: &str = include_str!("manifests/sparse_fleet.yaml");

#[needs(kubectl)]
#[tokio::test(flavor = "multi_thread")]
async fn up_and_simulate_interpret_a_fleet_file_in_the_same_way() {
    let web = app("web", 2, "{}");
    let files = Files::new(&[("fleet.yaml", SPARSE), ("web.yaml", &web)]);
    let fleet = files.path("fleet.yaml");
    let output = simulate(&["-f", &fleet, "-f", &files.path("web.yaml"), "-o", "json"]).json();
    let clusters: Vec<_> = output[0]["clusters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cluster| cluster["name"].as_str().unwrap())
        .collect();
    assert_eq!(clusters, ["east"], "{output}");

    let started = Plane::start_with(UpArgs {
        fleet: Some(fleet.into()),
        ..UpArgs::default()
    });
    let plane = started.await;
    plane.apply(&web).await;
    plane
        .wait_for_binding("web-deployment", |binding| {
            let clusters = &binding.spec.clusters;
            clusters.len() == 1 && clusters.iter().all(|cluster| cluster.name == "east")
        })
        .await;
    plane.server.stop().await;
}
