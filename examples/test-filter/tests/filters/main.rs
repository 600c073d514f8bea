//! Tests of the example scheduler on a control plane: its plugin, its flags, and its configuration file.

#![expect(clippy::unwrap_used, reason = "this is how a test fails")]

mod documented;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use berth_e2e::{BareControlPlane, eventually};
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_test-filter");
const ANY_PORT: [&str; 3] = [
    "--health-probe-bind-address=127.0.0.1:0",
    "--metrics-bind-address=0",
    "--leader-elect=false",
];

/// A process of the example scheduler, which is killed when this value is dropped.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(bare: &BareControlPlane, arguments: &[&str]) -> Self {
        let log = bare.folder().join("scheduler.log");
        let file = std::fs::File::create(&log).unwrap();
        let child = command(&bare.kubeconfig(), arguments)
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

fn command(kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .args(ANY_PORT)
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null());
    command
}

/// Runs the example scheduler with an invalid configuration file until it exits. No control plane exists.
fn refused(config: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (file, kubeconfig) = (
        folder.path().join("config.yaml"),
        folder.path().join("kubeconfig"),
    );
    std::fs::write(&file, config).unwrap();
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    command(&kubeconfig, &[&format!("--config={}", file.display())])
        .output()
        .unwrap()
}

const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]
users: [{name: u, user: {}}]
";

fn cluster(name: &str, labels: Value) -> Value {
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "reason": "Ok", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "syncMode": "Push" },
        "status": {
            "apiEnablements": [{ "groupVersion": "apps/v1",
                                 "resources": [{ "name": "deployments", "kind": "Deployment" }] }],
            "conditions": [condition("Ready"), condition("CompleteAPIEnablements")],
        },
    })
}

async fn control_plane() -> BareControlPlane {
    let members = [
        cluster("open", json!({})),
        cluster("closed", json!({ "test-filter/closed": "" })),
        cluster("broken", json!({ "maintenance": "today" })),
    ];
    let members: Vec<_> = members
        .into_iter()
        .map(|m| serde_json::from_value(m).unwrap())
        .collect();
    BareControlPlane::start(&members).await
}

/// Creates a binding for a scheduler name, waits until it is placed, and returns its clusters.
async fn placed(bare: &BareControlPlane, running: &Running, scheduler: &str) -> Vec<String> {
    let binding = json!({
        "metadata": { "name": scheduler, "namespace": "default",
                      "labels": { "propagationpolicy.karmada.io/permanent-id": "id" } },
        "spec": {
            "schedulerName": scheduler,
            "resource": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx", "namespace": "default" },
            "replicas": 1,
            "placement": {},
        },
    });
    bare.bind(&serde_json::from_value(binding).unwrap()).await;
    eventually("the binding to be placed", async || {
        let stored = bare.bindings("default").get(scheduler).await.unwrap();
        let mut names: Vec<String> = stored
            .spec
            .clusters
            .iter()
            .map(|c| c.name.clone())
            .collect();
        names.sort();
        if names.is_empty() {
            Err(running.log())
        } else {
            Ok(names)
        }
    })
    .await
}

/// Without a configuration file, the plugin is enabled and rejects the cluster with the default label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plugin_is_enabled_and_filters() {
    let bare = control_plane().await;
    let running = Running::start(&bare, &[]);
    assert_eq!(
        placed(&bare, &running, "default-scheduler").await,
        ["broken", "open"]
    );
    assert!(
        running
            .log()
            .contains("Enable Scheduler plugin \"TestFilter\""),
        "{}",
        running.log()
    );
    bare.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flag_disables_the_plugin() {
    let bare = control_plane().await;
    let running = Running::start(&bare, &["--plugins=*,-TestFilter"]);
    assert_eq!(
        placed(&bare, &running, "default-scheduler").await,
        ["broken", "closed", "open"]
    );
    assert!(!running.log().contains("TestFilter"), "{}", running.log());
    assert!(
        running
            .log()
            .contains("Enable Scheduler plugin \"ClusterAffinity\"")
    );
    bare.stop().await;
}

/// Each of two profiles has a scheduler name. Only the first profile enables the plugin, with a label other than the
/// default label.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn profiles_of_the_example_file_have_their_own_plugins_and_arguments() {
    let bare = control_plane().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config.yaml");
    let running = Running::start(&bare, &[&format!("--config={}", file.display())]);
    assert_eq!(
        placed(&bare, &running, "my-scheduler").await,
        ["closed", "open"]
    );
    assert_eq!(
        placed(&bare, &running, "plain-scheduler").await,
        ["broken", "closed", "open"]
    );
    bare.stop().await;
}

/// The error names the position and the wrong word.
#[test]
fn a_wrong_file_is_refused_with_line_and_column() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("config.yaml")).unwrap();
    for (from, to, words) in [
        (
            "label: maintenance",
            "lable: maintenance",
            "config.yaml:19:7: profiles[0].pluginConfig[0].args.lable: plugin TestFilter: unknown field `lable`",
        ),
        (
            "      - name: TestFilter",
            "      - name: TestFiltre",
            "config.yaml:15:9: profiles[0].plugins.filter.enabled[0].name: no plugin is named \"TestFiltre\"",
        ),
        (
            "    filter:",
            "    fliter:",
            "config.yaml:13:5: profiles[0].plugins.fliter: unknown field `fliter`",
        ),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text);
        let output = refused(&broken);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("error: ") && last.contains(words),
            "{said}"
        );
        // The program checks the file before it sends any request.
        assert!(!said.contains("the watch broke"), "{said}");
    }
}
