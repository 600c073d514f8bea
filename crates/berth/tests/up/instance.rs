//! Tests of the process of `berth up`: `berth status`, `berth down`, a second process, listening addresses and logs.

use berth_test_requirements::needs;
use berth_test_transcripts::{Transcript, assert_snapshot};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;

use serde_json::Value;

use crate::program::{Up, berth, listeners, root, until};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(up: &Up, arguments: &[&str]) -> Output {
    berth(up.home.path(), arguments).output().unwrap()
}

/// Checks that the printed commands work in every folder.
#[test]
fn a_relative_kubeconfig_is_printed_as_an_absolute_path() {
    let home = Arc::new(tempfile::tempdir().unwrap());
    let arguments = ["up", "--port=0", "--members=0", "--kubeconfig=own/config"];
    let mut command = berth(home.path(), &arguments);
    command.current_dir(home.path());
    let up = Up::with(Arc::clone(&home), command);
    let path = home.path().canonicalize().unwrap().join("own/config");
    let export = format!("export KUBECONFIG={}", path.display());
    assert!(up.log().contains(&export), "{}", up.log());
}

#[test]
fn status_shows_servers_members_and_components() {
    let up = Up::start(&["--members=2"]);
    let status = run(&up, &["status", "-o", "json"]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["process"], up.child.id());
    let url = status["apiServer"].as_str().unwrap();
    let mut transcript = Transcript::new();
    transcript.about("what `berth up` prints");
    let banner = up.log();
    assert!(banner.contains(url), "{banner}");
    transcript.lines(&banner);
    up.record(&mut transcript, "status");
    up.record(&mut transcript, "status -o json");
    assert_snapshot!(transcript);
}

#[test]
fn down_stops_the_control_plane_and_can_be_repeated() {
    let mut up = Up::start(&["--members=1"]);
    let down = run(&up, &["down"]);
    assert!(down.status.success(), "{down:?}");
    let ended = until("the end", || {
        up.child
            .try_wait()
            .unwrap()
            .ok_or_else(|| "it still runs".to_owned())
    });
    assert!(ended.success(), "{ended}");
    let mut transcript = Transcript::new();
    up.record(&mut transcript, "down");
    up.record(&mut transcript, "status");
    assert_snapshot!(transcript);
    // Only the kubeconfig remains in the folder.
    let left = std::fs::read_dir(up.home.path().join(".berth"))
        .unwrap()
        .count();
    assert_eq!(left, 1);
}

#[test]
fn the_error_of_down_contains_the_id_of_a_process_that_does_not_stop() {
    let up = Up::start(&["--members=0"]);
    up.signal("-STOP");
    let mut transcript = Transcript::new();
    up.record(&mut transcript, "down --timeout=1");
    assert_snapshot!(transcript);
    up.signal("-CONT");
}

#[needs(kubectl)]
#[test]
fn the_error_of_a_second_up_describes_the_running_control_plane() {
    let up = Up::start(&["--members=0"]);
    let mut transcript = Transcript::new();
    up.record(&mut transcript, "up --port=0");
    assert_snapshot!(transcript);
    assert!(
        run(&up, &["status"]).status.success(),
        "the first control plane is affected"
    );
    // A second control plane can run with another kubeconfig.
    let other = up.home.path().join("other");
    let flag = format!("--kubeconfig={}", other.display());
    let mut second = berth(up.home.path(), &["up", "--port=0", "--members=0", &flag])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the second control plane", || {
        let status = run(&up, &["status", &flag]);
        if status.status.success() {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    });
    assert!(run(&up, &["down", &flag]).status.success());
    assert!(second.wait().unwrap().success());
    assert!(
        run(&up, &["status"]).status.success(),
        "the first control plane is affected"
    );
}

