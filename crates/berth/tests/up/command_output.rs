//! Tests of the output of commands with a running control plane, and of commands whose standard output is closed.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};

use crate::program::{Up, berth, line, record, root, until};

/// Runs a command, checks that it succeeds, and returns its output.
fn run(up: &Up, arguments: &[&str]) -> String {
    let output = berth(up.home.path(), arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn fail_and_heal_report_whether_they_changed_the_member() {
    let up = Up::start(&["--members=1"]);
    let mut transcript = Transcript::new();
    for command in ["heal", "fail", "fail", "heal"] {
        up.record(&mut transcript, &format!("{command} member1"));
    }
    assert_snapshot!(transcript);
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

/// Waits until `berth explain` explains the example of a Deployment with a text.
fn wait_for_explanation(up: &Up, expected: &str) {
    until(expected, || {
        let output = berth(up.home.path(), &["explain", "deployment/nginx"]).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        if text.contains(expected) {
            Ok(())
        } else {
            Err(text)
        }
    });
}

/// A Deployment whose CPU request exceeds the capacity of every member, and its policy.
const HUGE: &str = include_str!("manifests/huge.json");

#[needs(kubectl)]
#[test]
fn top_shows_free_capacity_and_waiting_bindings() {
    let up = Up::start(&["--members=1"]);
    let manifest = up.home.path().join("huge.json");
    std::fs::write(&manifest, HUGE).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    until("the Deployment to wait", || {
        let output = run(&up, &["top"]);
        if output.contains("not enough") {
            Ok(())
        } else {
            Err(output)
        }
    });
    let mut transcript = Transcript::new();
    up.record(&mut transcript, "top");
    up.record(&mut transcript, "top --output=json");
    assert_snapshot!(transcript);
}

#[needs(kubectl)]
#[test]
fn explain_and_top_show_why_old_replicas_wait() {
    // No node of member3 can run the pods, and without estimators and node pools the scheduler does not know this.
    let up = Up::start(&[
        "--members=3",
        "--without=estimators",
        "--feature-gates=NodePoolEstimate=false",
    ]);
    for member in ["--context=member1", "--context=member2"] {
        up.kubectl(&[member, "label", "nodes", "--all", "disk=ssd"]);
    }
    let example = fs::read_to_string(root().join("examples/nginx.yaml")).unwrap();
    let containers = "      containers:\n";
    assert!(example.contains(containers));
    let selector = format!("      nodeSelector: {{disk: ssd}}\n{containers}");
    let manifest = up.home.path().join("nginx.yaml");
    fs::write(&manifest, example.replace(containers, &selector)).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    until("ready replicas", || {
        let path = "-o=jsonpath={.status.readyReplicas}";
        match up.kubectl(&["get", "deployment", "nginx", path]) {
            ready if ready == "2" => Ok(()),
            ready => Err(ready),
        }
    });
    assert!(!run(&up, &["top"]).contains("MOVING"));
    let placement = r#"{"spec":{"placement":{"clusterAffinity":{"clusterNames":["member3"]},
        "replicaScheduling":{"replicaDivisionPreference":"Aggregated","weightPreference":null}}}}"#;
    let policy = "propagationpolicy/nginx-propagation";
    up.kubectl(&["patch", policy, "--type=merge", "-p", placement]);
    wait_for_explanation(&up, "Moving: waiting for replicas to become ready: 0 of ");
    let report = run(&up, &["explain", "deployment/nginx", "--output=json"]);
    assert!(report.contains("\"WaitingForReplicas\""), "{report}");
    let top = run(&up, &["top"]);
    let row = top.lines().last().unwrap_or_default();
    assert!(
        row.starts_with("default/Deployment nginx   ") && row.contains("   WaitingForReplicas   "),
        "{top}"
    );
}

#[needs(kubectl)]
#[test]
fn explain_lists_a_cause_and_a_remedy_for_each_cluster() {
    let up = Up::start(&["--members=3"]);
    // Two and three members share six replicas equally. The order of ties depends on the random UID of the binding.
    let example = fs::read_to_string(root().join("examples/nginx.yaml")).unwrap();
    let manifest = up.home.path().join("nginx.yaml");
    fs::write(&manifest, example.replace("replicas: 2", "replicas: 6")).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    wait_for_explanation(&up, "the template shows 6 ready replicas");
    let mut transcript = Transcript::new();
    for flag in ["", " --cluster=member3", " --output=json"] {
        up.record(&mut transcript, &format!("explain deployment/nginx{flag}"));
    }
    // With this flag, no scheduler is asked for its record.
    let recomputed = run(
        &up,
        &["explain", "deployment/nginx", "--karmada-context=berth"],
    );
    transcript.about("explain deployment/nginx --karmada-context=berth");
    let decision = recomputed
        .lines()
        .skip_while(|line| !line.starts_with("ResourceBinding"));
    transcript.lines(&decision.take(4).collect::<Vec<_>>().join("\n"));
    up.record(&mut transcript, "explain deployment/ngin");
    assert_snapshot!(transcript);
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
    wait_for_explanation(&up, "Recorded: no cluster; equals the decision");
    let mut transcript = Transcript::new();
    for command in [
        "explain deployment/nginx",
        "explain deployment/nginx --output=json",
        "taint member1 maintenance-",
    ] {
        up.record(&mut transcript, command);
    }
    // Removing the taint of member1 has the result that the command predicts.
    assert!(transcript.text().contains("result: member1:2"));
    wait_for_explanation(&up, "Recorded: member1:2; equals the decision");
    assert_snapshot!(transcript);
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
    let mut transcript = Transcript::new();
    for command in ["fail", "heal"] {
        record(&mut transcript, home.path(), &format!("{command} member1"));
    }
    assert_snapshot!(transcript);
}
