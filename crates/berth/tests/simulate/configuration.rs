//! Tests of `berth simulate --config`, which reads a scheduler configuration: profiles, plugins, preemption and gangs.
//! Also tests of the flags `--taint` and `--capacity`.

use std::fmt::Write as _;

use crate::program::{CommandOutput, Files, simulate};

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
fn with_plugins(plugins: &str, manifests: &str, flags: &[&str]) -> CommandOutput {
    let mut config = format!("{HEADER}profiles:\n- plugins:\n    multiPoint:\n      enabled:\n");
    for plugin in plugins.split(' ') {
        let _ = writeln!(config, "      - name: {plugin}");
    }
    let files = Files::new(&[("config.yaml", &config), ("manifests.yaml", manifests)]);
    let (config, manifests) = (files.path("config.yaml"), files.path("manifests.yaml"));
    simulate(&[&["--config", &config, "-f", &manifests][..], flags].concat())
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
    ];
    let files = Files::new(&[("config.yaml", &config), ("all.yaml", &manifests.concat())]);
    let path = files.path("config.yaml");
    let out = simulate(&["-f", &files.path("all.yaml"), "--config", &path]).out();
    assert!(
        out.contains("m2:2       1/2 clusters: 1 m1 is reserved"),
        "{out}"
    );
    for note in [
        format!("note: decided with the configuration of {path}\n"),
        "note: not simulated: plugin Quota, which this program does not contain\n".to_owned(),
        "note: not simulated: extender https://extender.example, which is not called\n".to_owned(),
        format!(
            "note: not simulated: bindings of the scheduler other, for which {path} has no profile\n"
        ),
    ] {
        assert!(out.contains(&note), "{note}\n{out}");
    }
    let refused = simulate(&["-f", &files.path("all.yaml"), "--config", "/nonexistent"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--config /nonexistent"), "{refused:?}");
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
    ]
    .concat();
    let out = with_plugins("DefaultPreemption", &manifests, &[]).out();
    let row = |name: &str| {
        out.lines()
            .find(|line| line.contains(name))
            .unwrap_or_default()
    };
    assert!(row("lesser").contains("m2:4"), "{out}");
    assert!(row("urgent").contains("m1:4"), "{out}");
    assert!(
        out.contains("note: shop/urgent preempts shop/lesser in m1\n"),
        "{out}"
    );
    // Without the plugin, no binding is preempted.
    let out = with_plugins("TaintToleration", &manifests, &[]);
    let out = out.out();
    assert!(!out.contains("preempts") && out.contains("m1:4"), "{out}");
}

#[test]
fn a_gang_that_does_not_fit_completely_is_not_placed() {
    let members = |count: usize| -> String {
        let names = ["a", "b", "c"].into_iter().take(count);
        let members: String = names.map(|name| binding(name, 2, 0, "")).collect();
        cluster("m1", 0) + &cluster("m2", 0) + &members
    };
    let out = with_plugins("Coscheduling", &members(3), &[]).out();
    assert_eq!(out.matches(":2").count(), 3, "{out}");
    let out = with_plugins("Coscheduling", &members(2), &[]).out();
    let reason = "2 of at least 3 members of gang shop/train fit";
    assert_eq!(out.matches(reason).count(), 2, "{out}");
    // Without the plugin, the labels have no effect.
    let out = with_plugins("TaintToleration", &members(2), &[]).out();
    assert!(!out.contains("gang"), "{out}");
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
    let files = Files::new(&[("all.yaml", &manifests.concat())]);
    let taint = ["-f", &files.path("all.yaml"), "--taint=m1=broken:NoExecute"];
    let out = simulate(&taint).out();
    assert!(out.contains("web    m1:2   m2:2"), "{out}");
    assert!(
        out.contains("2 bindings looked at, 1 would move, 0 would become unschedulable"),
        "{out}"
    );
    assert!(
        out.contains("note: NoExecute evicts shop/web from m1, if"),
        "{out}"
    );
}

#[test]
fn more_capacity_lets_an_unschedulable_binding_be_placed() {
    let manifests = [cluster("m1", 4), binding("web", 2, 0, "")];
    let files = Files::new(&[("all.yaml", &manifests.concat())]);
    let manifests = files.path("all.yaml");
    let out = simulate(&["-f", &manifests, "--capacity", "m1=cpu=8"]).out();
    assert!(out.contains("web    -      m1:2"), "{out}");
    let unknown = simulate(&["-f", &manifests, "--capacity", "m9=cpu=8"]).refusal();
    assert!(
        unknown.contains("--capacity m9: there is no such cluster"),
        "{unknown}"
    );
}