#[test]
fn the_environment_selects_the_control_plane() {
    let up = Up::start(&["--members=1"]);
    let other_home = tempfile::tempdir().unwrap();
    let with = |home: &Path, named: &str, words: &[&str]| {
        let mut command = berth(home, words);
        command.env("KUBECONFIG", named).output().unwrap()
    };
    let ours = up.kubeconfig();
    let link = other_home.path().join("link");
    std::os::unix::fs::symlink(&ours, &link).unwrap();
    let several = format!("{}/missing:{}", other_home.path().display(), ours.display());
    for named in [ours.to_str().unwrap(), link.to_str().unwrap(), &several] {
        for words in [&["status"][..], &["fail", "member1"], &["heal", "member1"]] {
            let output = with(other_home.path(), named, words);
            assert!(output.status.success(), "{named} {words:?}: {output:?}");
        }
    }
    // If KUBECONFIG names a kubeconfig that `berth up` did not write, the commands refuse to use the running control
    // plane.
    let foreign = other_home.path().join("foreign");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: prod\n\
        contexts: [{name: prod, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n\
        clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n";
    std::fs::write(&foreign, text).unwrap();
    let foreign = foreign.to_str().unwrap();
    let mut transcript = Transcript::new();
    for words in [
        &["status"][..],
        &["down"],
        &["fail", "member1"],
        &["heal", "member1"],
    ] {
        transcript.ran(
            &[&["KUBECONFIG=foreign", "berth"], words].concat(),
            &with(up.home.path(), foreign, words),
        );
    }
    transcript.about("with a home folder in which no `berth up` runs");
    let output = with(other_home.path(), foreign, &["status"]);
    transcript.ran(&["KUBECONFIG=foreign berth status"], &output);
    assert!(
        run(&up, &["status"]).status.success(),
        "the foreign kubeconfig stopped the control plane"
    );
    for _ in 0..2 {
        let output = with(other_home.path(), ours.to_str().unwrap(), &["down"]);
        transcript.ran(&["KUBECONFIG=ours berth down"], &output);
    }
    assert_snapshot!(transcript);
}

#[test]
fn the_error_about_an_unusable_kubeconfig_contains_the_file_and_the_cause() {
    let home = tempfile::tempdir().unwrap();
    let broken = home.path().join("broken");
    std::fs::write(&broken, "clusters: 1\n").unwrap();
    let mut transcript = Transcript::new();
    for named in ["missing", "broken", "missing:broken"] {
        for line in [
            "get clusters",
            "watch",
            "scheduler",
            "controllers",
            "simulate --against any",
            "unjoin member1",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let mut command = berth(home.path(), &words);
            command.current_dir(&home).env("KUBECONFIG", named);
            let shown = format!("KUBECONFIG={named} berth {line}");
            transcript.ran(&[&shown], &command.output().unwrap());
        }
    }
    assert_snapshot!(transcript);
}

#[test]
fn all_servers_listen_on_the_loopback_address_only() {
    let up = Up::start(&["--members=2"]);
    let listening = listeners(up.child.id());
    // The control plane and the two members have at least one listener each.
    assert!(listening.len() >= 3, "{listening:?}");
    let is_loopback = |address: &String| address.starts_with("0100007F:");
    assert!(listening.iter().all(is_loopback), "{listening:?}");
}

#[test]
fn after_a_process_is_killed_the_next_process_can_start() {
    let mut up = Up::start(&["--members=0"]);
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    assert_eq!(run(&up, &["status"]).status.code(), Some(1));
    let mut next = berth(up.home.path(), &["up", "--port=0", "--members=0"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the next control plane", || {
        let status = run(&up, &["status"]);
        if status.status.success() {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        }
    });
    assert!(run(&up, &["down"]).status.success());
    assert!(next.wait().unwrap().success());
}

/// Returns an address of this machine that is not a loopback address. Returns `None` without a network.
fn other_address() -> Option<IpAddr> {
    // Connecting a datagram socket selects the local address and sends no packet.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[needs(kubectl)]
#[test]
fn the_servers_can_listen_at_a_loopback_address_other_than_the_default() {
    // On Linux, every address in 127.0.0.0/8 is a loopback address.
    let up = Up::start(&["--members=1", "--bind-address=127.0.0.2"]);
    let text = stdout(&run(&up, &["status"]));
    assert_eq!(text.matches("https://127.0.0.2:").count(), 2, "{text}");
    assert!(!up.log().contains("other machines"), "{}", up.log());
    let nodes = up.kubectl(&["--context=member1", "get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
}

#[needs(kubectl, network)]
#[test]
fn an_address_that_other_machines_can_reach_causes_a_warning() {
    let address = other_address().unwrap();
    let up = Up::start(&["--members=1", &format!("--bind-address={address}")]);
    assert!(up.log().contains("other machines"), "{}", up.log());
    let status = run(&up, &["status"]);
    assert!(status.status.success(), "{status:?}");
    let text = stdout(&status);
    assert_eq!(text.matches(&address.to_string()).count(), 2, "{text}");
    let nodes = up.kubectl(&["--context=member1", "get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
}

#[needs(ipv6, kubectl)]
#[test]
fn the_servers_can_listen_at_an_ipv6_address() {
    let up = Up::start(&["--members=2", "--bind-address=::1"]);
    let status = run(&up, &["status"]);
    assert!(status.status.success(), "{status:?}");
    let text = stdout(&status);
    assert_eq!(text.matches("https://[::1]:").count(), 3, "{text}");
    let kubeconfig = std::fs::read_to_string(up.kubeconfig()).unwrap();
    assert_eq!(
        kubeconfig.matches("https://[::1]:").count(),
        3,
        "{kubeconfig}"
    );
    assert!(!up.log().contains("other machines"), "{}", up.log());

    // The control plane reaches the members at their addresses.
    let example = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", example.to_str().unwrap()]);
    let ready = "--for=jsonpath={.status.readyReplicas}=2";
    up.kubectl(&["wait", "deployment/nginx", ready, "--timeout=60s"]);
    let nodes = up.in_member("member1", &["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), 4, "{nodes}");
}

#[test]
fn logging_is_off_by_default_and_can_be_json() {
    let quiet = Up::start(&["--members=0"]);
    assert!(!quiet.log().contains("INFO"), "{}", quiet.log());
    let verbose = Up::start(&["--members=0", "-v"]);
    until("a line", || {
        let log = verbose.log();
        if log.contains("INFO") {
            Ok(())
        } else {
            Err(log)
        }
    });
    let json = Up::start(&["--members=0", "-v", "--log-format=json"]);
    until("a line of JSON", || {
        let log = json.log();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if lines.any(|line| line["level"] == "INFO") {
            Ok(())
        } else {
            Err(log)
        }
    });
}
