//! Tests of `/debug/decisions`, the record of the last decisions of a running scheduler, and of the commands that read
//! it.

use std::path::Path;

use berth_e2e::Program;
use berth_e2e::bare_control_plane::BareControlPlane;
use berth_e2e::eventually;
use serde_json::{Value, json};

use crate::assertions::is_settled;
use crate::metrics_access::{addresses, allow, get, token};
use crate::objects::{binding, by_available_replicas, fleet, raw_binding};
use crate::process::{self, run};

/// A configuration file whose plugin Expression rejects the cluster `m2`.
const CONFIG: &str = r#"
apiVersion: scheduler.config.berth/v1alpha1
kind: SchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: Expression
        weight: 3
  pluginConfig:
  - name: Expression
    args:
      filter:
      - expression: cluster.metadata.name != 'm2'
        message: m2 is reserved
      score:
      - expression: "cluster.metadata.name == 'm1' ? 7 : 0"
extenders: []
"#;

async fn settled(bare: &BareControlPlane, program: &Program, count: usize) {
    eventually("all bindings to be placed", async || {
        let all = bare.all_bindings().await;
        let placed = all.iter().filter(|binding| is_settled(binding)).count();
        if placed == count {
            Ok(())
        } else {
            Err(format!("{placed} of {count}: {}", program.log()))
        }
    })
    .await;
}

/// Runs `berth explain`. Returns its exit code, and its standard output followed by its errors.
fn explain(bare: &BareControlPlane, arguments: &[&str]) -> (Option<i32>, String) {
    let kubeconfig = bare.kubeconfig().display().to_string();
    let arguments = [&["explain", "--kubeconfig", &kubeconfig], arguments].concat();
    let output = run("berth", &arguments);
    let texts = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(texts).unwrap())
}

/// Returns the lines about the decision, which follow the diagnosis.
fn decision(text: &str) -> Vec<&str> {
    let lines = text.lines();
    lines
        .skip_while(|line| !line.starts_with("ResourceBinding "))
        .collect()
}

/// Checks `berth explain` and `berth simulate` with the scheduler at `url`, which uses the configuration file `config`.
fn the_commands_use_record_and_configuration(bare: &BareControlPlane, config: &Path, url: &str) {
    // The command reads the recorded decision, and repeats the decision with the configuration of the scheduler.
    let (code, text) = explain(bare, &["default/web1", "--scheduler-url", url]);
    assert_eq!(code, Some(0), "{text}");
    let lines = decision(&text);
    assert!(lines[1].starts_with("Decided: "), "{text}");
    assert_eq!(lines[2], "Now: the same decision would be made", "{text}");
    assert!(
        text.contains("1 cluster: m2 is reserved (Expression)"),
        "{text}"
    );
    let (_, text) = explain(bare, &["default/web0", "--scheduler-url", url]);
    let first = decision(&text)[1];
    assert!(first.starts_with("Recomputed"), "{text}");
    assert!(first.ends_with("has no record of it"), "{text}");
    assert!(text.contains("m2 is reserved (Expression)"), "{text}");
    // With a configuration file, the command needs no scheduler. With neither a file nor a scheduler, it uses the
    // default configuration.
    let file = config.display().to_string();
    let (_, text) = explain(bare, &["default/web1", "--config", &file]);
    assert!(text.contains("m2 is reserved (Expression)"), "{text}");
    let (_, text) = explain(bare, &["default/web1"]);
    assert!(!text.contains("m2 is reserved"), "{text}");

    // A simulation uses the configuration of the scheduler, too.
    let items: Vec<Value> = fleet(3)
        .iter()
        .map(|cluster| serde_json::to_value(cluster).unwrap())
        .chain([raw_binding("web3", 4, by_available_replicas())])
        .collect();
    let manifest = bare.folder().join("manifest.json");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
    std::fs::write(&manifest, list.to_string()).unwrap();
    let manifest = manifest.display().to_string();
    let output = run(
        "berth",
        &["simulate", "-f", &manifest, "--scheduler-url", url],
    );
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(text.contains("1 m2 is reserved"), "{text}");
    let note = format!("note: decided with the configuration of the scheduler at {url}\n");
    assert!(text.contains(&note), "{text}");
}

