//! What the flags of a process do to the world.

use std::time::{Duration, Instant};

use berth_e2e::{Bare, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::objects::{binding, by_free_room, cluster, fleet, mixed, on};
use crate::process::{ANY_PORT, Program, run};
use crate::watching::{all_decided, all_placed, is_settled, targets};

/// What an HTTP server at this address answers.
async fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits until a binding is settled, and returns where it is.
async fn placement(bare: &Bare, name: &str) -> Vec<(String, i32)> {
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

#[test]
fn what_is_wrong_is_said_in_one_line() {
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
fn the_name_of_the_program_makes_it_a_scheduler() {
    let version = run("/bin/karmada-scheduler", &["version"]);
    assert!(version.status.success(), "{version:?}");
    assert!(String::from_utf8_lossy(&version.stdout).contains(env!("CARGO_PKG_VERSION")));
    let help = run("karmada-scheduler", &["--help"]);
    assert!(String::from_utf8_lossy(&help.stdout).contains("--leader-elect-resource-name"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_of_karmada_starts_with_its_arguments() {
    let bare = Bare::start(&fleet(2)).await;
    let port = free_port();
    let (secure, tail) = (format!("--secure-port={port}"), "--logtostderr=true");
    let program = Program::start(
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
    let mut mine = binding("mine", 1, on("m1"));
    mine.spec.scheduler_name = Some("my-scheduler".to_owned());
    bare.bind_all(&[mine, binding("others", 1, on("m1"))]).await;
    assert_eq!(placement(&bare, "mine").await, [("m1".to_owned(), 1)]);
    let others = bare.bindings("default").get("others").await.unwrap();
    assert!(others.spec.clusters.is_empty());
    let leases: Api<Lease> = Api::namespaced(bare.client.clone(), "karmada-system");
    assert!(leases.get_opt("my-scheduler").await.unwrap().is_some());
    assert!(leases.get_opt("karmada-scheduler").await.unwrap().is_none());

    let address = format!("127.0.0.1:{port}");
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = get(&address, path).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let metrics = get(&address, "/metrics").await.unwrap();
    for sample in [
        "karmada_scheduler_schedule_attempts_total{",
        "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"Filter\"}",
        "karmada_scheduler_scheduling_algorithm_duration_seconds_count{schedule_step=\"AssignReplicas\"}",
        "leader_election_master_status{name=\"\"} 1",
        "workqueue_queue_duration_seconds_count{controller=\"scheduler-queue\"",
        "rest_client_requests_total{code=\"200\",host=\"127.0.0.1:",
        "karmada_build_info{",
        "process_resident_memory_bytes ",
    ] {
        let found = metrics.lines().any(|line| line.starts_with(sample));
        assert!(found, "no {sample} in\n{metrics}");
    }
    let log = program.log();
    for plugin in ["APIEnablement", "TaintToleration", "ClusterAffinity"] {
        assert!(
            log.contains(&format!("Enable Scheduler plugin \"{plugin}\"")),
            "{log}"
        );
    }
    assert_eq!(
        log.matches("--logtostderr has no meaning").count(),
        1,
        "{log}"
    );
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_propagation_of_empty_workloads_master_and_log_format() {
    let mut tainted = cluster("m2", 10);
    tainted.spec.taints =
        serde_json::from_value(json!([{ "key": "k", "effect": "NoSchedule" }])).unwrap();
    let bare = Bare::start(&[cluster("m1", 10), tainted]).await;
    let kubeconfig = bare.folder().join("elsewhere");
    let text = std::fs::read_to_string(bare.kubeconfig()).unwrap();
    std::fs::write(
        &kubeconfig,
        text.replace(&bare.url(), "https://127.0.0.1:1"),
    )
    .unwrap();
    let (master, port) = (format!("--master={}", bare.url()), free_port());
    let metrics = format!("--metrics-bind-address=127.0.0.1:{port}");
    let program = Program::start(
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
    bare.bind_all(&[binding("a", 1, on("m2")), binding("b", 0, by_free_room())])
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
async fn the_rate_of_requests_is_kept() {
    let bare = Bare::start(&fleet(2)).await;
    let bindings = mixed("w", 20);
    let wanted = all_decided(&bare, &bindings).await;
    bare.bind_all(&bindings).await;
    let flags = [
        "--leader-elect=false",
        "--kube-api-qps=20",
        "--kube-api-burst=5",
    ];
    let arguments: Vec<&str> = ANY_PORT.iter().chain(&flags).copied().collect();
    let program = Program::start(bare.folder(), &bare.kubeconfig(), &arguments);
    program.says("caches are filled").await;
    let began = Instant::now();
    all_placed(&bare, &wanted).await;
    // 40 patches, of which 5 come at once; events take their share besides.
    let took = began.elapsed();
    assert!(
        took > Duration::from_millis(35 * 1000 / 20 - 200),
        "{took:?}"
    );
    println!("40 patches at 20/s and a burst of 5 took {took:.2?}");
    bare.stop().await;
}
