//! Tests of starting and stopping `berth up`, and of flags and files that `berth up` refuses.

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::program::{Up, listeners, record, root, until};

#[test]
fn a_signal_stops_the_program_within_ten_seconds() {
    for signal in ["-INT", "-TERM"] {
        let mut up = Up::start(&[]);
        let signalled = Instant::now();
        up.signal(signal);
        let status = until("the end", || {
            up.child
                .try_wait()
                .unwrap()
                .ok_or_else(|| "it still runs".to_owned())
        });
        assert!(status.success(), "{signal}: {status}");
        assert!(
            signalled.elapsed() < Duration::from_secs(10),
            "{signal}: {:?}",
            signalled.elapsed()
        );
    }
}

#[test]
fn without_the_other_components_only_the_api_servers_listen() {
    let up = Up::start(&["--members=2", "--without=dashboard,scheduler,estimators"]);
    assert!(!up.log().contains("http://"), "{}", up.log());
    let listening = listeners(up.child.id());
    assert_eq!(listening.len(), 3, "{listening:?}");
    for address in listening {
        let (_, port) = address.split_once(':').unwrap();
        let port = u16::from_str_radix(port, 16).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.contains("an HTTP request to an HTTPS server"),
            "{answer}"
        );
    }
}

#[test]
fn only_the_owner_can_read_the_kubeconfig() {
    let up = Up::start(&["--members=0"]);
    let mode = std::fs::metadata(up.kubeconfig())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_port_in_use_is_reported_and_no_files_are_left() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut transcript = Transcript::new().replacing(port.to_string(), "[taken port]");
    record(&mut transcript, home.path(), &format!("up --port={port}"));
    assert_snapshot!(transcript);
    let left: Vec<_> = std::fs::read_dir(home.path().join(".berth"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn unusable_addresses_kubeconfigs_and_fleet_files_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let theirs = "apiVersion: v1\nkind: Config\ncontexts:\n- name: production\n  context: {cluster: c, user: u}\n";
    let kubeconfig = file("config", theirs);
    let no_folder = format!("{}/kubeconfig", file("file", ""));
    let cluster = |name: &str| {
        format!(
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{syncMode: Push}}\n"
        )
    };
    let twice = format!("{}---\n{}", cluster("a"), cluster("a"));
    let mut transcript = Transcript::new();
    for (about, flag, value) in [
        // This address is reserved for documentation, so no machine has it.
        (
            "of another machine",
            "--bind-address",
            "192.0.2.1".to_owned(),
        ),
        ("a file is no folder", "--kubeconfig", no_folder),
        (
            "with contexts of others",
            "--kubeconfig",
            kubeconfig.clone(),
        ),
        ("no YAML", "--fleet", file("invalid.yaml", "{")),
        ("two with one name", "--fleet", file("twice.yaml", &twice)),
        (
            "with the rules for Clusters that a user creates",
            "--fleet",
            file("dots.yaml", &cluster("name.with.dots")),
        ),
        ("no Cluster", "--fleet", file("empty.yaml", "")),
    ] {
        transcript.about(about);
        let line = format!("up --port=0 {flag}={value}");
        record(&mut transcript, home.path(), &line);
        assert!(!home.path().join(".berth/kubeconfig").exists());
    }
    assert_snapshot!(transcript);
    assert_eq!(std::fs::read_to_string(&kubeconfig).unwrap(), theirs);
}

#[needs(kubectl)]
#[test]
fn the_fleet_has_the_requested_members() {
    let own = tempfile::tempdir().unwrap();
    let path = own.path().join("fleet.yaml");
    let example = std::fs::read_to_string(root().join("examples/fleet.yaml")).unwrap();
    std::fs::write(&path, example.replace("name: member2", "name: renamed")).unwrap();
    let cases: [(&[&str], &[&str]); 3] = [
        (&["--members=0"], &[]),
        (&["--members=2"], &["member1", "member2"]),
        (
            &["--fleet", path.to_str().unwrap()],
            &["member1", "member3", "renamed"],
        ),
    ];
    for (arguments, expected) in cases {
        let up = Up::start(arguments);
        let names = up.kubectl(&[
            "get",
            "clusters",
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ]);
        assert_eq!(names.split_whitespace().collect::<Vec<_>>(), expected);
        let ready = r#"jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}"#;
        let ready = up.kubectl(&["get", "clusters", "-o", ready]);
        assert_eq!(
            ready
                .split_whitespace()
                .filter(|status| *status == "True")
                .count(),
            expected.len()
        );
    }
}

/// Returns the paths of the YAML files at or below a path. Leaves out files named kustomization.yaml.
fn manifests(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        return paths.flat_map(|path| manifests(&path)).collect();
    }
    let is_manifest = path
        .extension()
        .is_some_and(|extension| extension == "yaml")
        && !path.ends_with("kustomization.yaml");
    is_manifest.then(|| path.to_owned()).into_iter().collect()
}

#[needs(kubectl)]
#[test]
fn manifests_in_deploy_are_accepted_and_crds_equal_the_installed_definitions() {
    let up = Up::start(&["--members=0"]);
    let crds = root().join("crds").display().to_string();
    // The namespaces are applied first, as the documentation requires.
    let files = [
        "namespace.yaml",
        "scheduler",
        "second-scheduler",
        "controllers",
    ]
    .into_iter()
    .flat_map(|name| manifests(&root().join("deploy").join(name)))
    .map(|path| format!("--filename={}", path.display()));
    let mut words = vec!["apply", "--server-side", "--force-conflicts"];
    let files: Vec<String> = files.collect();
    words.extend(files.iter().map(String::as_str));
    let applied = up.kubectl(&words);
    for expected in [
        "deployment.apps/karmada-scheduler",
        "deployment.apps/my-karmada-scheduler",
        "clusterrole",
    ] {
        assert!(applied.contains(expected), "{expected} is not in {applied}");
    }
    // `kubectl diff` fails if the files in crds/ differ from the installed CustomResourceDefinitions.
    assert_eq!(up.kubectl(&["diff", "--server-side", "-f", &crds]), "");
}
