//! Tests of `berth simulate --config`, which reads a scheduler configuration: profiles, plugins, preemption and gangs.
//! Also tests of the flags `--taint` and `--capacity`.

use std::fmt::Write as _;

use berth_test_transcripts::{Transcript, assert_snapshot};

use crate::program::{Files, simulate, simulated};

const HEADER: &str = "apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
";

/// Returns the manifest of a ready cluster with 4 CPUs, of which `allocated` are in use.
fn cluster(name: &str, allocated: u32) -> String {
    format!(
        "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {{name: {name}}}
spec: {{syncMode: Push}}
status:
  apiEnablements: [{{groupVersion: apps/v1, resources: [{{name: deployments, kind: Deployment}}]}}]
  conditions: [{{type: Ready, status: 'True', reason: Ok, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}]
  resourceSummary: {{allocatable: {{cpu: '4', pods: '100'}}, allocated: {{cpu: '{allocated}'}}}}
---
"
    )
}

/// Returns the manifest of a binding. Each replica requests one CPU, and the placement divides the replicas.
fn binding(name: &str, replicas: u32, priority: i32, more: &str) -> String {
    format!(
        "apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {{name: {name}, namespace: shop, labels: {{podGroup: train, minAvailable: '3'}}}}
spec:
  resource: {{apiVersion: apps/v1, kind: Deployment, namespace: shop, name: {name}, uid: u}}
  replicas: {replicas}
  replicaRequirements: {{resourceRequest: {{cpu: '1'}}}}
  schedulePriority: {{priority: {priority}}}
  placement: {{replicaScheduling: {{replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}}}
{more}---
"
    )
}

/// Runs a simulation with a configuration whose only profile enables the given plugins.
fn with_plugins(transcript: &mut Transcript, about: &str, plugins: &str, manifests: &[String]) {
    let mut config = format!("{HEADER}profiles:\n- plugins:\n    multiPoint:\n      enabled:\n");
    for plugin in plugins.split(' ') {
        let _ = writeln!(config, "      - name: {plugin}");
    }
    let manifests = manifests.concat();
    let files = Files::new(&[("config.yaml", &config), ("manifests.yaml", &manifests)]);
    let (config, manifests) = (files.path("config.yaml"), files.path("manifests.yaml"));
    let arguments = ["--config", &config, "-f", &manifests];
    transcript.about(&format!("{about}: {plugins}"));
    simulate(&arguments).record(transcript, &arguments);
}

#[test]
fn the_plugin_expression_runs_and_notes_list_the_ignored_configuration() {
    let config = format!(
        "{HEADER}extenders:
- urlPrefix: https://extender.example
  filterVerb: filter
profiles:
- plugins:
    multiPoint:
      enabled: [{{name: Expression}}, {{name: Quota}}]
  pluginConfig:
  - name: Expression
    args:
      filter:
      - expression: cluster.metadata.name != 'm1'
        message: m1 is reserved
"
    );
    let manifests = [
        cluster("m1", 0),
        cluster("m2", 0),
        binding("web", 2, 0, ""),
        binding("other", 2, 0, "  schedulerName: other\n"),
    ]
    .concat();
    let files = Files::new(&[("config.yaml", &config)]);
    let read = format!("-f - --config {}", files.path("config.yaml"));
    assert_snapshot!(simulated(&[
        ("a profile and an extender", &read, &manifests),
        ("no such file", "-f - --config /nonexistent", &manifests),
    ]));
}

#[test]
fn expressions_read_the_cluster_scores_among_the_manifests() {
    let config = format!(
        "{HEADER}profiles:
- plugins:
    multiPoint:
      enabled: [{{name: Expression}}]
  pluginConfig:
  - name: Expression
    args:
      filter:
      - expression: cluster.scores.?carbon.value.orValue(0.0) < 300.0
        message: cluster(s) emitted too much carbon
"
    );
    let score = |cluster: &str, until: &str| {
        format!(
            "---
apiVersion: scheduling.berth/v1alpha1
kind: ClusterScore
metadata: {{name: carbon-{cluster}}}
spec: {{clusterName: {cluster}, scores: {{carbon: 400}}{until}}}
"
        )
    };
    let manifests = [
        cluster("m1", 0),
        cluster("m2", 0),
        binding("web", 2, 0, ""),
        score("m1", ""),
        score("m2", ", validUntil: \"2020-01-01T00:00:00Z\""),
    ]
    .concat();
    let files = Files::new(&[("config.yaml", &config)]);
    let read = format!("-f - --config {}", files.path("config.yaml"));
    assert_snapshot!(simulated(&[(
        "a valid and an expired score",
        &read,
        &manifests
    )]));
}

#[test]
fn a_preempted_binding_moves_to_a_cluster_with_free_capacity() {
    let manifests = [
        cluster("m1", 4),
        cluster("m2", 0),
        binding("lesser", 4, 1, "  clusters: [{name: m1, replicas: 4}]\n"),
        binding("urgent", 4, 2, "").replace(
            "placement: {",
            "placement: {clusterAffinity: {clusterNames: [m1]}, ",
        ),
    ];
    let mut transcript = Transcript::new();
    for (about, plugin) in [
        ("lesser makes room for urgent", "DefaultPreemption"),
        ("without the plugin, lesser stays", "TaintToleration"),
    ] {
        with_plugins(&mut transcript, about, plugin, &manifests);
    }
    assert_snapshot!(transcript);
}

#[test]
fn a_gang_that_does_not_fit_completely_is_not_placed() {
    let mut transcript = Transcript::new();
    for (about, plugin, names) in [
        ("a complete gang", "Coscheduling", &["a", "b", "c"][..]),
        (
            "a gang without its third member",
            "Coscheduling",
            &["a", "b"],
        ),
        ("the labels have no effect", "TaintToleration", &["a", "b"]),
    ] {
        let members = names.iter().map(|name| binding(name, 2, 0, ""));
        let manifests: Vec<String> = [cluster("m1", 0), cluster("m2", 0)]
            .into_iter()
            .chain(members)
            .collect();
        with_plugins(&mut transcript, about, plugin, &manifests);
    }
    assert_snapshot!(transcript);
}

#[test]
fn a_no_execute_taint_moves_only_bindings_that_do_not_tolerate_it() {
    let tolerant = binding("tolerant", 2, 0, "  clusters: [{name: m1, replicas: 2}]\n").replace(
        "placement: {",
        "placement: {clusterTolerations: [{key: broken, operator: Exists}], ",
    );
    let manifests = [
        cluster("m1", 4),
        cluster("m2", 0),
        binding("web", 2, 0, "  clusters: [{name: m1, replicas: 2}]\n"),
        tolerant,
    ];
    assert_snapshot!(simulated(&[(
        "both run in m1",
        "-f - --taint=m1=broken:NoExecute",
        &manifests.concat()
    )]));
}

#[test]
fn more_capacity_lets_an_unschedulable_binding_be_placed() {
    let manifests = cluster("m1", 4) + &binding("web", 2, 0, "");
    assert_snapshot!(simulated(&[
        (
            "4 of 8 CPUs are free",
            "-f - --capacity m1=cpu=8",
            &manifests
        ),
        ("no such cluster", "-f - --capacity m9=cpu=8", &manifests),
    ]));
}
