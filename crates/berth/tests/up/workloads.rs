//! Tests of workloads in simulated members: pods, claims, Services, Jobs, drained nodes and resized pods.

use berth_test_requirements::needs;
use serde_json::Value;

use crate::program::{Up, root, until};

fn json(up: &Up, arguments: &[&str]) -> Value {
    let mut all = arguments.to_vec();
    all.extend(["-o", "json"]);
    let text = up.kubectl(&all);
    serde_json::from_str(&text).unwrap()
}

/// Returns the pods of an app in a member, each as its node and its phase, such as `member1-node-1 Running`. The node
/// of an unscheduled pod is `none`.
fn pods(up: &Up, member: &str, app: &str) -> Vec<String> {
    let (context, selector) = (
        format!("--context={member}"),
        format!("--selector=app={app}"),
    );
    let list = json(up, &[&context, "get", "pods", &selector]);
    let format_pod = |pod: &Value| {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or("none");
        format!("{node} {}", pod["status"]["phase"].as_str().unwrap())
    };
    let mut pods: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(format_pod)
        .collect();
    pods.sort();
    pods
}

#[needs(kubectl)]
#[test]
fn pods_that_exceed_the_capacity_of_the_nodes_stay_pending() {
    let up = Up::start(&["--members=1", "--cluster-status-update-frequency=200ms"]);
    pods(&up, "member1", "web");
    let file = up.home.path().join("web.yaml");
    std::fs::write(
        &file,
        "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {simulation.berth/start-delay: 0s}}
spec:
  replicas: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx, resources: {requests: {cpu: '6'}}}]}
",
    )
    .unwrap();
    up.kubectl(&["--context=member1", "apply", "-f", file.to_str().unwrap()]);
    // Each of the four nodes has 8 CPUs, of which 1 is allocated. One pod runs on each node, and the fifth pod waits.
    let expected = [
        "member1-node-1 Running",
        "member1-node-2 Running",
        "member1-node-3 Running",
        "member1-node-4 Running",
        "none Pending",
    ];
    until("four pods that run and one that waits", || {
        match pods(&up, "member1", "web") {
            pods if pods == expected => Ok(()),
            pods => Err(format!("{pods:?}")),
        }
    });
    until("the status of the Cluster", || {
        let cluster = json(&up, &["get", "cluster", "member1"]);
        let summary = &cluster["status"]["resourceSummary"];
        if summary["allocated"]["cpu"] == "28" && summary["allocating"]["cpu"] == "6" {
            Ok(())
        } else {
            Err(summary.to_string())
        }
    });
    let status = json(&up, &["--context=member1", "get", "deployment", "web"]);
    assert_eq!(status["status"]["readyReplicas"], 4);

    up.kubectl(&[
        "--context=member1",
        "scale",
        "deployment/web",
        "--replicas=2",
    ]);
    let rollout = [
        "--context=member1",
        "rollout",
        "status",
        "deployment/web",
        "--timeout=60s",
    ];
    up.kubectl(&rollout);
    let left = pods(&up, "member1", "web");
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().all(|pod| pod.ends_with("Running")), "{left:?}");
}

#[needs(kubectl)]
#[test]
fn a_workload_failure_can_be_injected_and_removed() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&["create", "deployment", "web", "--image=nginx"]);
    let available = |status: &str| {
        let condition = format!("--for=condition=Available={status}");
        in_member(&["wait", &condition, "deployment/web", "--timeout=60s"]);
    };
    available("true");
    in_member(&["annotate", "deployment/web", "simulation.berth/fails=crash"]);
    available("false");
    let shown = in_member(&["get", "pods"]);
    assert!(shown.contains("CrashLoopBackOff"), "{shown}");
    in_member(&["annotate", "deployment/web", "simulation.berth/fails-"]);
    available("true");
}

