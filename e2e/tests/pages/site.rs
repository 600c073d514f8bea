//! A [`Site`]: the clusters in which the commands of a page run. The clusters are servers of one `berth up`.
//!
//! The kubeconfig of the site has the two contexts that the pages use. `karmada-apiserver` is the control plane.
//! `karmada-host` is a simulated member cluster, which has Deployments, rollouts and their history.
//!
//! For each Deployment in the namespace `karmada-system` of the host, [`Site::reconcile`] runs a local process with the
//! command line of the Deployment. The process runs Berth's program, even if the Deployment names an image of Karmada.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use berth::cli::Cli;
use clap::CommandFactory as _;
use serde_json::{Value, json};

use crate::helm::HELM;
use crate::repository;

const PROGRAM: &str = env!("CARGO_BIN_EXE_berth-program");
const TIMEOUT: Duration = Duration::from_secs(90);

/// A local process for a Deployment. The process is killed when this value is dropped.
struct Process {
    child: Child,
    /// The pod template of the Deployment when the process was started.
    template: Value,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Ends the process with SIGTERM, as the kubelet does, so that the process releases its Lease.
    fn terminate(mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
    }
}

/// The clusters, a shell with the contexts of the pages, and the processes for the Deployments on the host.
pub(crate) struct Site {
    up: Child,
    processes: BTreeMap<String, Process>,
    folder: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.up.kill();
        let _ = self.up.wait();
    }
}

