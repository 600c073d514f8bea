//! Tests of `berth simulate --fail-on-unscheduled` with policies that select nothing, and of fleet files whose Clusters
//! have an incomplete status.

use berth::up::UpArgs;
use berth_test_requirements::needs;

use crate::live_diff::Plane;
use crate::program::{Files, app, deployment, policy, simulate, simulate_with_input};

const STRICT: [&str; 5] = [
    "-f",
    "examples/fleet.yaml",
    "-f",
    "-",
    "--fail-on-unscheduled",
];

#[test]
fn a_policy_that_selects_nothing_is_a_failure_with_a_hint() {
    let web = deployment("web", 1);
    let own = policy("web", "{}");
    for (policy, note) in [
        (
            own.replace("kind: Deployment,", "kind: Deploymnt,"),
            "policy(shop/web): spec.resourceSelectors[0] selects nothing: there is no Deploymnt in apps/v1; did you mean Deployment?",
        ),
        (
            own.replace("apiVersion: apps/v1,", "apiVersion: v1,"),
            "policy(shop/web): spec.resourceSelectors[0] selects nothing: there is no Deployment in v1; Deployment is served in apps/v1",
        ),
        (
            own.replace("name: web}", "name: wbe}"),
            "policy(shop/web) selects nothing: there is no Deployment wbe; did you mean web?",
        ),
        (
            own.replace("namespace: shop", "namespace: store"),
            "policy(store/web) selects nothing: there is no Deployment web in its namespace, but there is shop/web",
        ),
        (
            own.replace("name: web}", "labelSelector: {matchLabels: {app: api}}}"),
            "policy(shop/web) selects nothing",
        ),
        (
            own.replace(
                "apiVersion: apps/v1, kind: Deployment,",
                "apiVersion: example.com/v1, kind: Gadget,",
            ),
            "policy(shop/web) selects nothing",
        ),
    ] {
        let text = format!("{web}---\n{policy}");
        let output = simulate_with_input(&STRICT, &text);
        assert_eq!(output.code, 1, "{note}: {output:?}");
        assert!(
            output.out.contains(&format!("note: {note}\n")),
            "{note}\n{}",
            output.out
        );
        assert_eq!(output.err, "error: 1 policy or selector selects nothing\n");
        // Without the flag, the exit code is 0.
        simulate_with_input(&STRICT[..4], &text).out();
    }
    // If a policy selects a template with one selector, its other selectors may name objects that do not exist. A
    // selector with a kind that does not exist still fails.
    let two = "  - {apiVersion: apps/v1, kind: Deployment, name: later}\n  placement";
    let later = own.replace("  placement", two);
    simulate_with_input(&STRICT, &format!("{web}---\n{later}")).out();
    let wrong = later.replace("kind: Deployment, name: later", "kind: Deploymnt");
    let output = simulate_with_input(&STRICT, &format!("{web}---\n{wrong}"));
    assert_eq!(output.code, 1, "{output:?}");
    assert!(
        output.out.contains("spec.resourceSelectors[1] selects"),
        "{output:?}"
    );
}

#[test]
fn failures_are_counted_in_singular_and_plural() {
    let nowhere = "{clusterAffinity: {clusterNames: [nowhere]}}";
    let one = app("web", 1, nowhere);
    let two = format!("{one}---\n{}", app("api", 1, nowhere));
    let and_a_policy = format!("{two}---\n{}", policy("other", "{}"));
    for (text, error) in [
        (one, "error: 1 binding finds no place\n"),
        (two, "error: 2 bindings find no place\n"),
        (
            and_a_policy,
            "error: 2 bindings find no place, 1 policy or selector selects nothing\n",
        ),
    ] {
        let output = simulate_with_input(&STRICT, &text);
        assert_eq!((output.code, output.err.as_str()), (1, error));
    }
}

#[test]
fn a_missing_fleet_is_refused() {
    for flags in [&[][..], &["--without", "member1"], &["-o", "json"]] {
        let output = simulate(&[&["-f", "examples/nginx.yaml"], flags].concat());
        assert_eq!(
            output.refusal(),
            "error: there is no Cluster among the manifests; add a fleet, as in -f examples/fleet.yaml, or pass \
             --against CONTEXT\n"
        );
    }
}

/// A fleet whose Clusters have an incomplete status: `east` is simulated, and `west` has a separate API server.
const SPARSE: &str = "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: east}
spec: {syncMode: Push}
status:
  nodeSummary: {totalNum: 2, readyNum: 2}
  resourceSummary: {allocatable: {cpu: 16, memory: 64Gi, pods: 220}}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: west}
spec: {syncMode: Push, apiEndpoint: 'https://127.0.0.1:1'}
";

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
