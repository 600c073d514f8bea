//! Tests of the output of commands with a running control plane, and of commands whose standard output is closed.

use std::io::Write as _;
use std::process::{Command, Stdio};

use berth_test_requirements::needs;

use crate::program::{Up, berth, line, refused, root, until};

/// Runs a command, checks that it succeeds, and returns its output.
fn run(up: &Up, arguments: &[&str]) -> String {
    let output = berth(up.home.path(), arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fail_and_heal_report_whether_they_changed_the_member() {
    let up = Up::start(&["--members=1"]);
    for (words, expected) in [
        (["heal", "member1"], "was already reachable"),
        (["fail", "member1"], "is unreachable now"),
        (["fail", "member1"], "is unreachable already"),
        (["heal", "member1"], "is reachable again"),
    ] {
        let message = run(&up, &words);
        assert!(message.contains(expected), "{words:?}: {message}");
    }
}

#[test]
fn get_clusters_and_status_can_print_yaml() {
    let up = Up::start(&["--members=1"]);
    let list = run(&up, &["get", "clusters", "-o", "yaml"]);
    assert!(
        list.contains("kind: List") && list.contains("name: member1"),
        "{list}"
    );
    // The output is a valid fleet file. The cluster has an API endpoint, so `berth up` does not simulate the cluster.
    let fleet = up.home.path().join("fleet.yaml");
    std::fs::write(&fleet, list).unwrap();
    let second = Up::start(&["--fleet", fleet.to_str().unwrap()]);
    let names = run(&second, &["get", "clusters", "-o", "name"]);
    assert_eq!(names, "cluster/member1\n");
    let status = run(&second, &["status", "-o", "yaml"]);
    assert!(
        status.contains("apiServer:") && status.contains("name: member1"),
        "{status}"
    );
}

/// A Deployment whose CPU request exceeds the capacity of every member, and its policy.
const HUGE: &str = r#"{ "apiVersion": "v1", "kind": "List", "items": [
  { "apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": { "name": "huge", "namespace": "default" },
    "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "huge" } },
      "template": { "metadata": { "labels": { "app": "huge" } },
        "spec": { "containers": [{ "name": "c", "image": "i",
          "resources": { "requests": { "cpu": "100k" } } }] } } } },
  { "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
    "metadata": { "name": "huge", "namespace": "default" },
    "spec": { "resourceSelectors": [{ "apiVersion": "apps/v1", "kind": "Deployment" }],
      "placement": { "replicaScheduling": { "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Aggregated" } } } } ] }"#;

#[needs(kubectl)]
#[test]
fn top_shows_free_capacity_and_waiting_bindings() {
    let up = Up::start(&["--members=1"]);
    let manifest = up.home.path().join("huge.json");
    std::fs::write(&manifest, HUGE).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let output = until("the Deployment to wait", || {
        let output = run(&up, &["top"]);
        if output.contains("not enough") {
            Ok(output)
        } else {
            Err(output)
        }
    });
    let lines: Vec<&str> = output.lines().collect();
    assert!(lines[0].starts_with("NAME      CPU-FREE"), "{output}");
    assert!(lines[1].starts_with("member1   "), "{output}");
    assert_eq!(lines[2], "");
    assert!(lines[4].starts_with("default/huge"), "{output}");
    assert!(lines[4].contains("cpu=100k"), "{output}");
    let report: serde_json::Value =
        serde_json::from_str(&run(&up, &["top", "--output=json"])).unwrap();
    assert_eq!(report["clusters"][0]["replicas"], 0, "{report}");
    assert_eq!(report["waiting"][0]["name"], "huge", "{report}");
}