async fn document(url: &str) -> Value {
    let (status, text) = get(url, None).await;
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// The scheduler records the last two of three decisions. Its configuration can be saved as a file for another
/// scheduler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_decisions_are_explained_and_the_record_is_bounded() {
    let bare = BareControlPlane::start(&fleet(3)).await;
    let config = bare.folder().join("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let arguments = [
        "--leader-elect=false",
        "--health-probe-bind-address=127.0.0.1:0",
        "--metrics-bind-address=127.0.0.1:0",
        "--debug-decisions=2",
        "--feature-gates=SpreadByAllFields=true",
        &format!("--config={}", config.display()),
    ];
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let (_, address) = addresses(&program).await;
    for (index, name) in ["web0", "web1", "web2"].into_iter().enumerate() {
        bare.bind(&binding(name, 4, by_available_replicas())).await;
        settled(&bare, &program, index + 1).await;
    }

    let list = document(&format!("http://{address}/debug/decisions")).await;
    assert_eq!(list["leading"], true);
    assert_eq!(list["limit"], 2);
    let names: Vec<&str> = list["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|decision| decision["binding"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default/web2", "default/web1"]);
    let url = format!("http://{address}/debug/decisions?binding=default/web0");
    let (status, text) = get(&url, None).await;
    assert_eq!(status, 404, "{text}");

    let url = format!("http://{address}/debug/decisions?binding=default/web1");
    let decision = document(&url).await;
    assert_eq!(decision["trigger"], "ReconcileSchedule");
    assert_eq!(decision["schedulerName"], "default-scheduler");
    assert_eq!(decision["currentConfiguration"], true);
    assert_eq!(decision["notes"], Value::Null, "{decision:#}");
    let clusters = decision["report"]["clusters"].as_array().unwrap();
    let cluster = |name: &str| clusters.iter().find(|c| c["name"] == name).unwrap();
    let (m1, m2) = (cluster("m1"), cluster("m2"));
    assert_eq!(m2["plugin"], "Expression");
    assert_eq!(m2["reason"], "m2 is reserved");
    let scores = m1["scores"].as_array().unwrap();
    let score = scores.iter().find(|s| s["plugin"] == "Expression").unwrap();
    assert_eq!(
        (&score["weight"], &score["weighted"]),
        (&3.into(), &21.into())
    );
    // The recorded result and the verdict of the report contain the same clusters as the binding that the scheduler has
    // written.
    let bound = bare.bindings("default").get("web1").await.unwrap();
    let written = serde_json::to_value(&bound.spec.clusters).unwrap();
    assert_eq!(decision["result"]["clusters"], written);
    let shares = &decision["report"]["verdict"]["clusters"];
    assert_eq!(shares, &written);

    the_commands_use_record_and_configuration(&bare, &config, &format!("http://{address}"));

    let active = document(&format!("http://{address}/debug/configuration")).await;
    assert_eq!(active["featureGates"]["SpreadByAllFields"], true);
    let file = bare.folder().join("active.yaml");
    std::fs::write(&file, active["configuration"].to_string()).unwrap();
    // The active configuration, saved as a file, configures another scheduler in the same way.
    let again = [
        "--leader-elect=false",
        &format!("--config={}", file.display()),
    ];
    drop(program);
    let program = process::start(bare.folder(), &bare.kubeconfig(), &again);
    let (_, address) = addresses(&program).await;
    let same = document(&format!("http://{address}/debug/configuration")).await;
    assert_eq!(
        same["configuration"]["profiles"],
        active["configuration"]["profiles"]
    );
    bare.stop().await;
}

