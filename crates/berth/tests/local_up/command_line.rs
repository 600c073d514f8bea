//! Tests of the command line of hack/local-up.sh: help, invalid arguments, dry runs and environment variables.

use crate::machine::{Machine, repository, stderr, stdout};

#[test]
fn the_help_lists_flags_and_variables() {
    let machine = Machine::bare();
    let help = machine.succeed(&["--help"]);
    for word in [
        "Usage: hack/local-up.sh",
        "--dry-run",
        "--down",
        "--with-karmada",
        "--restore",
        "hack/local-down.sh",
        "Pull mode",
        "Exit codes",
        "--help",
        "KUBECONFIG_PATH",
        "MAIN_KUBECONFIG",
        "MEMBER_CLUSTER_KUBECONFIG",
        "HOST_CLUSTER_NAME",
        "KARMADA_APISERVER_CLUSTER_NAME",
        "MEMBER_CLUSTER_1_NAME",
        "MEMBER_CLUSTER_2_NAME",
        "MEMBER_CLUSTER_3_NAME",
        "KARMADA_APISERVER_PORT",
        "CLUSTER_VERSION",
        "cargo run -- up",
    ] {
        assert!(help.contains(word), "{word}\n{help}");
    }
    machine.assert_untouched();
}

#[test]
fn unknown_arguments_are_refused() {
    let machine = Machine::complete();
    for arguments in [&["--dryrun"][..], &["--dry-run", "--upp"], &["192.0.2.1"]] {
        let output = machine.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "");
        let wrong = arguments[arguments.len() - 1];
        assert!(
            stderr(&output).contains(&format!("unknown argument '{wrong}'")),
            "{}",
            stderr(&output)
        );
        assert!(stderr(&output).contains("--help"), "{}", stderr(&output));
    }
    machine.assert_untouched();
}

#[test]
fn invalid_cluster_names_and_ports_are_refused() {
    let machine = Machine::complete();
    let long = "m".repeat(49);
    for (variable, name, reason) in [
        (
            "MEMBER_CLUSTER_1_NAME",
            "Member",
            "'Member' cannot name a cluster",
        ),
        (
            "MEMBER_CLUSTER_2_NAME",
            "a.b",
            "'a.b' cannot name a cluster",
        ),
        ("HOST_CLUSTER_NAME", long.as_str(), "at most 48"),
        (
            "MEMBER_CLUSTER_1_NAME",
            "member2",
            "'member2' is given to two clusters",
        ),
        (
            "MEMBER_CLUSTER_3_NAME",
            "karmada-host",
            "'karmada-host' is given to two clusters",
        ),
        ("KARMADA_APISERVER_PORT", "65536", "which is no port"),
        ("KARMADA_APISERVER_PORT", "https", "which is no port"),
    ] {
        let output = machine.command(&[]).env(variable, name).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{variable}={name}");
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
    }
    machine.assert_untouched();
}

