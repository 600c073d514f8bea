//! Tests of the pages docs/members.md, docs/drift.md, docs/failover.md, docs/maintain-a-cluster.md, docs/capacity.md,
//! docs/quotas.md, docs/queues.md, docs/cluster-scores.md, docs/gangs.md, docs/placement-limits.md and
//! docs/preemption.md: the commands in the pages must succeed.

use berth_test_requirements::needs;
use std::process::Command;

use crate::program::{BackgroundProcess, Up, berth, root, until};

/// Returns the commands in the shell blocks of a page.
pub(crate) fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
    let blocks = text.split("\n```sh\n").skip(1);
    let lines = blocks.flat_map(|block| block.split("\n```").next().unwrap().lines());
    lines.map(str::to_owned).collect()
}

/// Runs a command repeatedly until it succeeds, because the effects of earlier commands may be delayed.
fn run(up: &Up, words: &[&str]) {
    until(&words.join(" "), || {
        let mut command = match words {
            ["berth", arguments @ ..] => berth(up.home.path(), arguments),
            ["kubectl", arguments @ ..] => {
                let mut command = Command::new("kubectl");
                command.args(arguments).env("KUBECONFIG", up.kubeconfig());
                command
            }
            _ => panic!("unknown program in {words:?}"),
        };
        let output = command.current_dir(root()).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
}

/// Runs the commands of a page. The command `berth up` replaces the control plane of the previous `berth up`, and the
/// command `berth scheduler` runs in the background.
fn run_page(page: &str) -> Up {
    let commands = commands(page);
    assert!(
        commands.len() >= 3,
        "{page} shows fewer than three commands"
    );
    let mut up = Up::start(&["--members=2"]);
    let mut schedulers = Vec::new();
    for command in commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            ["berth", "up", arguments @ ..] => up = Up::start(arguments),
            ["berth", "scheduler", "--kubeconfig", _, flag, file] => {
                let file = root().join(file);
                let arguments = [
                    "scheduler",
                    flag,
                    file.to_str().unwrap(),
                    "--health-probe-bind-address=0",
                    "--metrics-bind-address=0",
                ];
                schedulers.push(BackgroundProcess::start(&up, &arguments));
            }
            words => run(&up, words),
        }
    }
    up
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_members_succeed() {
    run_page("members.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_placement_limits_succeed() {
    let up = run_page("placement-limits.md");
    let output = berth(up.home.path(), &["explain", "deployment/web"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for reason in [
        "1 of 6 replicas: at most 1 by scheduling.berth/replica-limits",
        "3 of 6 replicas: at least 3 by scheduling.berth/replica-limits",
        "2 of 6 replicas, within scheduling.berth/replica-limits",
    ] {
        assert!(text.contains(reason), "{text}");
    }
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_drift_succeed() {
    run_page("drift.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_failover_succeed() {
    run_page("failover.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_maintenance_succeed() {
    run_page("maintain-a-cluster.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_capacity_succeed() {
    run_page("capacity.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_quotas_succeed() {
    run_page("quotas.md");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_queues_lend_quota_and_return_it() {
    let up = run_page("queues.md");
    let train = [
        "get",
        "resourcebinding",
        "-n",
        "red",
        "train-deployment",
        "-o",
    ];
    let message = "jsonpath={.status.conditions[?(@.type=='Scheduled')].message}";
    let train = up.kubectl(&[&train[..], &[message]].concat());
    assert!(train.starts_with("ClusterQueue red: "), "{train}");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_gangs_schedule_all_bindings() {
    let up = run_page("gangs.md");
    let scheduled = "jsonpath={.items[*].status.conditions[?(@.type=='Scheduled')].status}";
    let get = ["get", "resourcebindings", "-o", scheduled];
    assert_eq!(up.kubectl(&get), "True True True");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_cluster_scores_move_the_workload() {
    let up = run_page("cluster-scores.md");
    let explain = [
        "explain",
        "deployment/web",
        "--cluster=member2",
        "--config=examples/cluster-scores/config.yaml",
    ];
    let explained = berth(up.home.path(), &explain)
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&explained.stdout);
    let expired = "score carbon in ClusterScore carbon-member2 expired at 2026-01-01T00:00:00Z";
    assert!(text.contains(expired), "{text}");
    let scores = up.kubectl(&["get", "clusterscores"]);
    assert!(scores.contains(r#"member2   {"carbon":120}"#), "{scores}");
}

#[needs(kubectl)]
#[test]
fn the_commands_in_the_page_on_preemption_evict_the_binding_of_lower_priority() {
    let up = run_page("preemption.md");
    let left = ["get", "deployments", "-o", "name"];
    assert_eq!(up.in_member("member1", &left), "deployment.apps/high\n");
    let description = up.kubectl(&["describe", "resourcebinding", "low-deployment"]);
    let preempted = "preempted by ResourceBinding default/high-deployment of priority 1000";
    assert!(description.contains(preempted));
}
