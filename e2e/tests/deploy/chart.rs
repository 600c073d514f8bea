//! Tests of the Helm chart and the kustomize overlays. An API server must accept the rendered objects, and Berth must
//! accept the command lines of the Deployments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth::cli::Cli;
use berth_e2e::bare_control_plane::BareControlPlane;
use berth_e2e::kubectl;
use berth_test_requirements::needs;
use clap::Parser as _;
use serde_json::{Value, json};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs `helm template` with these values. Returns its output, or its error.
fn helm(values: &Value) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values.to_string()).unwrap();
    let output = Command::new("helm")
        .args(["template", "berth", "deploy/chart", "-n", "karmada-system"])
        .arg("-f")
        .arg(file.path())
        .current_dir(repository())
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Returns the objects of a YAML stream.
pub(crate) fn objects(yaml: &str) -> Vec<Value> {
    let documents = yaml
        .split("\n---")
        .map(|text| text.trim_start_matches("---"));
    documents
        .map(|text| serde_saphyr::from_str::<Value>(text).unwrap())
        .filter(|object| !object.is_null())
        .collect()
}

/// The folder of each overlay, and the names of its Deployments.
const OVERLAYS: [(&str, &[&str]); 4] = [
    ("scheduler-only", &["karmada-scheduler"]),
    ("second-scheduler", &["my-karmada-scheduler"]),
    ("shadow", &["berth-shadow"]),
    (
        "stand-alone",
        &["berth-controllers", "karmada-scheduler", "karmada-webhook"],
    ),
];

/// Returns the output of `kubectl kustomize` for a folder of `deploy`.
pub(crate) fn kustomize(folder: &str) -> String {
    let output = Command::new("kubectl")
        .args(["kustomize", &format!("deploy/{folder}")])
        .current_dir(repository())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{folder}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Renders the chart with these values, and returns its objects.
pub(crate) fn chart(values: &Value) -> Vec<Value> {
    objects(&helm(values).unwrap())
}

/// Returns the object with this kind and name.
fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let mut all = objects.iter();
    let found = all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.ok_or_else(|| format!("no {kind} {name}")).unwrap()
}

/// Returns the command line of a Deployment.
fn command(deployment: &Value) -> Vec<String> {
    let command = &deployment["spec"]["template"]["spec"]["containers"][0]["command"];
    serde_json::from_value(command.clone()).unwrap()
}

