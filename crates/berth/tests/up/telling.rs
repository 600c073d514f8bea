//! What kubectl tells of pods in a simulated member, as it would of pods in a real one.

use crate::program::{Up, until};

/// What `kubectl describe` prints, when all of these are in it.
fn described(up: &Up, what: &str, expected: &[&str]) {
    until("the events", || {
        let text = up.in_member("member1", &["describe", what]).unwrap();
        match expected.iter().find(|word| !text.contains(**word)) {
            None => Ok(()),
            Some(word) => Err(format!("{word} is not in {text}")),
        }
    });
}

fn in_member(up: &Up, words: &str) -> Option<String> {
    let words: Vec<&str> = words.split(' ').collect();
    up.in_member("member1", &words)
}

/// Waits for an event with this reason and these words.
fn told(up: &Up, reason: &str, words: &str) {
    let get = format!("get events --field-selector=reason={reason}");
    until(words, || {
        let events = in_member(up, &get).unwrap();
        if events.contains(words) {
            Ok(())
        } else {
            Err(events)
        }
    });
}

#[test]
fn pods_have_events_and_a_rollout_can_be_undone() {
    let up = Up::start(&["--members=1"]);
    if in_member(&up, "create deployment web --image=one").is_none() {
        return;
    }
    in_member(&up, "rollout status deployment/web --timeout=60s").unwrap();
    let life = [
        "Scheduled ",
        "Successfully assigned default/web-",
        "Container image \"one\" already present",
        "Created container: one",
        "Started container one",
    ];
    described(&up, "pod", &life);
    described(&up, "replicaset", &["Created pod: web-"]);
    described(&up, "deployment", &["Scaled up replica set web-"]);

    in_member(&up, "set image deployment/web one=two").unwrap();
    in_member(&up, "rollout status deployment/web --timeout=60s").unwrap();
    in_member(&up, "rollout undo deployment/web").unwrap();
    in_member(&up, "rollout status deployment/web --timeout=60s").unwrap();
    until("the history", || {
        let history = in_member(&up, "rollout history deployment/web").unwrap();
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
    // The pod of the former template.
    told(&up, "Killing", "Stopping container one");
}

#[test]
fn failures_are_told_with_counts() {
    let up = Up::start(&["--members=1"]);
    if in_member(&up, "create deployment web --image=one").is_none() {
        return;
    }
    in_member(&up, "annotate deployment/web simulation.berth/fails=crash").unwrap();
    described(
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
    )
    .unwrap();
    described(
        &up,
        "pod",
        &["Failed to pull image", "Error: ImagePullBackOff"],
    );
    let resources = "set resources deployment/web --requests=cpu=1000";
    in_member(&up, resources).unwrap();
    told(
        &up,
        "FailedScheduling",
        "0/4 nodes are available: 4 Insufficient cpu.",
    );
}

#[test]
fn what_needs_a_container_is_refused_in_words() {
    let up = Up::start(&["--members=1"]);
    if in_member(&up, "run web --image=one").is_none() {
        return;
    }
    in_member(&up, "wait pod/web --for=condition=Ready --timeout=60s").unwrap();
    for words in [
        "logs web",
        "exec web -- ls",
        "attach web",
        "port-forward web 8080:80",
        // It waits for its container, and attaches to it.
        "debug web -it --image=busybox --profile=general",
    ] {
        let all: Vec<&str> = std::iter::once("--context=member1")
            .chain(words.split(' '))
            .collect();
        let output = up.run_kubectl(&all).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("has no kubelet"), "{words}: {said}");
    }
}
