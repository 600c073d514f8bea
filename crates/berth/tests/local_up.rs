//! `hack/local-up.sh` and the manifests that it applies, without Docker and without a network: the script
//! runs with a PATH that holds what every system has, and stand-ins for docker, kind and kubectl that note
//! how they were called.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// What the script needs of a system besides docker, kind and kubectl.
const SYSTEM_TOOLS: [&str; 14] = [
    "awk", "bash", "cat", "cp", "cut", "date", "dirname", "env", "grep", "mkdir", "mktemp", "rm",
    "sed", "sort",
];

/// Notes its name and arguments, each after a unit separator.
const NOTE: &str = r#"#!/usr/bin/env bash
set -eu
{ printf '%s' "${0##*/}"; printf '\x1f%s' "$@"; printf '\n'; } >>"$STAND_INS/calls"
"#;

const DOCKER: &str = r#"
case $1 in
info) [ ! -e "$STAND_INS/engine-is-down" ] ;;
inspect) echo 172.18.0.5 ;;
esac
"#;

const KIND: &str = r#"
clusters=$STAND_INS/clusters
name=
for argument in "$@"; do
  case $argument in --name=*) name=${argument#--name=} ;; esac
done
touch_clusters() { cat "$clusters" 2>/dev/null || true; }
case "$1 $2" in
"get clusters") touch_clusters ;;
"create cluster") echo "$name" >>"$clusters" ;;
"delete cluster") rest=$(grep -vxF -- "$name" "$clusters" || true); printf '%s\n' "$rest" >"$clusters" ;;
esac
"#;

/// Answers as a member of two nodes would, and keeps what it is told to apply.
const KUBECTL: &str = r#"
call=" $* "
for argument in "$@"; do
  case $argument in
  --filename="$TMPDIR"/* | --patch-file="$TMPDIR"/*)
    number=$(grep -c . "$STAND_INS/calls")
    file=${argument#*=}
    cp "$file" "$STAND_INS/applied/$number-${file##*/}"
    ;;
  esac
done
case $call in
*" create secret generic "*) echo "kind: Secret" ;;
*"ca.crt"* | *"ca\.crt"*) echo the-certificate ;;
*".data.token"*) printf '%s' the-token ;;
*" get namespace kube-system "*) echo 0a1b-uid ;;
*" version "*)
  printf 'clientVersion:\n  gitVersion: v1.30.0\nserverVersion:\n  gitVersion: v1.36.1\n' ;;
*" api-resources "*)
  echo 'pods          po       v1        true   Pod'
  echo 'bindings               v1        true   Binding'
  echo 'deployments   deploy   apps/v1   true   Deployment' ;;
*" get nodes "*)
  echo '8|16Gi|110|100Mi|True'
  echo '3500m|1024Ki|50|2k|Unknown' ;;
*" get pods "*)
  printf 'pod\n100m|50Mi|\n0.5||1Ki\npod\n||\n' ;;
*" current-context "*) echo karmada-apiserver ;;
esac
"#;

/// A machine on which the script can run.
struct Machine {
    root: TempDir,
}

impl Machine {
    /// Has none of the three tools.
    fn bare() -> Self {
        let root = TempDir::new().expect("a temporary folder");
        for folder in ["bin", "home", "tmp", "stand-ins/applied"] {
            fs::create_dir_all(root.path().join(folder)).expect("a folder");
        }
        for tool in SYSTEM_TOOLS {
            symlink(find(tool), root.path().join("bin").join(tool)).expect("a link");
        }
        Self { root }
    }

    fn with(tools: &[&str]) -> Self {
        let machine = Self::bare();
        for tool in tools {
            let answers = match *tool {
                "docker" => DOCKER,
                "kind" => KIND,
                _ => KUBECTL,
            };
            let path = machine.path("bin").join(tool);
            fs::write(&path, format!("{NOTE}{answers}")).expect("a stand-in");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        }
        machine
    }