/// Returns the values with which the tests render the chart, each with a description. Together, these values set most
/// keys of `values.yaml`.
fn variations() -> Vec<(&'static str, Value)> {
    let deployments = json!([{ "apiGroups": ["apps"], "resources": ["deployments"] }]);
    vec![
        ("the defaults", json!({})),
        (
            "second schedulers",
            json!({ "secondSchedulers": [
                { "schedulerName": "my-scheduler" },
                { "schedulerName": "batch", "replicas": 3, "plugins": ["*", "-ClusterLocality"],
                  "featureGates": { "Failover": true },
                  "config": { "apiVersion": "scheduler.config.berth/v1alpha1", "kind": "SchedulerConfiguration",
                              "profiles": [{ "schedulerName": "batch" }] } },
            ] }),
        ),
        (
            "a second scheduler alone",
            json!({ "scheduler": { "enabled": false }, "secondSchedulers": [{ "schedulerName": "my-scheduler" }] }),
        ),
        (
            "stand-alone",
            json!({ "controlPlane": { "inCluster": true }, "controllers": { "enabled": true },
                    "serviceAccount": { "annotations": { "a": "b" } } }),
        ),
        (
            "stand-alone with fewer rights",
            json!({ "controlPlane": { "inCluster": true },
                    "controllers": { "enabled": true, "featureGates": { "Failover": true },
                                     "extraArgs": ["--enable-no-execute-taint-eviction=true"] },
                    "rbac": { "propagated": deployments, "propagateRoles": false, "gangTemplates": deployments } }),
        ),
        (
            "shadow mode alone",
            json!({ "scheduler": { "enabled": false }, "shadow": { "enabled": true } }),
        ),
        (
            "shadow mode of this cluster's control plane",
            json!({ "controlPlane": { "inCluster": true },
                    "shadow": { "enabled": true, "schedulerName": "eu", "plugins": ["*", "-ClusterLocality"],
                                "kubeconfig": { "secretName": "kubeconfig", "key": "kubeconfig" },
                                "featureGates": { "Failover": true }, "extraArgs": ["--v=4"], "resources": {},
                                "config": { "apiVersion": "scheduler.config.berth/v1alpha1",
                                            "kind": "SchedulerConfiguration",
                                            "profiles": [{ "schedulerName": "eu" }] } } }),
        ),
        (
            "webhooks that issue their certificate",
            json!({ "controlPlane": { "inCluster": true }, "webhook": { "enabled": true } }),
        ),
        (
            "webhooks with a given certificate",
            json!({ "controlPlane": { "inCluster": true },
                    "webhook": { "enabled": true, "replicas": 1, "serviceName": "hooks", "resources": {},
                                 "kubeconfig": { "secretName": "kubeconfig", "key": "kubeconfig" },
                                 "certificates": { "selfManaged": false, "secretName": "cert", "caBundle": "YQ==",
                                                   "certManagerCertificate": "hooks" },
                                 "allowNoExecuteTaintPolicy": false, "featureGates": { "Failover": true },
                                 "extraArgs": ["--v=4"] } }),
        ),
        (
            "estimators",
            json!({ "controlPlane": { "inCluster": true },
                    "estimators": [
                        { "cluster": "member1", "kubeconfig": { "secretName": "member1", "key": "kubeconfig" } },
                        { "cluster": "member2", "kubeconfig": { "secretName": "member2", "key": "kubeconfig" },
                          "certificates": { "secretName": "cert" }, "featureGates": { "ResourceQuotaEstimate": true },
                          "extraArgs": ["--v=4"], "resources": { "requests": { "cpu": "1" } } }] }),
        ),
        (
            "everything else",
            json!({
                "image": { "repository": "example.org/berth", "digest": format!("sha256:{}", "0".repeat(64)),
                           "pullPolicy": "Always", "pullSecrets": [{ "name": "s" }] },
                "controlPlane": { "namespace": "other" },
                "scheduler": { "schedulerName": "eu", "leaseName": "eu", "replicas": 1, "resources": {},
                               "kubeconfig": { "secretName": "kubeconfig", "key": "kubeconfig" },
                               "extraArgs": ["--enable-scheduler-estimator=true", "--v=4"] },
                "controllers": { "enabled": true, "replicas": 1, "skippedPropagatingNamespaces": ["kube-.*", "x"] },
                "podAnnotations": { "a": "b" }, "podLabels": { "c": "d" }, "priorityClassName": "system-cluster-critical",
                "nodeSelector": { "e": "f" }, "tolerations": [],
                "topologySpreadConstraints": [
                    { "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway" }],
                "podAntiAffinity": "required", "terminationGracePeriodSeconds": 10,
                "podDisruptionBudget": { "enabled": true, "maxUnavailable": "50%" },
                "networkPolicy": { "enabled": true, "metricsFrom": [{ "podSelector": {} }] },
                "metrics": { "serviceMonitor": { "enabled": true, "interval": "10s", "labels": { "g": "h" } },
                             "prometheusRule": { "enabled": true, "labels": { "g": "h" } },
                             "dashboards": { "enabled": true, "labels": { "g": "h" } } },
            }),
        ),
    ]
}

/// Checks that Berth accepts the command line of each Deployment, that the command line contains the probe port of the
/// pod, and that it contains `--kubeconfig` exactly if the pod has no service account. Also checks that the root
/// filesystem is read-only, and that the container has as many mounts as the pod has volumes.
fn assert_starts(case: &str, objects: &[Value]) {
    for deployment in objects
        .iter()
        .filter(|object| object["kind"] == "Deployment")
    {
        let command = command(deployment);
        let parsed = Cli::try_parse_from(&command);
        let error = parsed.err().map(|error| error.to_string());
        assert_eq!(error, None, "{case}: {command:?}");
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let probes = container["ports"].as_array().unwrap();
        let probes = probes.iter().find(|port| port["name"] == "probes").unwrap();
        let address = format!("--health-probe-bind-address=:{}", probes["containerPort"]);
        assert!(command.contains(&address), "{case}: {command:?}");
        assert_eq!(
            container["securityContext"]["readOnlyRootFilesystem"], true,
            "{case}"
        );
        let mounted = pod["volumes"].as_array().map_or(0, Vec::len);
        let mounts = container["volumeMounts"].as_array().map_or(0, Vec::len);
        assert_eq!(mounted, mounts, "{case}");
        let has_kubeconfig = command.iter().any(|flag| flag.starts_with("--kubeconfig="));
        assert_eq!(
            has_kubeconfig,
            pod["serviceAccountName"].is_null(),
            "{case}"
        );
    }
}

#[needs(helm)]
#[test]
fn berth_accepts_the_command_lines_of_the_chart() {
    for (case, values) in variations() {
        let objects = chart(&values);
        assert!(!objects.is_empty(), "{case}");
        assert_starts(case, &objects);
    }
}