impl Site {
    /// Starts the clusters, and writes the kubeconfigs and programs that the commands use.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["deploy", "examples"] {
            symlink(repository().join(name), folder.path().join(name)).unwrap();
        }
        // kubectl reads no folder behind a symbolic link. Therefore the folder is real, and its files are links.
        let crds = folder.path().join("crds");
        std::fs::create_dir(&crds).unwrap();
        for file in std::fs::read_dir(repository().join("crds")).unwrap() {
            let file = file.unwrap();
            symlink(file.path(), crds.join(file.file_name())).unwrap();
        }
        let log = File::create(folder.path().join("up.log")).unwrap();
        let up = Command::new(PROGRAM)
            .args(["up", "--port=0", "--without=scheduler,controllers"])
            .arg(format!(
                "--kubeconfig={}",
                folder.path().join("config").display()
            ))
            .env("HOME", folder.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let site = Self {
            up,
            processes: BTreeMap::new(),
            folder,
        };
        site.until("`up` to be ready", || {
            let log = std::fs::read_to_string(site.path("up.log")).unwrap();
            if log.contains("Press Ctrl-C") {
                Ok(())
            } else {
                Err(log)
            }
        });
        site.write_kubeconfigs();
        site.write_programs();
        site.run("kubectl --context karmada-host create namespace karmada-system");
        site
    }

    /// Returns a path in the folder in which the commands run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Sets the current context of the kubeconfig.
    pub(crate) fn use_context(&self, name: &str) {
        self.run(&format!("kubectl config use-context {name}"));
    }

    /// Writes the kubeconfig with the contexts of the pages, and a kubeconfig for the control plane and for two
    /// members.
    fn write_kubeconfigs(&self) {
        let text = std::fs::read_to_string(self.path("config")).unwrap();
        let config: Value = serde_saphyr::from_str(&text).unwrap();
        let contexts = config["contexts"].as_array().unwrap().clone();
        let context = |name: &str, alias: &str| {
            let mut found = contexts
                .iter()
                .find(|context| context["name"] == name)
                .unwrap()
                .clone();
            found["name"] = json!(alias);
            found
        };
        let single = |name: &str, alias: &str| {
            let mut single = config.clone();
            single["contexts"] = json!([context(name, alias)]);
            single["current-context"] = json!(alias);
            single.to_string()
        };
        for member in ["member1", "member2"] {
            std::fs::write(
                self.path(&format!("{member}.config")),
                single(member, member),
            )
            .unwrap();
        }
        std::fs::write(self.path("control-plane"), single("berth", "control-plane")).unwrap();
        let mut all = config.clone();
        all["contexts"] = json!([
            context("berth", "karmada-apiserver"),
            context("member3", "karmada-host")
        ]);
        all["current-context"] = json!("karmada-apiserver");
        std::fs::write(self.path("config"), all.to_string()).unwrap();
    }

    fn write_programs(&self) {
        let programs = self.path("bin");
        std::fs::create_dir(&programs).unwrap();
        let berth = format!("#!/bin/sh\nexec '{PROGRAM}' \"$@\"\n");
        for (name, text) in [("berth", berth.as_str()), ("helm", HELM)] {
            std::fs::write(programs.join(name), text).unwrap();
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(programs.join(name), executable).unwrap();
        }
    }

    fn shell(&self, script: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        let helm = std::env::split_paths(&path).map(|folder| folder.join("helm"));
        let helm = helm
            .into_iter()
            .find(|file| file.is_file())
            .unwrap_or_default();
        Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HELM", helm)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.path("config"))
            .env("SERVER", self.server())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Returns the URL of the control plane, or an empty text before the kubeconfig exists.
    fn server(&self) -> String {
        let text = std::fs::read_to_string(self.path("control-plane")).unwrap_or_default();
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let name = &config["contexts"][0]["context"]["cluster"];
        let mut clusters = config["clusters"].as_array().into_iter().flatten();
        let cluster = clusters.find(|cluster| cluster["name"] == *name);
        let url = cluster.and_then(|cluster| cluster["cluster"]["server"].as_str());
        url.unwrap_or_default().to_owned()
    }

    /// Runs a script that must succeed, and returns its output.
    pub(crate) fn run(&self, script: &str) -> String {
        self.attempt(script)
            .unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Runs a script. Returns its output, or an error with the output and the logs of the processes.
    pub(crate) fn attempt(&self, script: &str) -> Result<String, String> {
        let output = self.shell(script);
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(stdout);
        }
        Err(format!(
            "{script}\n{stdout}{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            self.logs()
        ))
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for name in self.processes.keys() {
            let log =
                std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
            write!(text, "--- {name}\n{log}").unwrap();
        }
        text
    }

    /// Repeats a check until it succeeds or the time limit has passed.
    pub(crate) fn until<T>(&self, what: &str, mut check: impl FnMut() -> Result<T, String>) -> T {
        let end = Instant::now() + TIMEOUT;
        loop {
            match check() {
                Ok(value) => return value,
                Err(reason) => assert!(
                    Instant::now() < end,
                    "timed out waiting for {what}: {reason}\n{}",
                    self.logs()
                ),
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Creates the Deployment of a Karmada component on the host, and the Secret with its kubeconfig, under Karmada's
    /// names.
    pub(crate) fn add_karmada_program(&self, name: &str) {
        let mut command = vec![
            format!("/bin/{name}"),
            "--kubeconfig=/etc/karmada/config/karmada.config".to_owned(),
            "--feature-gates=AllAlpha=true,AllBeta=true".to_owned(),
            "--logging-format=json".to_owned(),
            "--v=4".to_owned(),
        ];
        if name == "karmada-controller-manager" {
            command
                .push("--controllers=*,hpaScaleTargetMarker,deploymentReplicasSyncer".to_owned());
        }
        let labels = json!({ "app": name });
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": "karmada-system", "labels": labels },
            "spec": {
                "replicas": 2,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "containers": [{
                            "name": name, "image": format!("docker.io/karmada/{name}:latest"),
                            "command": command,
                            "volumeMounts": [{ "name": "karmada-config", "mountPath": "/etc/karmada/config" }],
                        }],
                        "volumes": [{ "name": "karmada-config", "secret": { "secretName": format!("{name}-config") } }],
                    },
                },
            },
        });
        std::fs::write(self.path("deployment"), deployment.to_string()).unwrap();
        self.run(&format!(
            "kubectl --context karmada-host -n karmada-system create secret generic {name}-config \
             --from-file=karmada.config=control-plane\n\
             kubectl --context karmada-host apply -f deployment"
        ));
    }

    /// Returns a Deployment in the namespace `karmada-system` of the host.
    pub(crate) fn deployment(&self, name: &str) -> Value {
        let json = self.run(&format!(
            "kubectl --context karmada-host -n karmada-system get deployment {name} -o json"
        ));
        serde_json::from_str(&json).unwrap()
    }

    /// Starts, restarts and stops processes according to the Deployments on the host.
    pub(crate) fn reconcile(&mut self) {
        let json =
            self.run("kubectl --context karmada-host -n karmada-system get deployments -o json");
        let list: Value = serde_json::from_str(&json).unwrap();
        let mut wanted = BTreeMap::new();
        for deployment in list["items"].as_array().unwrap() {
            if deployment["spec"]["replicas"] != 0 {
                let name = deployment["metadata"]["name"].as_str().unwrap();
                wanted.insert(name.to_owned(), deployment["spec"]["template"].clone());
            }
        }
        let running = std::mem::take(&mut self.processes);
        for (name, process) in running {
            if wanted.get(&name) == Some(&process.template) {
                self.processes.insert(name, process);
            } else {
                process.terminate();
            }
        }
        for (name, template) in wanted {
            if !self.processes.contains_key(&name) {
                let child = self.start_process(&name, &template["spec"]);
                self.processes.insert(name, Process { child, template });
            }
        }
    }

    fn start_process(&self, name: &str, pod: &Value) -> Child {
        let command: Vec<String> =
            serde_json::from_value(pod["containers"][0]["command"].clone()).unwrap();
        let (program, arguments) = command.split_first().unwrap();
        let component = match program.as_str() {
            "berth" => arguments[0].as_str(),
            "/bin/karmada-scheduler" => "scheduler",
            _ => "controllers",
        };
        let webhook_port = (component == "webhook").then(|| self.redirect_webhooks_to_free_port());
        let kubeconfig = self.kubeconfig_of(name, pod);
        let log = File::create(self.path(&format!("{name}.log"))).unwrap();
        let mut process = Command::new(PROGRAM);
        // Berth's image contains a link with the name of each Karmada program. `arg0` simulates the link.
        process.arg0(program);
        for argument in arguments {
            let flag = argument.split('=').next().unwrap();
            if !matches!(flag, "--kubeconfig" | "--secure-port") && !flag.ends_with("-bind-address")
            {
                process.arg(argument);
            }
        }
        process.arg(format!("--kubeconfig={}", kubeconfig.display()));
        if component == "controllers" {
            process.args(CONTROLLERS);
        }
        if let Some(port) = webhook_port {
            process.arg("--bind-address=127.0.0.1");
            process.arg(format!("--secure-port={port}"));
        }
        let child = process
            .args(free_ports(component))
            .env("HOME", "/nonexistent")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        if webhook_port.is_some() {
            self.wait_for_webhooks();
        }
        child
    }

    /// Changes the Service and the webhook configurations on the host, so that webhook requests reach a free local
    /// port. Returns this port.
    fn redirect_webhooks_to_free_port(&self) -> u16 {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let host = "kubectl --context karmada-host";
        self.run(&format!(
            "{host} -n karmada-system delete service karmada-webhook
             {host} -n karmada-system create service externalname karmada-webhook --external-name=localhost"
        ));
        for kind in ["mutating", "validating"] {
            let name = format!("{kind}webhookconfigurations/{kind}-config");
            let json = self.run(&format!("{host} get {name} -o json"));
            let mut configuration: Value = serde_json::from_str(&json).unwrap();
            for webhook in configuration["webhooks"].as_array_mut().unwrap() {
                webhook["clientConfig"]["service"]["port"] = json!(port);
            }
            std::fs::write(self.path("configuration"), configuration.to_string()).unwrap();
            self.run(&format!("{host} replace -f configuration"));
        }
        port
    }

    /// Waits until the host can call the webhooks. Then a dry run with a policy succeeds.
    fn wait_for_webhooks(&self) {
        self.until("the webhooks", || {
            self.attempt(
                "kubectl --context karmada-host apply --dry-run=server -f examples/nginx.yaml",
            )
        });
    }

    /// Returns the path of a pod's kubeconfig. A pod without a Secret uses the kubeconfig of the site.
    fn kubeconfig_of(&self, name: &str, pod: &Value) -> PathBuf {
        let Some(secret) = pod["volumes"][0]["secret"]["secretName"].as_str() else {
            return self.path("config");
        };
        let script =
            format!("kubectl --context karmada-host -n karmada-system get secret {secret} -o json");
        let json = self.until("the secret", || self.attempt(&script));
        let secret: Value = serde_json::from_str(&json).unwrap();
        let data = secret["data"]["karmada.config"].as_str().unwrap();
        let path = self.path(&format!("{name}.kubeconfig"));
        std::fs::write(
            &path,
            base64::engine::general_purpose::STANDARD
                .decode(data)
                .unwrap(),
        )
        .unwrap();
        path
    }
}

/// Returns the flags that make a component listen at free ports.
fn free_ports(component: &str) -> Vec<String> {
    let program = Cli::command();
    let command = program.find_subcommand(component).unwrap();
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let addresses =
        flags.filter(|flag| ["health-probe-bind-address", "metrics-bind-address"].contains(flag));
    addresses
        .map(|flag| format!("--{flag}=127.0.0.1:0"))
        .collect()
}

/// Shorter intervals than the defaults, so that the members become ready sooner.
const CONTROLLERS: &[&str] = &[
    "--cluster-status-update-frequency=1s",
    "--cluster-success-threshold=1s",
];