    fn complete() -> Self {
        Self::with(&["docker", "kind", "kubectl"])
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("bin/bash"));
        command
            .arg(repository().join("hack/local-up.sh"))
            .args(arguments)
            .current_dir(self.path("home"))
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("STAND_INS", self.path("stand-ins"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("bash runs")
    }

    /// Runs, and says what was printed.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}\n{}",
            stdout(&output),
            stderr(&output)
        );
        stdout(&output)
    }

    /// Every call of a stand-in so far, in words.
    fn calls(&self) -> Vec<Vec<String>> {
        let calls = fs::read_to_string(self.path("stand-ins/calls")).unwrap_or_default();
        calls
            .lines()
            .map(|line| line.split('\x1f').map(str::to_owned).collect())
            .collect()
    }

    fn forget_calls(&self) {
        fs::write(self.path("stand-ins/calls"), "").expect("an empty file");
    }

    /// What was applied from a temporary file of this name, in order.
    fn applied(&self, name: &str) -> Vec<String> {
        let mut found: Vec<(u32, String)> = fs::read_dir(self.path("stand-ins/applied"))
            .expect("the folder")
            .filter_map(|entry| {
                let path = entry.expect("an entry").path();
                let (number, file) = path.file_name()?.to_str()?.split_once('-')?;
                (file == name).then(|| {
                    (
                        number.parse().expect("a number"),
                        fs::read_to_string(&path).expect("its text"),
                    )
                })
            })
            .collect();
        found.sort();
        found.into_iter().map(|(_, text)| text).collect()
    }

    /// Holds that neither the home nor the temporary folder has anything in it, and no tool was called.
    fn assert_untouched(&self) {
        for folder in ["home", "tmp", "stand-ins/applied"] {
            let entries: Vec<_> = fs::read_dir(self.path(folder))
                .expect("the folder")
                .collect();
            assert!(entries.is_empty(), "{folder}: {entries:?}");
        }
        assert_eq!(self.calls(), Vec::<Vec<String>>::new());
    }
}

fn find(tool: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("a PATH");
    std::env::split_paths(&path)
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
        .expect(tool)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The tool and its arguments in every line of a plan that calls one of the three tools.
fn planned(plan: &str) -> Vec<String> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("+ "))
        .map(|line| {
            line.split_once("=$(").map_or(line, |(_, command)| {
                command.strip_suffix(')').unwrap_or(command)
            })
        })
        .map(|line| line.split_once(" > ").map_or(line, |(command, _)| command))
        .map(|line| {
            line.strip_prefix("env ")
                .and_then(|rest| rest.find("docker").map(|at| &rest[at..]))
                .unwrap_or(line)
        })
        .filter(|line| {
            ["docker ", "kind ", "kubectl "]
                .iter()
                .any(|tool| line.starts_with(tool))
        })
        .map(|line| line.replace('\'', ""))
        .collect()
}

#[test]
fn the_help_teaches() {
    let machine = Machine::bare();
    let help = machine.succeed(&["--help"]);
    for word in [
        "Usage: hack/local-up.sh",
        "--dry-run",
        "--down",
        "--help",
        "KUBECONFIG_PATH",
        "MAIN_KUBECONFIG",
        "MEMBER_CLUSTER_KUBECONFIG",
        "HOST_CLUSTER_NAME",
        "KARMADA_APISERVER_CLUSTER_NAME",
        "MEMBER_CLUSTER_1_NAME",
        "MEMBER_CLUSTER_2_NAME",
        "MEMBER_CLUSTER_3_NAME",
        "PULL_MODE_CLUSTER_NAME",
        "CLUSTER_VERSION",
        "cargo run --release -- up",
    ] {
        assert!(help.contains(word), "{word}\n{help}");
    }
    machine.assert_untouched();
}

#[test]
fn a_wrong_command_line_is_refused() {
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
fn names_that_no_cluster_can_have_are_refused() {
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
            "PULL_MODE_CLUSTER_NAME",
            "karmada-host",
            "'karmada-host' is given to two clusters",
        ),
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
    // In this order.
    for step in [
        "docker build --file=deploy/Dockerfile --tag=berth:latest .".to_owned(),
        format!("kind create cluster --name=karmada-host --image=kindest/node:v1.36.1 --kubeconfig={home}/.kube/karmada.config"),
        format!("kind create cluster --name=member1 --image=kindest/node:v1.36.1 --kubeconfig={home}/.kube/members.config"),
        "kind create cluster --name=member2".to_owned(),
        "kind create cluster --name=member3".to_owned(),
        "kind load docker-image berth:latest --name=karmada-host".to_owned(),
        "apply --filename=deploy/namespace.yaml".to_owned(),
        "apply --server-side --force-conflicts --filename=crds".to_owned(),
        "wait --for=condition=Established".to_owned(),
        "--filename=deploy/scheduler/rbac.yaml --filename=deploy/controllers/rbac.yaml".to_owned(),
        "create secret generic karmada-scheduler-config --namespace=karmada-system".to_owned(),
        "create secret generic berth-controllers-config --namespace=karmada-system".to_owned(),
        "--filename=deploy/scheduler/default-scheduler.yaml --filename=deploy/controllers/controllers.yaml".to_owned(),
        "deployment/karmada-scheduler".to_owned(),
        "deployment/berth-controllers".to_owned(),
        "create secret generic member1 --namespace=karmada-cluster".to_owned(),
        "patch clusters.cluster.karmada.io member1 --subresource=status".to_owned(),
        "patch clusters.cluster.karmada.io member2 --subresource=status".to_owned(),
        "create secret generic member3 --namespace=karmada-cluster".to_owned(),
        "patch clusters.cluster.karmada.io member3 --subresource=status".to_owned(),
    ] {
        let at = rest.find(&step);
        assert!(at.is_some(), "{step:?} is not there, or too early:\n{plan}");
        rest = &rest[at.unwrap_or_default() + step.len()..];
    }
    assert!(!plan.contains("is up"), "it did not happen:\n{plan}");
    machine.assert_untouched();

    let machine = Machine::complete();
    machine.succeed(&["--dry-run"]);
    machine.succeed(&["--dry-run", "--down"]);
    machine.assert_untouched();
}

