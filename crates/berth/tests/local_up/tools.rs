//! What has to be there first.

use std::fs;

use crate::machine::{Machine, stderr};

#[test]
fn missing_tools_are_named_at_once() {
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
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{present:?}: {told}");
        for (tool, source) in SOURCES {
            let missing = !present.contains(&tool);
            assert_eq!(
                told.contains(&format!("  {tool} is not installed")),
                missing,
                "{present:?}, {tool}: {told}"
            );
            assert_eq!(
                told.contains(source),
                missing,
                "{present:?}, {tool}: {told}"
            );
        }
        assert_eq!(
            told.contains("cargo run --release -- up"),
            !present.contains(&"docker"),
            "{present:?}: {told}"
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
fn an_engine_that_does_not_answer_is_told() {
    let machine = Machine::complete();
    fs::write(machine.path("stand-ins/engine-is-down"), "").unwrap();
    let output = machine.run(&[]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("its engine does not answer"), "{told}");
    assert!(told.contains("cargo run --release -- up"), "{told}");
    assert!(!told.contains("not installed"), "{told}");
    assert_eq!(machine.calls(), [["docker", "info"]]);
}
