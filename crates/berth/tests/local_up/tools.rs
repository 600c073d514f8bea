//! Tests of hack/local-up.sh on a machine without docker, kind or kubectl, and on a machine with a Docker engine that
//! does not respond.

use std::fs;

use berth_test_transcripts::assert_snapshot;

use crate::machine::{Machine, transcript};

#[test]
fn missing_tools_and_an_unresponsive_engine_are_reported() {
    let mut refusals = transcript();
    for present in [
        &[][..],
        &["docker"],
        &["kind", "kubectl"],
        &["docker", "kubectl"],
        &["docker", "kind", "kubectl"],
    ] {
        let machine = Machine::with(present);
        if present.len() == 3 {
            fs::write(machine.path("fake-tools/engine-is-down"), "").unwrap();
        }
        refusals.about(&format!("installed: {}", present.join(", ")));
        let code = machine.record(&mut refusals, &[], &[]);
        assert_eq!(code, Some(1), "{present:?}");
        assert!(!machine.path("home/.kube").exists());
        let calls = machine.calls();
        assert!(
            calls.iter().all(|call| call[..] == ["docker", "info"]),
            "{calls:?}"
        );
    }
    assert_snapshot!(refusals);
}