#[needs(kubectl)]
#[test]
fn placed_workloads_run_in_members_and_report_ready_replicas() {
    let up = Up::start(&["--members=2"]);
    let example = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    for member in ["member1", "member2"] {
        until("a pod that runs", || {
            match pods(&up, member, "nginx").as_slice() {
                [pod] if pod.ends_with(" Running") => Ok(()),
                pods => Err(format!("{member}: {pods:?}")),
            }
        });
    }
    until("the template to be ready", || {
        let template = json(&up, &["get", "deployment", "nginx"]);
        if template["status"]["readyReplicas"] == 2 {
            Ok(())
        } else {
            Err(template["status"].to_string())
        }
    });
    let fully = [
        "wait",
        "--for=condition=FullyApplied",
        "resourcebinding/nginx-deployment",
        "--timeout=60s",
    ];
    up.kubectl(&fully);
    let is_healthy = |status: &str| {
        let condition = format!("--for=condition=Healthy={status}");
        let binding = "resourcebinding/nginx-deployment";
        up.kubectl(&["wait", &condition, binding, "--timeout=60s"]);
    };
    is_healthy("true");
    // The binding tells why a workload is not healthy.
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&[
        "annotate",
        "deployment/nginx",
        "simulation.berth/fails=crash",
    ]);
    is_healthy("false");
    until("the reason of the crash", || {
        let binding = json(&up, &["get", "resourcebinding", "nginx-deployment"]);
        let conditions = binding["status"]["conditions"].as_array().unwrap();
        let healthy = conditions
            .iter()
            .find(|of| of["type"] == "Healthy")
            .unwrap();
        let message = healthy["message"].as_str().unwrap();
        let cause = "1 of 1 pods crash in member1: exit code 1; fix: read the logs in member1";
        if healthy["reason"] == "CrashLoopBackOff" && message.starts_with(cause) {
            Ok(())
        } else {
            Err(healthy.to_string())
        }
    });
    in_member(&["annotate", "deployment/nginx", "simulation.berth/fails-"]);
    is_healthy("true");
}

#[needs(kubectl)]
#[test]
fn a_volume_claim_is_bound_in_its_member_and_stays_bound() {
    let up = Up::start(&["--members=1"]);
    let file = up.home.path().join("claim.yaml");
    let claim = |size: &str| {
        format!(
            "apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, labels: {{size: {size}}}}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: data}}
spec:
  resourceSelectors: [{{apiVersion: v1, kind: PersistentVolumeClaim}}]
  placement: {{clusterAffinity: {{clusterNames: [member1]}}}}
"
        )
    };
    std::fs::write(&file, claim("small")).unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    up.kubectl(&apply);
    // The claims are listed, because a GET request fails while the member has no claim yet.
    let claims = |context: &str| json(&up, &[context, "get", "pvc"])["items"][0].take();
    let volume = until("the claim to be bound", || {
        let (here, there) = (claims("--context=berth"), claims("--context=member1"));
        if here["status"]["phase"] == "Bound" && there["status"]["phase"] == "Bound" {
            assert_eq!(there["status"]["capacity"]["storage"], "1Gi", "{there}");
            Ok(there["spec"]["volumeName"].clone())
        } else {
            Err(format!("{here} {there}"))
        }
    });
    assert!(volume.is_string(), "{volume}");
    // After an update of the template, the claim in the member keeps its volume.
    std::fs::write(&file, claim("large")).unwrap();
    up.kubectl(&apply);
    until("the label in the member", || {
        let there = claims("--context=member1");
        if there["metadata"]["labels"]["size"] == "large" {
            assert_eq!(there["spec"]["volumeName"], volume, "{there}");
            assert_eq!(there["status"]["phase"], "Bound", "{there}");
            Ok(())
        } else {
            Err(there.to_string())
        }
    });
}