#[test]
fn the_environment_of_karmadas_script_is_heard() {
    let machine = Machine::bare();
    let output = machine
        .command(&["--dry-run"])
        .env("KUBECONFIG_PATH", "configs")
        .env("MEMBER_CLUSTER_KUBECONFIG", "/elsewhere/m")
        .env("HOST_CLUSTER_NAME", "the-host")
        .env("KARMADA_APISERVER_CLUSTER_NAME", "the-plane")
        .env("MEMBER_CLUSTER_1_NAME", "one")
        .env("MEMBER_CLUSTER_2_NAME", "two")
        .env("PULL_MODE_CLUSTER_NAME", "three")
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
        "set-context the-plane --cluster=kind-the-host".to_owned(),
        "patch clusters.cluster.karmada.io two".to_owned(),
        "patch clusters.cluster.karmada.io three".to_owned(),
    ] {
        assert!(plan.contains(&expected), "{expected}\n{plan}");
    }
    for default in [
        "karmada-host",
        "karmada-apiserver",
        "member1",
        "member2",
        "member3",
    ] {
        assert!(!plan.contains(default), "{default}\n{plan}");
    }
    machine.assert_untouched();
}

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

/// The calls as a dry run writes them.
fn executed(machine: &Machine) -> Vec<String> {
    let tmp = format!("{}/", machine.path("tmp").display());
    let called = |call: Vec<String>| {
        let line = call.join(" ");
        // The temporary folder has a random name.
        let mut parts = line.split(&tmp);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |line, part| {
            let file = part.split_once('/').map_or(part, |(_, file)| file);
            line + "WORKDIR/" + file
        })
    };
    machine.calls().into_iter().map(called).collect()
}

#[test]
fn a_run_does_what_the_dry_run_says() {
    let machine = Machine::complete();
    let plan = planned(&machine.succeed(&["--dry-run"]));
    assert!(plan.len() > 60, "{plan:#?}");
    let told = machine.succeed(&[]);
    let calls = executed(&machine);
    // The questions whether there is anything to do with.
    assert_eq!(calls[..2], ["docker info", "kind get clusters"]);
    for (call, planned) in calls[2..].iter().zip(&plan) {
        assert_eq!(call, planned);
    }
    assert_eq!(calls.len() - 2, plan.len());
    assert!(told.contains("Berth is up"), "{told}");

    let secrets: Vec<&String> = calls
        .iter()
        .filter(|call| call.contains("the-token"))
        .collect();
    assert!(
        secrets.is_empty(),
        "a token on a command line can be read by everybody: {secrets:?}"
    );
    assert!(!told.contains("the-token"), "{told}");
    let left: Vec<_> = fs::read_dir(machine.path("tmp")).unwrap().collect();
    assert!(left.is_empty(), "tokens were in there: {left:?}");
}

