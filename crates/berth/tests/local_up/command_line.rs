//! Tests of the command line of hack/local-up.sh: help, invalid arguments, dry runs and environment variables.

use berth_test_transcripts::assert_snapshot;

use crate::machine::{Machine, repository, transcript};

#[test]
fn the_help_lists_flags_and_variables() {
    let machine = Machine::bare();
    let mut transcript = transcript();
    machine.record(&mut transcript, &["--help"], &[]);
    assert_snapshot!(transcript);
    machine.assert_untouched();
}

#[test]
fn invalid_arguments_names_and_ports_are_refused() {
    let machine = Machine::complete();
    let mut transcript = transcript();
    let long = "m".repeat(49);
    let variable = |name, value| (&[][..], Some((name, value)));
    for (arguments, variable) in [
        (&["--dryrun"][..], None),
        (&["--dry-run", "--upp"], None),
        (&["192.0.2.1"], None),
        (&["--with-karmada", "--down"], None),
        variable("MEMBER_CLUSTER_1_NAME", "Member"),
        variable("MEMBER_CLUSTER_2_NAME", "a.b"),
        variable("HOST_CLUSTER_NAME", &*long),
        variable("MEMBER_CLUSTER_1_NAME", "member2"),
        variable("MEMBER_CLUSTER_3_NAME", "karmada-host"),
        variable("KARMADA_APISERVER_PORT", "65536"),
        variable("KARMADA_APISERVER_PORT", "https"),
    ] {
        let code = machine.record(&mut transcript, arguments, variable.as_slice());
        assert_eq!(code, Some(2), "{arguments:?} {variable:?}");
    }
    assert_snapshot!(transcript);
    machine.assert_untouched();
}

#[test]
fn a_dry_run_needs_no_tools_and_names_every_step() {
    let machine = Machine::bare();
    let mut plan = transcript();
    machine.record(&mut plan, &["--dry-run"], &[]);
    assert_snapshot!(plan);
    machine.assert_untouched();

    let machine = Machine::complete();
    for action in [&[][..], &["--down"], &["--with-karmada"], &["--restore"]] {
        machine.succeed(&[&["--dry-run"], action].concat());
    }
    machine.assert_untouched();
}

#[test]
fn the_variables_of_karmadas_script_are_used() {
    let machine = Machine::bare();
    let mut plan = transcript();
    let variables = [
        ("KUBECONFIG_PATH", "configs"),
        ("MEMBER_CLUSTER_KUBECONFIG", "/elsewhere/m"),
        ("HOST_CLUSTER_NAME", "the-host"),
        ("KARMADA_APISERVER_CLUSTER_NAME", "the-plane"),
        ("MEMBER_CLUSTER_1_NAME", "one"),
        ("MEMBER_CLUSTER_2_NAME", "two"),
        ("MEMBER_CLUSTER_3_NAME", "three"),
        ("KARMADA_APISERVER_PORT", "6001"),
        ("CLUSTER_VERSION", "kindest/node:v1.31.0"),
    ];
    machine.record(&mut plan, &["--dry-run"], &variables);
    let text = plan.text();
    for default in [
        "karmada-host",
        "--context=karmada-apiserver",
        "member1",
        "member2",
    ] {
        assert!(!text.contains(default), "{default}\n{text}");
    }
    assert_snapshot!(plan);
    machine.assert_untouched();
}

#[test]
fn every_file_that_the_script_applies_exists() {
    let machine = Machine::bare();
    let plan = machine.succeed(&["--dry-run"]);
    let files: Vec<&str> = plan
        .split_whitespace()
        .filter_map(|word| {
            word.strip_prefix("--filename=")
                .or_else(|| word.strip_prefix("--file="))
        })
        .filter(|file| !file.starts_with("WORKDIR/"))
        .collect();
    assert!(files.len() >= 8, "{files:?}");
    for file in files {
        assert!(repository().join(file).exists(), "{file}");
    }
}