#[needs(kubectl)]
#[test]
fn an_endpoint_slice_has_the_addresses_of_pods_and_is_written_only_after_changes() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&["create", "deployment", "web", "--image=nginx"]);
    in_member(&["expose", "deployment", "web", "--port=80"]);
    let rollout = |name: &str| {
        let deployment = format!("deployment/{name}");
        in_member(&["rollout", "status", &deployment, "--timeout=60s"]);
    };
    rollout("web");
    let slice = || {
        let of_web = "kubernetes.io/service-name=web";
        let list = ["--context=member1", "get", "endpointslices", "-l", of_web];
        // The list is empty before the slice is created and after it is deleted.
        let all = json(&up, &list);
        all["items"].get(0).cloned().unwrap_or_default()
    };
    let ready = until("the address of the pod", || {
        let slice = slice();
        if slice["endpoints"][0]["conditions"]["ready"] == true {
            Ok(slice)
        } else {
            Err(slice.to_string())
        }
    });
    let shown = in_member(&["describe", "service", "web"]);
    let address = ready["endpoints"][0]["addresses"][0].as_str().unwrap();
    assert!(shown.contains(&format!("{address}:80")), "{shown}");
    // Changes of other objects do not cause a write of the slice, although the server has added defaults to it.
    in_member(&["create", "deployment", "other", "--image=nginx"]);
    rollout("other");
    let version = |slice: &serde_json::Value| slice["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&slice()), version(&ready));
    in_member(&["delete", "service", "web"]);
    until("the deletion of the slice", || {
        let left = slice();
        if left.is_null() {
            Ok(())
        } else {
            Err(left.to_string())
        }
    });
}

#[needs(kubectl)]
#[test]
fn a_stateful_set_has_claims_and_a_cron_job_has_jobs() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    let file = up.home.path().join("sets.yaml");
    let text = "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: postgres}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick, annotations: {simulation.berth/run-time: 100ms}}
spec:
  schedule: '* * * * *'
  jobTemplate:
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}
";
    std::fs::write(&file, text).unwrap();
    in_member(&["apply", "-f", file.to_str().unwrap()]);
    let wait = ["rollout", "status", "statefulset/db", "--timeout=60s"];
    in_member(&wait);
    let claims = in_member(&["get", "pvc", "--no-headers"]);
    let claims: Vec<Vec<&str>> = claims
        .lines()
        .map(|line| line.split_whitespace().take(2).collect())
        .collect();
    assert_eq!(claims, [["data-db-0", "Bound"], ["data-db-1", "Bound"]]);

    // After the last schedule time is set to the past, the CronJob starts a job immediately.
    let status = r#"{"status":{"lastScheduleTime":"2020-01-01T00:00:00Z"}}"#;
    let patch = ["patch", "cronjob", "tick", "--subresource=status"];
    in_member(&[&patch[..], &["--type=merge", "-p", status]].concat());
    until("a success of the CronJob", || {
        let cron = json(&up, &["--context=member1", "get", "cronjob", "tick"]);
        let success = &cron["status"]["lastSuccessfulTime"];
        success
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| cron["status"].to_string())
    });
    let shown = in_member(&["get", "jobs"]);
    assert!(
        shown.contains("tick-") && shown.contains("Complete"),
        "{shown}"
    );
}

#[needs(kubectl)]
#[test]
fn pods_of_a_drained_node_move_to_other_nodes() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&["create", "deployment", "web", "--image=nginx"]);
    let running = |besides: &str| {
        until("a pod that runs", || {
            match pods(&up, "member1", "web").as_slice() {
                [pod] if pod.ends_with(" Running") && !pod.starts_with(besides) => Ok(pod.clone()),
                pods => Err(format!("{pods:?}")),
            }
        })
    };
    let pod = running("nowhere");
    let (node, _) = pod.split_once(' ').unwrap();
    in_member(&["drain", node, "--timeout=60s"]);
    running(node);
    let shown = in_member(&["get", "node", node]);
    assert!(shown.contains("SchedulingDisabled"), "{shown}");
}

