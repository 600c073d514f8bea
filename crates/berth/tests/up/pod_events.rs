//! Tests of the events of pods in a simulated member, and of kubectl commands that need a container and are refused.

use crate::program::{Up, until};
use berth_test_requirements::needs;

/// Waits until `kubectl describe` in the member prints all expected texts.
fn wait_for_description(up: &Up, what: &str, expected: &[&str]) {
    until("the events", || {
        let text = up.in_member("member1", &["describe", what]);
        match expected.iter().find(|word| !text.contains(**word)) {
            None => Ok(()),
            Some(word) => Err(format!("{word} is not in {text}")),
        }
    });
}

fn in_member(up: &Up, words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    up.in_member("member1", &words)
}

/// Waits for an event in the member with a reason and a message.
fn wait_for_event(up: &Up, reason: &str, words: &str) {
    let get = format!("get events --field-selector=reason={reason}");
    until(words, || {
        let events = in_member(up, &get);
        if events.contains(words) {
            Ok(())
        } else {
            Err(events)
        }
    });
}

#[needs(kubectl)]
#[test]
fn pods_have_events_and_a_rollout_can_be_undone() {
    let up = Up::start(&["--members=1"]);
    in_member(&up, "create deployment web --image=one");
    in_member(&up, "rollout status deployment/web --timeout=60s");
    let life = [
        "Scheduled ",
        "Successfully assigned default/web-",
        "Container image \"one\" already present",
        "Created container: one",
        "Started container one",
    ];
    wait_for_description(&up, "pod", &life);
    wait_for_description(&up, "replicaset", &["Created pod: web-"]);
    wait_for_description(&up, "deployment", &["Scaled up replica set web-"]);

    in_member(&up, "set image deployment/web one=two");
    in_member(&up, "rollout status deployment/web --timeout=60s");
    in_member(&up, "rollout undo deployment/web");
    in_member(&up, "rollout status deployment/web --timeout=60s");
    until("the history", || {
        let history = in_member(&up, "rollout history deployment/web");
        let revisions: Vec<&str> = history
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .filter(|word| word.parse::<u32>().is_ok())
            .collect();
        if revisions == ["2", "3"] {
            Ok(())
        } else {
            Err(history)
        }
    });
    // The rollout has stopped the pod of the previous template.
    wait_for_event(&up, "Killing", "Stopping container one");
}

#[needs(kubectl)]
#[test]
fn injected_failures_and_missing_capacity_cause_events() {
    let up = Up::start(&["--members=1"]);
    in_member(&up, "create deployment web --image=one");
    in_member(&up, "annotate deployment/web simulation.berth/fails=crash");
    wait_for_description(
        &up,
        "pod",
        &[
            "Back-off restarting failed container one",
            "CrashLoopBackOff",
        ],
    );
    in_member(
        &up,
        "annotate --overwrite deployment/web simulation.berth/fails=pull",
    );
    wait_for_description(
        &up,
        "pod",
        &["Failed to pull image", "Error: ImagePullBackOff"],
    );
    let resources = "set resources deployment/web --requests=cpu=1000";
    in_member(&up, resources);
    wait_for_event(
        &up,
        "FailedScheduling",
        "0/4 nodes are available: 4 Insufficient cpu.",
    );
}

#[needs(kubectl)]
#[test]
fn commands_that_need_a_container_are_refused_with_a_reason() {
    let up = Up::start(&["--members=1"]);
    in_member(&up, "run web --image=one");
    in_member(&up, "wait pod/web --for=condition=Ready --timeout=60s");
    for words in [
        "logs web",
        "exec web -- ls",
        "attach web",
        "port-forward web 8080:80",
        // This command adds a container, waits until it runs, and attaches to it.
        "debug web -it --image=busybox --profile=general",
    ] {
        let all: Vec<&str> = std::iter::once("--context=member1")
            .chain(words.split(' '))
            .collect();
        let output = up.run_kubectl(&all);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("has no kubelet"), "{words}: {message}");
    }
}
