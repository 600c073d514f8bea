//! The setup of a test: the API servers of a control plane and of two clusters that have not joined, and a folder with
//! their kubeconfigs.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use berth_api::Cluster;
use berth_apiserver::{Server, ServerConfig};
use berth_test_transcripts::Transcript;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;

/// The API servers and the folder. The folder contains a kubeconfig `NAME.kubeconfig` for each server.
pub(crate) struct TestServers {
    pub(crate) control_plane: Server,
    pub(crate) member1: Server,
    pub(crate) member2: Server,
    home: tempfile::TempDir,
    session: Mutex<Transcript>,
}

/// Exit code and output of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl TestServers {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        let server = async |name: &str| {
            let server = Server::start(ServerConfig::default()).await.unwrap();
            let file = home.path().join(format!("{name}.kubeconfig"));
            std::fs::write(file, server.kubeconfig(name)).unwrap();
            server
        };
        let (control_plane, member1, member2) = (
            server("control-plane").await,
            server("member1").await,
            server("member2").await,
        );
        berth_up::bootstrap::prepare(&control_plane.client(), &[])
            .await
            .unwrap();
        Self {
            control_plane,
            member1,
            member2,
            home,
            session: Mutex::default(),
        }
    }

    /// Returns all commands so far with their outputs.
    pub(crate) fn session(&self) -> Transcript {
        self.session.lock().unwrap().clone()
    }

    /// Adds a line to the commands so far.
    pub(crate) fn about(&self, line: &str) {
        self.session.lock().unwrap().about(line);
    }

    /// Returns the folder in which the commands run.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts a second control plane, and writes its kubeconfig to `other.kubeconfig`.
    pub(crate) async fn other_control_plane(&self) -> Server {
        let server = Server::start(ServerConfig::default()).await.unwrap();
        let file = self.home().join("other.kubeconfig");
        std::fs::write(file, server.kubeconfig("other")).unwrap();
        berth_up::bootstrap::prepare(&server.client(), &[])
            .await
            .unwrap();
        server
    }

    /// Runs `berth` with these arguments in the folder. The environment variable KUBECONFIG is the kubeconfig of the
    /// control plane.
    pub(crate) async fn berth(&self, words: &str) -> CommandResult {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        command
            .args(words.split_whitespace())
            .current_dir(self.home())
            .env("HOME", self.home())
            .env("KUBECONFIG", "control-plane.kubeconfig")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let result = CommandResult::of(&output.await.unwrap());
        let out = without_namespace(&result.out);
        let mut session = self.session.lock().unwrap();
        session.command(&["berth", words], result.code, &out, &result.err);
        drop(session);
        result
    }

    /// Runs `berth` like [`Self::berth`], checks that it succeeds, and returns its output.
    pub(crate) async fn run(&self, words: &str) -> String {
        let result = self.berth(words).await;
        assert_eq!(result.code, Some(0), "berth {words}: {result:?}");
        assert_eq!(result.err, "", "berth {words}");
        result.out
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::all(self.control_plane.client())
    }

    /// Returns the API of the Secrets in which the control plane stores the members' tokens.
    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.control_plane.client(), "karmada-cluster")
    }

    /// Returns a client for a server. The client authenticates with the given token.
    pub(crate) async fn with_token(server: &Server, token: &str) -> Client {
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig("any")).unwrap();
        let options = kube::config::KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        config.auth_info = kube::config::AuthInfo {
            token: Some(token.to_owned().into()),
            ..kube::config::AuthInfo::default()
        };
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn stop(self) {
        for server in [self.control_plane, self.member1, self.member2] {
            server.shutdown().await;
        }
    }
}

impl CommandResult {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// Returns the value of a key of a Secret as text.
pub(crate) fn entry(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}

/// Removes the lines about the namespace in the control plane, because that namespace may already exist.
fn without_namespace(text: &str) -> String {
    let ours = "control plane: Namespace karmada-cluster ";
    let mut is_ours = false;
    let others = text.split_inclusive('\n').filter(|line| {
        // The fields of an object are indented.
        is_ours = line.starts_with(ours) || is_ours && line.starts_with("  ");
        !is_ours
    });
    others.collect()
}