#[test]
fn members_are_registered_with_what_they_serve_and_hold() {
    let machine = Machine::complete();
    machine.succeed(&[]);

    let clusters = machine.applied("cluster.yaml");
    assert_eq!(clusters.len(), 3);
    for (text, name) in clusters.iter().zip(["member1", "member2", "member3"]) {
        let cluster: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(
            cluster,
            json!({
                "apiVersion": "cluster.karmada.io/v1alpha1",
                "kind": "Cluster",
                "metadata": {"name": name},
                "spec": {
                    "id": "0a1b-uid",
                    "syncMode": "Push",
                    "apiEndpoint": "https://172.18.0.5:6443",
                    "secretRef": {"namespace": "karmada-cluster", "name": name},
                },
            })
        );
    }

    let statuses = machine.applied("status.json");
    assert_eq!(statuses.len(), 3);
    let mut status: Value = serde_json::from_str(&statuses[0]).unwrap();
    let conditions = status["status"]["conditions"].as_array_mut().unwrap();
    let held: Vec<_> = conditions
        .iter()
        .map(|condition| {
            [
                &condition["type"],
                &condition["status"],
                &condition["reason"],
            ]
            .map(|field| field.as_str().unwrap())
        })
        .collect();
    assert_eq!(
        held,
        [
            ["Ready", "True", "ClusterReady"],
            ["CompleteAPIEnablements", "True", "Complete"]
        ]
    );
    for condition in conditions {
        let time = condition["lastTransitionTime"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
    status["status"]["conditions"].take();
    assert_eq!(
        status["status"],
        json!({
            "kubernetesVersion": "v1.36.1",
            "conditions": null,
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]},
                {"groupVersion": "v1", "resources": [
                    {"name": "bindings", "kind": "Binding"},
                    {"name": "pods", "kind": "Pod"},
                ]},
            ],
            "nodeSummary": {"totalNum": 2, "readyNum": 1},
            "resourceSummary": {
                "allocatable": {
                    "cpu": "11500m",
                    "memory": (16_u64 * 1024 * 1024 * 1024 + 1024 * 1024).to_string(),
                    "pods": "160",
                    "ephemeral-storage": (100_u64 * 1024 * 1024 + 2000).to_string(),
                },
                "allocated": {
                    "cpu": "600m",
                    "memory": (50_u64 * 1024 * 1024).to_string(),
                    "pods": "2",
                    "ephemeral-storage": "1024",
                },
            },
        })
    );
}

#[test]
fn a_second_run_uses_what_the_first_one_made() {
    let machine = Machine::complete();
    machine.succeed(&[]);
    machine.forget_calls();
    let told = machine.succeed(&[]);
    let calls = executed(&machine);
    let begins = |start: &str| calls.iter().filter(|call| call.starts_with(start)).count();
    assert_eq!(begins("kind create"), 0, "{calls:#?}");
    assert_eq!(begins("kind export kubeconfig"), 4, "{calls:#?}");
    let restarts = calls
        .iter()
        .filter(|call| call.contains("rollout restart"))
        .count();
    assert_eq!(
        restarts, 1,
        "the pods must come to the new image: {calls:#?}"
    );
    assert!(told.contains("member2 exists"), "{told}");
}

#[test]
fn clusters_of_others_are_named_and_left_alone() {
    let machine = Machine::complete();
    fs::write(
        machine.path("stand-ins/clusters"),
        "kind\nmember2\nkarmada-host\n",
    )
    .unwrap();
    let output = machine.run(&[]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("were not made by this script: karmada-host member2\n"),
        "{told}"
    );
    assert_eq!(executed(&machine), ["docker info", "kind get clusters"]);
    assert!(!machine.path("home/.kube").exists());

    machine.forget_calls();
    let told = machine.succeed(&["--down"]);
    assert!(told.contains("Nothing to remove"), "{told}");
    assert_eq!(executed(&machine), ["docker info"]);
}

#[test]
fn a_failing_step_is_named_and_the_next_run_goes_on() {
    let machine = Machine::complete();
    let docker = machine.path("bin/docker");
    fs::write(&docker, format!("{NOTE}[ \"$1\" != build ]\n")).unwrap();
    let output = machine.run(&[]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(
        told.matches("it stopped while building the image").count(),
        1,
        "{told}"
    );
    assert!(
        executed(&machine)
            .iter()
            .all(|call| !call.starts_with("kind create"))
    );

    fs::write(&docker, format!("{NOTE}{DOCKER}")).unwrap();
    machine.succeed(&[]);
}

#[test]
fn down_removes_what_up_made() {
    let machine = Machine::complete();
    fs::write(machine.path("stand-ins/clusters"), "somebody-elses\n").unwrap();
    machine.succeed(&[]);
    machine.forget_calls();

    let plan = planned(&machine.succeed(&["--down", "--dry-run"]));
    assert_eq!(machine.calls(), Vec::<Vec<String>>::new());
    machine.succeed(&["--down"]);
    let calls = executed(&machine);
    for cluster in ["karmada-host", "member1", "member2", "member3"] {
        let delete = format!("kind delete cluster --name={cluster} ");
        assert_eq!(
            calls
                .iter()
                .filter(|call| call.starts_with(&delete))
                .count(),
            1,
            "{calls:#?}"
        );
        assert_eq!(
            plan.iter().filter(|call| call.starts_with(&delete)).count(),
            1,
            "{plan:#?}"
        );
        assert!(
            calls
                .iter()
                .any(|call| call.ends_with(&format!(" delete-context {cluster}"))),
            "{calls:#?}"
        );
    }
    assert!(
        calls
            .iter()
            .any(|call| call.ends_with(" delete-context karmada-apiserver")),
        "{calls:#?}"
    );
    assert_eq!(
        calls
            .iter()
            .filter(|call| call.ends_with(" unset current-context"))
            .count(),
        1,
        "{calls:#?}"
    );
    assert!(
        calls
            .iter()
            .any(|call| call == "docker image rm --force berth:latest"),
        "{calls:#?}"
    );
    assert_eq!(
        fs::read_to_string(machine.path("stand-ins/clusters")).unwrap(),
        "somebody-elses\n"
    );

    machine.forget_calls();
    let told = machine.succeed(&["--down"]);
    assert!(told.contains("Nothing to remove"), "{told}");
    assert_eq!(executed(&machine), ["docker info"]);
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
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        assert!(repository().join(file).exists(), "{file}");
    }
}

