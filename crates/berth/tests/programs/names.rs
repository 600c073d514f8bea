//! Tests that help texts, versions and errors contain the name under which the binary is called.

use berth_test_transcripts::{Transcript, assert_snapshot};

use super::command_line::run;

/// For each name of the binary: the path, the command that a user types, and the first word of the printed version.
const NAMES: [(&str, &str, &str); 6] = [
    ("/usr/local/bin/berth", "berth", "berth"),
    ("/usr/local/bin/kubectl-berth", "kubectl berth", "berth"),
    (
        "/bin/karmada-scheduler",
        "karmada-scheduler",
        "karmada-scheduler",
    ),
    (
        "/bin/karmada-controller-manager",
        "karmada-controller-manager",
        "karmada-controller-manager",
    ),
    ("/bin/karmada-webhook", "karmada-webhook", "karmada-webhook"),
    (
        "/bin/karmada-scheduler-estimator",
        "karmada-scheduler-estimator",
        "karmada-scheduler-estimator",
    ),
];

#[test]
fn usage_and_version_contain_the_name() {
    let full = run("berth", &["version"]);
    let full = String::from_utf8(full.stdout).unwrap();
    let full = full.trim_start_matches("berth ");
    assert!(full.starts_with(env!("CARGO_PKG_VERSION")), "{full}");
    for (path, called, name) in NAMES {
        let help = run(path, &["--help"]);
        let help = String::from_utf8(help.stdout).unwrap();
        let usage = help.lines().find(|line| line.starts_with("Usage: "));
        let words = usage.unwrap_or_default().trim_start_matches("Usage: ");
        assert!(words.starts_with(&format!("{called} ")), "{path}: {help}");
        for words in [&["version"][..], &["--version"]] {
            let version = run(path, words);
            assert!(version.status.success(), "{version:?}");
            let version = String::from_utf8(version.stdout).unwrap();
            assert_eq!(version, format!("{name} {full}"), "{path} {words:?}");
        }
    }
}

/// Each command, in the order of `berth --help`.
const COMMANDS: &[&str] = &[
    "up",
    "status",
    "down",
    "watch",
    "dashboard",
    "top",
    "join",
    "unjoin",
    "uninstall",
    "get",
    "get clusters",
    "cordon",
    "uncordon",
    "taint",
    "fail",
    "heal",
    "controllers",
    "scheduler",
    "webhook",
    "estimator",
    "explain",
    "simulate",
    "replay",
    "interpret",
    "completion",
    "man",
    "version",
];

#[test]
fn help_shows_every_command_and_flag() {
    let mut transcript = Transcript::new();
    transcript.ran(
        &["kubectl berth --help"],
        &run("kubectl-berth", &["--help"]),
    );
    for command in COMMANDS {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let output = run("berth", &words);
        transcript.ran(&[&["berth"], &*words].concat(), &output);
    }
    assert_snapshot!(transcript);
}

#[test]
fn the_error_about_an_unknown_flag_is_one_line() {
    let mut transcript = Transcript::new();
    for (path, called, _) in NAMES {
        let output = run(path, &["--no-such-flag=1"]);
        assert_eq!(output.status.code(), Some(2), "{path}: {output:?}");
        transcript.ran(&[called, "--no-such-flag=1"], &output);
    }
    assert_snapshot!(transcript);
}

#[test]
fn the_kubectl_plugin_prints_commands_with_the_prefix_kubectl() {
    let text = |words: &[&str]| {
        let output = run("kubectl-berth", words);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for words in [
        &["--help"][..],
        &["help", "join"],
        &["completion", "--help"],
    ] {
        let help = text(words);
        assert!(help.contains("kubectl berth "), "{words:?}: {help}");
        let others = help.replace("kubectl berth ", "");
        for command in ["up", "join", "simulate", "scheduler"] {
            let line = format!("berth {command}");
            assert!(!others.contains(&line), "{words:?}: {line} in {help}");
        }
    }
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("no-such-folder");
    let error = text(&["status", "--kubeconfig", data.to_str().unwrap()]);
    let others = error.replace("kubectl berth up", "");
    assert!(others != error && !others.contains("berth up"), "{error}");
}

#[test]
fn commands_and_subcommands_have_manual_pages() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("man1");
    let output = run("berth", &["man", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let page = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.1"))).unwrap();
    for (name, expected) in [
        ("berth", "berth\\-up(1)"),
        ("berth-up", "\\-\\-data\\-dir"),
        ("berth-get-clusters", ".SH NAME"),
        ("berth-scheduler", "\\-\\-scheduler\\-name"),
    ] {
        let text = page(name);
        assert!(text.contains(expected), "{name}: {text}");
    }
    // Flags without effect are hidden.
    assert!(!page("berth-scheduler").contains("vmodule"));
}