#[test]
fn a_dry_run_needs_no_tools_and_names_every_step() {
    let machine = Machine::bare();
    let plan = machine.succeed(&["--dry-run"]);
    let home = machine.path("home").display().to_string();
    let mut rest = plan.as_str();
    // The plan must contain the steps in this order.
    for step in [
        "docker build --file=deploy/Dockerfile --tag=berth:latest .".to_owned(),
        format!("kind create cluster --name=karmada-host --image=kindest/node:v1.36.1 --kubeconfig={home}/.kube/karmada.config"),
        format!("kind create cluster --name=member1 --image=kindest/node:v1.36.1 --kubeconfig={home}/.kube/members.config"),
        "kind create cluster --name=member2".to_owned(),
        "kind load docker-image berth:latest --name=karmada-host".to_owned(),
        "--context=karmada-host apply --filename=deploy/namespace.yaml".to_owned(),
        "kubeadm init phase certs all".to_owned(),
        "kubeadm init phase kubeconfig super-admin".to_owned(),
        "kubeadm init phase kubeconfig controller-manager".to_owned(),
        "--context=karmada-host apply --filename=WORKDIR/control-plane.yaml".to_owned(),
        "statefulset/karmada-apiserver".to_owned(),
        "deployment/karmada-kube-controller-manager".to_owned(),
        format!("cp WORKDIR/merged {home}/.kube/karmada.config"),
        "--context=karmada-apiserver get --raw=/readyz".to_owned(),
        "--context=karmada-apiserver apply --filename=deploy/namespace.yaml".to_owned(),
        "--context=karmada-apiserver apply --server-side --force-conflicts --filename=crds".to_owned(),
        "wait --for=condition=Established".to_owned(),
        "--context=karmada-apiserver apply --filename=deploy/scheduler/rbac.yaml --filename=deploy/controllers/rbac.yaml".to_owned(),
        "--context=karmada-apiserver get secret berth-scheduler-token".to_owned(),
        "--context=karmada-host create secret generic karmada-scheduler-config --namespace=karmada-system".to_owned(),
        "--context=karmada-host create secret generic berth-controllers-config --namespace=karmada-system".to_owned(),
        "--context=karmada-host apply --filename=deploy/scheduler/default-scheduler.yaml --filename=WORKDIR/controllers.yaml".to_owned(),
        "deployment/karmada-scheduler".to_owned(),
        "deployment/berth-controllers".to_owned(),
        "berth:latest join member1 --kubeconfig=/kubeconfigs/karmada-apiserver".to_owned(),
        "kind get kubeconfig --internal --name=member2".to_owned(),
        "berth:latest join member2".to_owned(),
        "--context=karmada-apiserver wait --for=condition=Ready --timeout=3m clusters.cluster.karmada.io member1 member2".to_owned(),
    ] {
        let at = rest.find(&step);
        assert!(at.is_some(), "{step:?} is missing or too early:\n{plan}");
        rest = &rest[at.unwrap_or_default() + step.len()..];
    }
    assert!(
        !plan.contains("is up"),
        "the plan claims that the clusters are up:\n{plan}"
    );
    machine.assert_untouched();

    let machine = Machine::complete();
    machine.succeed(&["--dry-run"]);
    machine.succeed(&["--dry-run", "--down"]);
    machine.succeed(&["--dry-run", "--with-karmada"]);
    machine.succeed(&["--dry-run", "--restore"]);
    machine.assert_untouched();
}

#[test]
fn the_variables_of_karmadas_script_are_used() {
    let machine = Machine::bare();
    let output = machine
        .command(&["--dry-run"])
        .env("KUBECONFIG_PATH", "configs")
        .env("MEMBER_CLUSTER_KUBECONFIG", "/elsewhere/m")
        .env("HOST_CLUSTER_NAME", "the-host")
        .env("KARMADA_APISERVER_CLUSTER_NAME", "the-plane")
        .env("MEMBER_CLUSTER_1_NAME", "one")
        .env("MEMBER_CLUSTER_2_NAME", "two")
        .env("MEMBER_CLUSTER_3_NAME", "three")
        .env("KARMADA_APISERVER_PORT", "6001")
        .env("CLUSTER_VERSION", "kindest/node:v1.31.0")
        .output()
        .unwrap();
    let plan = stdout(&output);
    let configs = machine
        .path("home/configs")
        .canonicalize()
        .unwrap_or_else(|_| machine.path("home/configs"));
    for expected in [
        format!(
            "--name=the-host --image=kindest/node:v1.31.0 --kubeconfig={}/karmada.config",
            configs.display()
        ),
        "--name=one --image=kindest/node:v1.31.0 --kubeconfig=/elsewhere/m".to_owned(),
        "set-context the-host --cluster=kind-the-host".to_owned(),
        "s|server: .*|server: https://127.0.0.1:6001|".to_owned(),
        "join two --kubeconfig=/kubeconfigs/the-plane --cluster-kubeconfig=/kubeconfigs/two"
            .to_owned(),
        "join three".to_owned(),
    ] {
        assert!(plan.contains(&expected), "{expected}\n{plan}");
    }
    for default in [
        "karmada-host",
        "--context=karmada-apiserver",
        "member1",
        "member2",
    ] {
        assert!(!plan.contains(default), "{default}\n{plan}");
    }
    machine.assert_untouched();
}

#[test]
fn actions_exclude_each_other() {
    let machine = Machine::complete();
    let output = machine.run(&["--with-karmada", "--down"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = stderr(&output);
    assert!(
        printed.contains("--with-karmada and --down exclude each other"),
        "{printed}"
    );
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