/// Every document of the manifests under deploy/, with the file it is in.
fn manifests() -> Vec<(PathBuf, Value)> {
    let deploy = repository().join("deploy");
    let mut found = Vec::new();
    for folder in [
        deploy.clone(),
        deploy.join("scheduler"),
        deploy.join("controllers"),
    ] {
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "yaml")
            {
                let text = fs::read_to_string(&path).expect("its text");
                let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
                found.extend(
                    documents
                        .into_iter()
                        .map(|document| (path.clone(), document)),
                );
            }
        }
    }
    found
}

fn words(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

#[test]
fn deployments_use_commands_and_flags_that_exist() {
    let mut deployments = Vec::new();
    for (path, manifest) in manifests() {
        if manifest["kind"] != "Deployment" {
            continue;
        }
        let command = words(&manifest["spec"]["template"]["spec"]["containers"][0]["command"]);
        assert_eq!(command[0], "berth", "{}", path.display());
        // The help comes only when everything before it is understood.
        let output = Command::new(env!("CARGO_BIN_EXE_berth"))
            .args(&command[1..])
            .arg("--help")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            path.display(),
            stderr(&output)
        );
        deployments.push(manifest["metadata"]["name"].as_str().unwrap().to_owned());
    }
    deployments.sort();
    assert_eq!(
        deployments,
        [
            "berth-controllers",
            "karmada-scheduler",
            "my-karmada-scheduler"
        ]
    );

    let unknown = Command::new(env!("CARGO_BIN_EXE_berth"))
        .args(["scheduler", "--no-such-flag", "--help"])
        .output()
        .unwrap();
    assert!(!unknown.status.success());
}

#[test]
fn deployments_agree_with_themselves_and_with_the_rights() {
    let manifests = manifests();
    let leases: Vec<&str> = manifests
        .iter()
        .filter(|(_, manifest)| manifest["kind"] == "Role")
        .flat_map(|(_, role)| role["rules"].as_array().into_iter().flatten())
        .flat_map(|rule| words(&rule["resourceNames"]))
        .collect();
    for (path, manifest) in manifests
        .iter()
        .filter(|(_, manifest)| manifest["kind"] == "Deployment")
    {
        let path = path.display();
        let pod = &manifest["spec"]["template"]["spec"];
        assert_eq!(
            manifest["spec"]["selector"]["matchLabels"],
            manifest["spec"]["template"]["metadata"]["labels"],
            "{path}"
        );
        assert_eq!(pod["containers"][0]["image"], "berth:latest", "{path}");
        assert_eq!(
            pod["containers"][0]["securityContext"]["runAsNonRoot"], true,
            "{path}"
        );
        let command = words(&pod["containers"][0]["command"]);
        let flag = |name: &str| command.iter().find_map(|word| word.strip_prefix(name));
        assert_eq!(
            flag("--kubeconfig="),
            Some("/etc/karmada/config/karmada.config"),
            "{path}"
        );
        if command[1] == "scheduler" {
            let lease = flag("--leader-elect-resource-name=").unwrap_or("karmada-scheduler");
            assert!(
                leases.contains(&lease),
                "{path}: no right to the lease {lease:?}: {leases:?}"
            );
            let name = flag("--scheduler-name=").unwrap_or("default-scheduler");
            assert_eq!(
                name == "default-scheduler",
                lease == "karmada-scheduler",
                "{path}: two schedulers, one lease"
            );
        }
    }
}