/// With `--metrics-secure`, the user of the token needs the permission to read the path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secure_decisions_need_a_token_with_permission() {
    let bare = BareControlPlane::start(&fleet(1)).await;
    let (reader, stranger) = (token(&bare, "reader").await, token(&bare, "stranger").await);
    allow(&bare, "reader", "/debug/decisions").await;
    let arguments = [
        "--leader-elect=false",
        "--metrics-secure",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    bare.bind(&binding("web", 1, by_available_replicas())).await;
    settled(&bare, &program, 1).await;
    let (probes, metrics) = addresses(&program).await;
    let url = format!("https://{metrics}/debug/decisions?binding=default/web");
    let (status, text) = get(&url, Some(&reader)).await;
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"report\""), "{text}");
    for (token, expected) in [
        (None, 401),
        (Some("no token of this cluster"), 401),
        (Some(stranger.as_str()), 403),
    ] {
        let (status, text) = get(&url, token).await;
        assert_eq!(status, expected, "{token:?}: {text}");
        assert!(!text.contains("report"), "{text}");
    }
    let file = bare.folder().join("token");
    let url = format!("https://{metrics}");
    let (url, token_file) = (url.as_str(), file.display().to_string());
    let with_token = |token: &str, more: &[&str]| {
        std::fs::write(&file, token).unwrap();
        let flags = [
            "default/web",
            "--scheduler-url",
            url,
            "--scheduler-token-file",
            &token_file,
        ];
        explain(&bare, &[&flags[..], more].concat())
    };
    let (code, text) = with_token(&reader, &["--insecure-skip-scheduler-verify"]);
    // The command also reads `/debug/configuration`, for which this user has no permission.
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("/debug/configuration (403)"), "{text}");
    let (code, text) = with_token("wrong", &["--insecure-skip-scheduler-verify"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("(401)") && text.contains("--scheduler-token-file"),
        "{text}"
    );
    let (code, text) = with_token(&reader, &[]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("certificate"), "{text}");
    // The permission for one path does not include another path. The address for probes serves neither of the two
    // paths.
    let configuration = format!("https://{metrics}/debug/configuration");
    assert_eq!(get(&configuration, Some(&reader)).await.0, 403);
    let (status, _) = get(&format!("http://{probes}/debug/decisions"), None).await;
    assert_eq!(status, 404);
    bare.stop().await;
}

/// Without `--metrics-secure`, a request gets status 403 if it does not come from a loopback address, or if its `Host`
/// header contains a host name other than `localhost`. With `--debug-decisions=0`, the path `/debug/decisions` gets
/// status 404.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_metrics_secure_only_local_requests_are_served() {
    let bare = BareControlPlane::start(&[]).await;
    let arguments = [
        "--leader-elect=false",
        "--metrics-bind-address=0.0.0.0:0",
        "--health-probe-bind-address=0",
        "--debug-decisions=0",
    ];
    let program = process::start(bare.folder(), &bare.kubeconfig(), &arguments);
    let address = program.wait_for_log("serving health and metrics").await;
    let (_, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.trim().parse().unwrap();
    let url = format!("http://127.0.0.1:{port}/debug/decisions");
    let (status, text) = get(&url, None).await;
    assert_eq!(status, 404);
    assert!(text.contains("--debug-decisions is 0"), "{text}");
    let url = format!("http://127.0.0.1:{port}/debug/configuration");
    assert_eq!(get(&url, None).await.0, 200);
    // A browser sends this request if an attacker's host name resolves to this machine.
    let request = "GET /debug/configuration HTTP/1.1\r\nHost: attacker.example:80\r\nConnection: close\r\n\r\n";
    let response = exchange(format!("127.0.0.1:{port}"), request).await;
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    if let Some(other) = other_address() {
        let request = "GET /debug/configuration HTTP/1.0\r\n\r\n";
        let response = exchange(format!("{other}:{port}"), request).await;
        assert!(response.starts_with("HTTP/1.0 403"), "{response}");
    }
    bare.stop().await;
}

async fn exchange(address: String, request: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

/// Returns an address of this machine that is not a loopback address, or `None` if the machine has no such address.
fn other_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // The connection of a datagram socket selects a route and sends no packet.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
