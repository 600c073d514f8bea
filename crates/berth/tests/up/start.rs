//! Tests of starting and stopping `berth up`, and of flags and files that `berth up` refuses.

use berth_test_requirements::needs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::program::{Up, line, refused, root, until};

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

/// Returns the IPv4 ports on which a process listens.
fn ports(process: u32) -> Vec<u16> {
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: Vec<String> = files
        .filter_map(|file| std::fs::read_link(file.ok()?.path()).ok())
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?;
            Some(inode.strip_suffix(']')?.to_owned())
        })
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap();
    let listening = table.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, "0A", ..] = columns[..] else {
            return None;
        };
        let is_own = sockets
            .iter()
            .any(|inode| Some(&&**inode) == columns.get(9));
        let (_, port) = local.split_once(':')?;
        is_own.then_some(u16::from_str_radix(port, 16).ok()?)
    });
    listening.collect()
}

#[test]
fn without_dashboard_and_scheduler_only_the_api_servers_listen() {
    let up = Up::start(&["--members=2", "--without=dashboard,scheduler"]);
    assert!(!up.log().contains("http://"), "{}", up.log());
    let ports = ports(up.child.id());
    assert_eq!(ports.len(), 3, "{ports:?}");
    for port in ports {
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
    let line = line(&refused(home.path(), &["up", &format!("--port={port}")]));
    assert!(
        line.contains(&format!("port {port}")) && line.contains("--port"),
        "{line}"
    );
    let left: Vec<_> = std::fs::read_dir(home.path().join(".berth"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_error_about_an_address_of_another_machine_contains_the_flag() {
    let home = tempfile::tempdir().unwrap();
    // This address is reserved for documentation, so no machine has it.
    let flags = ["up", "--port=0", "--bind-address=192.0.2.1"];
    let line = line(&refused(home.path(), &flags));
    for expected in ["192.0.2.1", "--bind-address", "os error"] {
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn the_error_about_a_kubeconfig_that_cannot_be_written_contains_the_path() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    let path = file.join("kubeconfig");
    let line = line(&refused(
        home.path(),
        &["up", "--port=0", "--kubeconfig", path.to_str().unwrap()],
    ));
    assert!(line.contains(path.to_str().unwrap()), "{line}");
}

#[test]
fn a_kubeconfig_with_other_contexts_is_not_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("config");
    let theirs = "apiVersion: v1\nkind: Config\ncontexts:\n- name: production\n  context: {cluster: c, user: u}\n";
    std::fs::write(&path, theirs).unwrap();
    let line = line(&refused(
        home.path(),
        &["up", "--port=0", "--kubeconfig", path.to_str().unwrap()],
    ));
    assert!(
        line.contains("has contexts that `berth up` did not write"),
        "{line}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), theirs);
}

#[test]
fn the_error_about_an_invalid_fleet_file_contains_the_document() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("fleet.yaml");
    let cluster = |name: &str| {
        format!(
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{syncMode: Push}}\n"
        )
    };
    let cases = [
        ("{".to_owned(), "fleet.yaml"),
        (
            format!("{}---\n{}", cluster("a"), cluster("a")),
            "document 2",
        ),
        // The clusters in a fleet file must satisfy the same rules as Clusters that a user creates.
        (cluster("name.with.dots"), "name.with.dots"),
        (String::new(), "no Cluster in it"),
    ];
    for (text, expected) in cases {
        std::fs::write(&path, &text).unwrap();
        let line = line(&refused(
            home.path(),
            &["up", "--port=0", "--fleet", path.to_str().unwrap()],
        ));
        assert!(line.contains(expected), "{line}");
        assert!(!home.path().join(".berth/kubeconfig").exists());
    }
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