#[needs(kubectl)]
#[test]
fn explain_lists_a_cause_and_a_remedy_for_each_cluster() {
    let up = Up::start(&["--members=3"]);
    let manifest = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let explained = |arguments: &[&str]| {
        until("the binding", || {
            let arguments = [&["explain", "deployment/nginx"], arguments].concat();
            let output = berth(up.home.path(), &arguments).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if text.contains("member1:1, member2:1; equals the decision")
                || text.contains("\"agrees\": true")
            {
                Ok(text)
            } else {
                Err(text)
            }
        })
    };
    let text = explained(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("Decided: ")
            && lines[1]
                .ends_with("by default-scheduler (ReconcileSchedule), from the scheduler's record"),
        "{text}"
    );
    assert_eq!(lines[2], "Now: the same decision would be made", "{text}");
    assert!(text.contains("Placed: member1:1, member2:1"), "{text}");
    assert!(
        text.contains("member3: add member3 to clusterNames of clusterAffinity"),
        "{text}"
    );
    let text = explained(&["--cluster=member3"]);
    assert!(
        text.contains("Smallest changes that would place the workload on member3"),
        "{text}"
    );
    let report = explained(&["--output=json"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["apiVersion"], "explain.berth.io/v1", "{report}");
    assert_eq!(report["source"]["origin"], "record", "{report}");
    // With --karmada-context and without --scheduler-url, the command reads no record of a scheduler. It recomputes the
    // decision, and the output reports this.
    let text = run(
        &up,
        &["explain", "deployment/nginx", "--karmada-context=berth"],
    );
    let recomputed = "Recomputed from the present clusters: no scheduler was asked";
    assert!(
        text.lines().nth(1).unwrap().starts_with(recomputed),
        "{text}"
    );
    let unknown = refused(up.home.path(), &["explain", "deployment/ngin"]);
    let message = line(&unknown);
    assert!(message.contains("did you mean"), "{message}");
}

#[needs(kubectl)]
#[test]
fn explain_lists_the_cause_and_the_smallest_fix_of_an_unplaced_binding() {
    let up = Up::start(&["--members=2"]);
    for member in ["member1", "member2"] {
        run(&up, &["taint", member, "maintenance=night:NoSchedule"]);
    }
    let manifest = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let explained = |arguments: &[&str]| {
        until("the failure", || {
            let arguments = [&["explain", "deployment/nginx"], arguments].concat();
            let output = berth(up.home.path(), &arguments).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() && text.contains("0/2 clusters are available") {
                Ok(text)
            } else {
                Err(text)
            }
        })
    };
    let text = explained(&[]);
    for expected in [
        "Not placed (NoClusterFit): none of 2 clusters fits",
        "Now: the same decision would be made",
        "Recorded: no cluster; equals the decision",
        "Condition: NoClusterFit: 0/2 clusters are available: 2 cluster(s) had untolerated taint {maintenance=night:NoSchedule}.",
        "tolerate maintenance=night:NoSchedule in the policy",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let report: serde_json::Value = serde_json::from_str(&explained(&["--output=json"])).unwrap();
    let fixes = report["fixes"].as_array().unwrap();
    assert_eq!(fixes[0]["changes"].as_array().unwrap().len(), 1, "{report}");
    // Removing the taint of member1 has the result that the command predicts.
    assert!(text.contains("result: member1:2"), "{text}");
    run(&up, &["taint", "member1", "maintenance-"]);
    until("the Deployment to be placed", || {
        let output = berth(up.home.path(), &["explain", "deployment/nginx"]).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        if text.contains("Recorded: member1:2; equals the decision") {
            Ok(())
        } else {
            Err(text)
        }
    });
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let up = Up::start(&["--members=1"]);
    let kubeconfig = up.kubeconfig().display().to_string();
    let member = [
        "--cluster-kubeconfig",
        &kubeconfig,
        "--cluster-context",
        "member1",
    ];
    for words in [
        ["completion", "bash"].as_slice(),
        &["version"],
        &["--help"],
        &["status"],
        &["get", "clusters"],
        &["cordon", "member1"],
        &["taint", "member1", "a=b:NoSchedule"],
        &["fail", "member1"],
        &["heal", "member1"],
        &[&["join", "member1"][..], &member].concat(),
        &[&["unjoin", "member1"][..], &member].concat(),
        &["down"],
    ] {
        let mut child = berth(up.home.path(), words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(
            ended.status.success() && ended.stderr.is_empty(),
            "{words:?}: {ended:?}"
        );
    }
}

#[test]
fn a_closed_log_pipe_ends_the_program_without_error() {
    let up = Up::start(&["--members=1"]);
    let kubeconfig = up.kubeconfig().display().to_string();
    for words in [
        &[
            "scheduler",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            "--leader-elect-resource-name=read",
        ][..],
        &[
            "controllers",
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            "--leader-elect-resource-name=read",
        ],
    ] {
        let log = up.home.path().join("first-line");
        let berth = env!("CARGO_BIN_EXE_berth");
        // PIPESTATUS[0] is the exit code of `berth`. The exit code of the pipe is the exit code of `head`.
        let script = format!(
            "'{berth}' {} --kubeconfig '{kubeconfig}' 2>&1 | head -n 1 > '{}'; exit ${{PIPESTATUS[0]}}",
            words.join(" "),
            log.display()
        );
        let ended = Command::new("bash")
            .args(["-c", &script])
            .env("RUST_LOG", "debug")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(0), "{words:?}: {ended:?}");
        assert!(ended.stderr.is_empty(), "{words:?}: {ended:?}");
        let log = std::fs::read_to_string(log).unwrap();
        assert_eq!(log.lines().count(), 1, "{words:?}: {log}");
    }
}

#[test]
fn the_scheduler_validates_its_configuration_before_it_listens() {
    let up = Up::start(&["--members=0"]);
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = up.kubeconfig().display().to_string();
    let ends = |plugins: &str, code: i32| {
        let flag = format!("--plugins={plugins}");
        let (metrics, probes) = (
            format!("--metrics-bind-address={address}"),
            format!("--health-probe-bind-address={address}"),
        );
        let words = [
            "scheduler",
            "--kubeconfig",
            &kubeconfig,
            &flag,
            &metrics,
            &probes,
        ];
        let output = berth(up.home.path(), &words)
            .env("RUST_LOG", "off")
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        line(&output)
    };
    let message = ends("Foo", 2);
    let expected = "error: --plugins: no plugin is named \"Foo\"; known plugins: APIEnablement, ";
    assert!(message.starts_with(expected), "{message}");
    let message = ends("*", 1);
    let expected = format!("error: cannot listen on {address}: ");
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn completion_scripts_are_valid() {
    let home = tempfile::tempdir().unwrap();
    for (shell, words) in [
        (
            "bash",
            ["simulate", "--cluster-kubeconfig", "--move-budget"],
        ),
        ("zsh", ["simulate", "--cluster-kubeconfig", "--move-budget"]),
        ("fish", ["simulate", "cluster-kubeconfig", "move-budget"]),
    ] {
        let output = berth(home.path(), &["completion", shell]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in words {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let checked = Command::new(shell)
            .arg("-n")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        // Scripts of shells that are not installed are not checked further.
        let Ok(mut checked) = checked else { continue };
        checked
            .stdin
            .take()
            .unwrap()
            .write_all(script.as_bytes())
            .unwrap();
        let checked = checked.wait_with_output().unwrap();
        assert!(checked.status.success(), "{shell}: {checked:?}");
    }
}

#[test]
fn fault_injection_requires_a_running_control_plane() {
    let home = tempfile::tempdir().unwrap();
    for command in ["fail", "heal"] {
        let line = line(&refused(home.path(), &[command, "member1"]));
        assert!(line.contains("start one with `berth up`"), "{line}");
    }
}