#[needs(kubectl)]
#[test]
fn a_disruption_budget_blocks_draining_until_disruptions_are_allowed() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&["create", "deployment", "web", "--image=nginx"]);
    let budget = [
        "create",
        "poddisruptionbudget",
        "web",
        "--selector=app=web",
        "--max-unavailable=0",
    ];
    in_member(&budget);
    let counted = |expected: [i64; 4]| {
        until("the status of the budget", || {
            let budget = json(&up, &["--context=member1", "get", "pdb", "web"]);
            let status = &budget["status"];
            let numbers = [
                "expectedPods",
                "currentHealthy",
                "desiredHealthy",
                "disruptionsAllowed",
            ];
            let numbers = numbers.map(|number| status[number].as_i64().unwrap_or(-1));
            if numbers == expected
                && status["observedGeneration"] == budget["metadata"]["generation"]
            {
                Ok(())
            } else {
                Err(budget.to_string())
            }
        });
    };
    counted([1, 1, 1, 0]);
    let all = pods(&up, "member1", "web");
    let (node, _) = all.first().unwrap().split_once(' ').unwrap();
    let drain = ["--context=member1", "drain", node, "--timeout=3s"];
    let message = up.refused(&drain);
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert!(message.contains(why), "{message}");
    assert_eq!(pods(&up, "member1", "web"), all);

    let more = r#"{"spec": {"maxUnavailable": 1}}"#;
    in_member(&["patch", "pdb", "web", "--type=merge", "-p", more]);
    counted([1, 1, 0, 1]);
    let message = in_member(&["drain", node, "--timeout=60s"]);
    assert!(message.contains("evicted"), "{message}");
    until("the pod to run on another node", || {
        match pods(&up, "member1", "web").as_slice() {
            [pod] if pod.ends_with(" Running") && !pod.starts_with(node) => Ok(()),
            pods => Err(format!("{pods:?}")),
        }
    });
    counted([1, 1, 0, 1]);
}

#[needs(kubectl)]
#[test]
fn a_running_pod_can_be_resized() {
    let up = Up::start(&["--members=1"]);
    let in_member = |arguments: &[&str]| up.in_member("member1", arguments);
    in_member(&["run", "plain", "--image=nginx"]);
    let overrides = r#"{"spec": {"containers": [{"name": "sized", "image": "nginx",
        "resources": {"requests": {"cpu": "1"}}}]}}"#;
    let overrides = format!("--overrides={overrides}");
    in_member(&["run", "sized", "--image=nginx", &overrides]);
    let pod = |name: &str| json(&up, &["--context=member1", "get", "pod", name]);
    let running = |name: &str| {
        until("the pod to run", || {
            let pod = pod(name);
            if pod["status"]["phase"] == "Running" {
                Ok(pod)
            } else {
                Err(pod.to_string())
            }
        })
    };
    let plain = running("plain");
    running("sized");
    let resize = |cpu: &str| {
        format!(
            r#"{{"spec": {{"containers": [{{"name": "sized", "resources": {{"requests": {{"cpu": "{cpu}"}}}}}}]}}}}"#
        )
    };
    let patch = [
        "--context=member1",
        "patch",
        "pod",
        "sized",
        "--subresource=resize",
        "-p",
    ];
    let too_much = resize("100");
    let message = up.refused(&[&patch[..], &[&too_much]].concat());
    assert!(
        message.contains("node didn't have enough allocatable resources"),
        "{message}"
    );
    let more = resize("2");
    up.kubectl(&[&patch[..], &[&more]].concat());
    until("the pod to have the requested CPU", || {
        let pod = pod("sized");
        let status = &pod["status"];
        let has = &status["containerStatuses"][0]["resources"]["requests"]["cpu"];
        if *has == "2" && status["observedGeneration"] == pod["metadata"]["generation"] {
            Ok(())
        } else {
            Err(pod.to_string())
        }
    });
    // The resize does not cause a write of the other pod.
    let version = |pod: &Value| pod["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&pod("plain")), version(&plain));
}