#[needs(helm, kubectl)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_accepts_the_objects_of_the_chart_and_the_overlays() {
    let plane = BareControlPlane::start(&[]).await;
    let kubeconfig = plane.kubeconfig();
    let run = |arguments: &[&str]| {
        let output = kubectl::run(&kubeconfig, &plane.folder().join("cache"), arguments).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(errors)
        }
    };
    let apply = |yaml: &str| {
        let file = plane.folder().join("objects.yaml");
        std::fs::write(&file, yaml).unwrap();
        run(&[
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=strict",
            "-f",
            file.to_str().unwrap(),
        ])
    };
    for (kind, plural) in [
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.monitoring.coreos.com") },
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": { "kind": kind, "plural": plural },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
            },
        });
        apply(&definition.to_string()).unwrap();
    }
    for (case, values) in variations() {
        let yaml = helm(&values).unwrap();
        // Retry, because the server serves a new kind with a short delay.
        berth_e2e::eventually(case, async || apply(&yaml)).await;
    }
    // Delete the Deployments of the chart: some Deployments of the overlays have the same names and other selectors,
    // and a selector is immutable.
    run(&["delete", "deployments", "--all", "-n", "karmada-system"]).unwrap();
    for folder in OVERLAYS.map(|(overlay, _)| format!("overlays/{overlay}")) {
        apply(&kustomize(&folder)).unwrap();
    }
    apply(&kustomize("webhook")).unwrap();
    apply(&kustomize("estimator")).unwrap();
    plane.stop().await;
}

/// Checks that the roles in the chart have the same rules as the roles in the manifests of `deploy`.
#[needs(helm)]
#[test]
fn the_chart_grants_the_rights_of_the_manifests() {
    let values = json!({ "controlPlane": { "inCluster": true }, "controllers": { "enabled": true },
        "secondSchedulers": [{ "schedulerName": "my-scheduler" }], "shadow": { "enabled": true } });
    let rendered = chart(&values);
    for (file, name, kinds) in [
        (
            "deploy/scheduler/rbac.yaml",
            "berth-scheduler",
            &["ClusterRole", "Role"][..],
        ),
        (
            "deploy/controllers/rbac.yaml",
            "berth-controllers",
            &["ClusterRole", "Role"],
        ),
        ("deploy/shadow/rbac.yaml", "berth-shadow", &["ClusterRole"]),
    ] {
        let manifests = objects(&std::fs::read_to_string(repository().join(file)).unwrap());
        for kind in kinds {
            let rules = |objects: &[Value]| -> BTreeSet<String> {
                let rules = named(objects, kind, name)["rules"]
                    .as_array()
                    .unwrap()
                    .clone();
                rules.iter().map(Value::to_string).collect()
            };
            assert_eq!(rules(&rendered), rules(&manifests), "{kind} {name}");
        }
    }
}

/// Checks that Helm refuses wrong values of the chart, and that the error names the mistake.
#[needs(helm)]
#[test]
fn wrong_values_are_refused() {
    for (values, expected) in [
        (json!({ "scheduler": { "replica": 2 } }), "replica"),
        (
            json!({ "scheduler": { "replicas": -1 } }),
            "/scheduler/replicas",
        ),
        (
            json!({ "scheduler": { "extraArgs": ["v=4"] } }),
            "/scheduler/extraArgs/0",
        ),
        (json!({ "image": { "digest": "latest" } }), "/image/digest"),
        (json!({ "podAntiAffinity": "hard" }), "/podAntiAffinity"),
        (
            json!({ "estimators": [{ "cluster": "member1" }] }),
            "kubeconfig",
        ),
        (
            json!({ "secondSchedulers": [{ "replicas": 2 }] }),
            "schedulerName",
        ),
        (
            json!({ "secondSchedulers": [{ "schedulerName": "default-scheduler" }] }),
            "two schedulers have the schedulerName \"default-scheduler\"",
        ),
    ] {
        let error = helm(&values).unwrap_err();
        assert!(error.contains(expected), "{values}: {error}");
    }
}

/// Checks that each overlay has exactly the Deployments of [`OVERLAYS`], and that Berth accepts their command lines.
#[needs(kubectl)]
#[test]
fn berth_accepts_the_command_lines_of_the_overlays() {
    for (overlay, deployments) in OVERLAYS {
        let objects = objects(&kustomize(&format!("overlays/{overlay}")));
        let names: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .map(|object| object["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, deployments, "{overlay}");
        for deployment in &names {
            let command = command(named(&objects, "Deployment", deployment));
            assert!(
                Cli::try_parse_from(&command).is_ok(),
                "{overlay}: {command:?}"
            );
        }
        let has_rights = objects.iter().any(|object| object["kind"] == "ClusterRole");
        assert_eq!(has_rights, overlay == "stand-alone", "{overlay}");
    }
}
