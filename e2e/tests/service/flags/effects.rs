//! Tests of the effects of flags on running processes, and of the errors for invalid arguments.

use std::time::{Duration, Instant};

use berth_e2e::{BareControlPlane, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::assertions::{engine_decisions, is_settled, targets, wait_until_all_placed};
use crate::objects::{binding, by_available_replicas, cluster, fleet, mixed, on_cluster};
use crate::process::{self, ANY_PORT, run};

/// Sends a GET request to an HTTP server, and returns the response with its headers.
async fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    Ok(response)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits until a binding is placed, and returns its clusters and replicas.
async fn placement(bare: &BareControlPlane, name: &str) -> Vec<(String, i32)> {
    eventually(&format!("{name} to be placed"), async || {
        let stored = bare.bindings("default").get(name).await.unwrap();
        if is_settled(&stored) {
            Ok(targets(&stored).into_iter().collect())
        } else {
            Err(format!("{:?}", stored.status))
        }
    })
    .await
}

/// The exit code is 2, and the error names the invalid argument.
#[test]
fn invalid_arguments_are_reported_in_one_line() {
    let wrong = [
        ("--nonsense", "--nonsense"),
        ("--kube-api-qps=fast", "--kube-api-qps"),
        (
            "--leader-elect-lease-duration=15",
            "--leader-elect-lease-duration",
        ),
        ("--metrics-bind-address=8080", "--metrics-bind-address"),
        ("--scheduler-name=", "--scheduler-name"),
        ("--feature-gates=Nonsense=true", "Nonsense"),
        (
            "--leader-elect-renew-deadline=20s",
            "--leader-elect-renew-deadline",
        ),
        ("--logging-format=xml", "--logging-format"),
        ("--secure-port=70000", "--secure-port"),
        ("positional", "positional"),
    ];
    for (argument, named) in wrong {
        for name in ["karmada-scheduler", "berth"] {
            let arguments: &[&str] = match name {
                "berth" => &["scheduler", argument],
                _ => &[argument],
            };
            let output = run(name, arguments);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{name} {argument}: {text}");
            assert_eq!(text.lines().count(), 1, "{name} {argument}: {text}");
            assert!(text.contains(named), "{name} {argument}: {text}");
        }
    }
}

#[test]
fn the_program_named_karmada_scheduler_runs_as_a_scheduler() {
    let version = run("/bin/karmada-scheduler", &["version"]);
    assert!(version.status.success(), "{version:?}");
    assert!(String::from_utf8_lossy(&version.stdout).contains(env!("CARGO_PKG_VERSION")));
    let help = run("karmada-scheduler", &["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--leader-elect-resource-name"));
}

/// The scheduler places the bindings with its own name, holds the lease with its own name, and exports Karmada's
/// metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_of_karmadas_deployment_are_accepted() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let port = free_port();
    let (secure, tail) = (format!("--secure-port={port}"), "--logtostderr=true");
    let program = process::start(
        bare.folder(),
        &bare.kubeconfig(),
        &[
            "--bind-address=0.0.0.0",
            &secure,
            "--enable-scheduler-estimator=true",
            "--leader-elect-resource-name=my-scheduler",
            "--scheduler-name=my-scheduler",
            "--v=4",
            tail,
        ],
    );
    let mut mine = binding("mine", 1, on_cluster("m1"));
    mine.spec.scheduler_name = Some("my-scheduler".to_owned());
    bare.bind_all(&[mine, binding("others", 1, on_cluster("m1"))])
        .await;
    assert_eq!(placement(&bare, "mine").await, [("m1".to_owned(), 1)]);
    let others = bare.bindings("default").get("others").await.unwrap();
    assert!(others.spec.clusters.is_empty());
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    assert!(leases.get_opt("my-scheduler").await.unwrap().is_some());
    assert!(leases.get_opt("karmada-scheduler").await.unwrap().is_none());

    let address = format!("127.0.0.1:{port}");
    for path in ["/healthz", "/livez", "/readyz"] {
        let response = get(&address, path).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{path}: {response}");
    }
    let samples = [
        "karmada_scheduler_schedule_attempts_total{",
        "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"Filter\"}",
        "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"AssignReplicas\"}",
        "leader_election_master_status{name=\"\"} 1",
        "workqueue_queue_duration_seconds_count{controller=\"scheduler-queue\"",
        "rest_client_requests_total{code=\"200\",host=\"127.0.0.1:",
        "karmada_build_info{",
        "process_resident_memory_bytes ",
    ];
    // The scheduler counts an attempt after its last write.
    eventually("the metrics", async || {
        let metrics = get(&address, "/metrics").await.unwrap();
        let is_missing = |sample: &&&str| !metrics.lines().any(|line| line.starts_with(**sample));
        match samples.iter().find(is_missing) {
            None => Ok(()),
            Some(sample) => Err(format!("no {sample} in\n{metrics}")),
        }
    })
    .await;
    let log = program.log();
    for plugin in ["APIEnablement", "TaintToleration", "ClusterAffinity"] {
        assert!(
            log.contains(&format!("Enable Scheduler plugin \"{plugin}\"")),
            "{log}"
        );
    }
    assert_eq!(
        log.matches("flags without effect: --logtostderr").count(),
        1,
        "{log}"
    );
    bare.stop().await;
}

