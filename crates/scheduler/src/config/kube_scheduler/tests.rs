//! Tests of the conversion of kube-scheduler files in several versions.

use super::*;

/// Returns the converted configuration of a file, and the warnings.
fn read(text: &str) -> (Value, Vec<String>) {
    let document = Document::read("f", text).unwrap();
    let (configuration, warnings) = converted(&document).unwrap();
    let warnings = warnings.iter().map(ToString::to_string).collect();
    (serde_json::to_value(configuration).unwrap(), warnings)
}

const IGNORED: &str = "has no meaning here and is ignored";

#[test]
fn files_of_the_current_version_are_converted() {
    let (configuration, warnings) = read(
        "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  acceptContentTypes: ''
  burst: 100
  contentType: application/vnd.kubernetes.protobuf
  kubeconfig: /etc/kubernetes/scheduler.conf
  qps: 100
leaderElection: {leaderElect: true, resourceLock: leases, resourceName: kube-scheduler}
parallelism: 16
percentageOfNodesToScore: 0
podInitialBackoffSeconds: 1
profiles:
- schedulerName: my-scheduler
  plugins:
    filter:
      enabled:
      - name: nodeFilter
      disabled:
      - name: NodeName
      - name: TaintToleration
    unreserve: {enabled: [{name: nodeFilter}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated}}
  - name: DefaultPreemption
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs, minCandidateNodesAbsolute: 100}
  - name: nodeFilter
    args: {limit: 2}
",
    );
    assert_eq!(
        configuration,
        json!({
            "apiVersion": "scheduler.config.berth/v1alpha1",
            "kind": "SchedulerConfiguration",
            "clientConnection": { "kubeconfig": "/etc/kubernetes/scheduler.conf", "qps": 100.0, "burst": 100 },
            "leaderElection": { "leaderElect": true, "resourceLock": "leases", "resourceName": "kube-scheduler" },
            "profiles": [{
                "schedulerName": "my-scheduler",
                "plugins": { "filter": { "enabled": [{ "name": "nodeFilter" }],
                    "disabled": [{ "name": "TaintToleration" }] } },
                "pluginConfig": [{ "name": "nodeFilter", "args": { "limit": 2 } }],
            }],
        })
    );
    let node_plugin = |name: &str| format!("{name} of kube-scheduler {IGNORED}");
    assert_eq!(
        warnings,
        [
            format!("f:10:1: parallelism: {IGNORED}"),
            format!("f:11:1: percentageOfNodesToScore: {IGNORED}"),
            format!("f:12:1: podInitialBackoffSeconds: {IGNORED}"),
            format!("f:4:3: clientConnection.acceptContentTypes: {IGNORED}"),
            format!("f:6:3: clientConnection.contentType: {IGNORED}"),
            format!("f:22:5: profiles[0].plugins.unreserve: {IGNORED}"),
            format!(
                "f:20:9: profiles[0].plugins.filter.disabled[0]: {}",
                node_plugin("NodeName")
            ),
            format!(
                "f:24:5: profiles[0].pluginConfig[0]: {}",
                node_plugin("NodeResourcesFit")
            ),
            format!(
                "f:26:5: profiles[0].pluginConfig[1]: {}",
                node_plugin("DefaultPreemption")
            ),
        ]
    );
}

#[test]
fn v1alpha1_files_become_a_single_profile() {
    let (configuration, warnings) = read(
        "apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
schedulerName: riya-scheduler
healthzBindAddress: 127.0.0.1:10251
leaderElection:
  leaderElect: true
  resourceLock: endpointsleases
  lockObjectName: riya-scheduler
  lockObjectNamespace: kube-system
plugins:
  queueSort:
    enabled: [{name: riya}]
    disabled: [{name: '*'}]
pluginConfig:
- name: riya
  args: {master: master}
",
    );
    assert_eq!(
        configuration,
        json!({
            "apiVersion": "scheduler.config.berth/v1alpha1",
            "kind": "SchedulerConfiguration",
            "healthProbeBindAddress": "127.0.0.1:10251",
            "leaderElection": { "leaderElect": true, "resourceName": "riya-scheduler",
                "resourceNamespace": "kube-system" },
            "profiles": [{
                "schedulerName": "riya-scheduler",
                "plugins": { "queueSort": { "enabled": [{ "name": "riya" }], "disabled": [{ "name": "*" }] } },
                "pluginConfig": [{ "name": "riya", "args": { "master": "master" } }],
            }],
        })
    );
    assert_eq!(
        warnings,
        ["f:7:3: leaderElection.resourceLock: is ignored: only leases are supported"]
    );
}

#[test]
fn extenders_are_converted_with_a_warning_about_the_protocol() {
    let (configuration, warnings) = read(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:8888/
  filterVerb: filter
  nodeCacheCapable: true
  managedResources: []
",
    );
    assert_eq!(
        configuration["extenders"],
        json!([{ "urlPrefix": "http://127.0.0.1:8888/", "filterVerb": "filter", "clusterCacheCapable": true }])
    );
    assert_eq!(
        warnings,
        [
            format!("f:7:3: extenders[0].managedResources: {IGNORED}"),
            "f:4:3: extenders[0]: receives bindings and clusters, not pods and nodes: see docs/extenders.md for an adapter"
                .to_owned(),
        ]
    );
}

#[test]
fn an_extender_of_some_pods_does_not_become_an_extender_of_all_bindings() {
    let text = "apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: http://127.0.0.1:8888/
  filterVerb: filter
  managedResources: [{name: example.com/foo, ignoredByScheduler: true}]
";
    let document = Document::read("f", text).unwrap();
    let error = super::read(&document).unwrap_err().to_string();
    assert!(
        error.starts_with("f:6:3: extenders[0].managedResources: names resources of pods"),
        "{error}"
    );
}

#[test]
fn unknown_fields_other_kinds_and_wrong_types_are_rejected() {
    for (text, expected) in [
        (
            "apiVersion: scheduler.config.berth/v1alpha1\nkind: SchedulerConfiguration\nparallelism: 1\n",
            "f:3:1: parallelism: unknown field",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: NodeAffinityArgs\n",
            "f:1:1: apiVersion: unknown variant",
        ),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: 3\n",
            "f:3:1: profiles: invalid type",
        ),
    ] {
        let document = Document::read("f", text).unwrap();
        let error = super::read(&document).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
