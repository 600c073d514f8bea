//! Tests of `berth diff` with a running control plane, which forwards the requests to its members.

use std::process::Output;

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};

use crate::program::{Up, berth, root, until};

fn diff(up: &Up, arguments: &[&str]) -> Output {
    let words = [&["diff", "deployment/nginx"], arguments].concat();
    berth(up.home.path(), &words).output().unwrap()
}

/// Waits until the command ends with an exit code.
fn wait_for_code(up: &Up, code: i32) {
    until(&format!("exit code {code} of berth diff"), || {
        let output = diff(up, &[]);
        if output.status.code() == Some(code) {
            Ok(())
        } else {
            Err(format!("{output:?}"))
        }
    });
}

#[needs(kubectl)]
#[test]
fn diff_shows_what_members_and_override_policies_change() {
    let up = Up::start(&["--members=3"]);
    for example in ["nginx.yaml", "nginx-override.yaml"] {
        let manifest = root().join("examples").join(example);
        up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    }
    let report = ["annotate", "deployment", "nginx", "drift.berth/mode=report"];
    up.kubectl(&report);
    until("the override policy and the annotation", || {
        let output = diff(&up, &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_current = text.matches("drift.berth/mode=report").count() == 2
            && text.contains("(by OverridePolicy nginx-override)")
            && output.status.code() == Some(0);
        if is_current { Ok(()) } else { Err(text) }
    });
    let edit = r#"{"spec":{"paused":true,"replicas":4}}"#;
    up.in_member(
        "member1",
        &["patch", "deployment", "nginx", "--type=merge", "-p", edit],
    );
    let mut transcript = Transcript::new();
    for command in [
        "diff deployment/nginx",
        "diff deployment nginx --cluster=member1 --output=json",
        "diff nginx --cluster=member2",
        "diff nginx --cluster=member3",
        "diff ngin",
    ] {
        up.record(&mut transcript, command);
    }
    assert_snapshot!(transcript);

    let failed = berth(up.home.path(), &["fail", "member2"])
        .output()
        .unwrap();
    assert!(failed.status.success());
    wait_for_code(&up, 2);
    let text = String::from_utf8(diff(&up, &[]).stdout).unwrap();
    assert!(
        text.contains("member2: cannot be read: ")
            && text.contains("cannot reach cluster member2")
            && text.contains("+ spec.paused: true"),
        "{text}"
    );
    // Without the annotation, the controllers correct the drift.
    let correct = ["annotate", "deployment", "nginx", "drift.berth/mode-"];
    up.kubectl(&correct);
    until("the correction", || {
        let output = diff(&up, &["--cluster=member1"]);
        match output.status.code() {
            Some(0) => Ok(()),
            _ => Err(format!("{output:?}")),
        }
    });
}