/// The kubeconfig contains a wrong address, which `--master` corrects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flags_for_plugins_empty_workloads_master_and_log_format_take_effect() {
    let mut tainted = cluster("m2", 10);
    tainted.spec.taints =
        serde_json::from_value(json!([{ "key": "k", "effect": "NoSchedule" }])).unwrap();
    let bare = BareControlPlane::start(&[cluster("m1", 10), tainted]).await;
    let kubeconfig = bare.folder().join("elsewhere");
    let text = std::fs::read_to_string(bare.kubeconfig()).unwrap();
    std::fs::write(
        &kubeconfig,
        text.replace(&bare.url(), "https://127.0.0.1:1"),
    )
    .unwrap();
    let (master, port) = (format!("--master={}", bare.url()), free_port());
    let metrics = format!("--metrics-bind-address=127.0.0.1:{port}");
    let program = process::start(
        bare.folder(),
        &kubeconfig,
        &[
            &master,
            &metrics,
            ANY_PORT[0],
            "--leader-elect=false",
            "--plugins=*,-TaintToleration",
            "--enable-empty-workload-propagation",
            "--logging-format=json",
            "-v=4",
        ],
    );
    bare.bind_all(&[
        binding("a", 1, on_cluster("m2")),
        binding("b", 0, by_available_replicas()),
    ])
    .await;
    assert_eq!(placement(&bare, "a").await, [("m2".to_owned(), 1)]);
    let both = [("m1".to_owned(), 0), ("m2".to_owned(), 0)];
    assert_eq!(placement(&bare, "b").await, both);
    assert!(
        get(&format!("127.0.0.1:{port}"), "/metrics")
            .await
            .unwrap()
            .contains("200 OK")
    );
    let log = program.log();
    assert!(
        log.lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{log}"
    );
    assert!(!log.contains("plugin \\\"TaintToleration"), "{log}");
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_request_rate_limit_applies() {
    let bare = BareControlPlane::start(&fleet(2)).await;
    let bindings = mixed("w", 20);
    let expected = engine_decisions(&bare, &bindings).await;
    bare.bind_all(&bindings).await;
    let flags = [
        "--leader-elect=false",
        "--kube-api-qps=20",
        "--kube-api-burst=5",
    ];
    let arguments: Vec<&str> = ANY_PORT.iter().chain(&flags).copied().collect();
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    program.wait_for_log("caches are filled").await;
    let began = Instant::now();
    wait_until_all_placed(&bare, &expected).await;
    // 20 bindings need 40 patches. The burst covers 5 of them. Events count towards the limit as well.
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(35 * 1000 / 20 - 200),
        "{took:?}"
    );
    println!("40 patches at 20/s and a burst of 5 took {took:.2?}");
    bare.stop().await;
}
