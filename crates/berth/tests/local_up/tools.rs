//! Tests of hack/local-up.sh on a machine without docker, kind or kubectl, and on a machine with a Docker engine that
//! does not respond.

use std::fs;

use crate::machine::{Machine, stderr};

#[test]
fn the_error_lists_all_missing_tools() {
    const SOURCES: [(&str, &str); 3] = [
        ("docker", "https://docs.docker.com/get-docker/"),
        ("kind", "https://kind.sigs.k8s.io/"),
        ("kubectl", "https://kubernetes.io/docs/tasks/tools/"),
    ];
    for present in [
        &[][..],
        &["docker"],
        &["kind", "kubectl"],
        &["docker", "kubectl"],
    ] {
        let machine = Machine::with(present);
        let output = machine.run(&[]);
        let printed = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{present:?}: {printed}");
        for (tool, source) in SOURCES {
            let missing = !present.contains(&tool);
            assert_eq!(
                printed.contains(&format!("  {tool} is not installed")),
                missing,
                "{present:?}, {tool}: {printed}"
            );
            assert_eq!(
                printed.contains(source),
                missing,
                "{present:?}, {tool}: {printed}"
            );
        }
        assert_eq!(
            printed.contains("cargo run -- up"),
            !present.contains(&"docker"),
            "{present:?}: {printed}"
        );
        assert!(!machine.path("home/.kube").exists());
        assert!(
            machine
                .calls()
                .iter()
                .all(|call| call[..] == ["docker", "info"]),
            "{:?}",
            machine.calls()
        );
    }
}

#[test]
fn an_unresponsive_docker_engine_is_reported() {
    let machine = Machine::complete();
    fs::write(machine.path("fake-tools/engine-is-down"), "").unwrap();
    let output = machine.run(&[]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("its engine does not respond"), "{printed}");
    assert!(printed.contains("cargo run -- up"), "{printed}");
    assert!(!printed.contains("not installed"), "{printed}");
    assert_eq!(machine.calls(), [["docker", "info"]]);
}
