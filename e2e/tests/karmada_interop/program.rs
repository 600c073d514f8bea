//! The schedulers and controllers of Berth and Karmada, and Karmada's webhook, as processes.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_e2e::Program;
use berth_e2e::program::command;

/// Flags that disable the ports of the probes and metrics, because several programs would use the same ports.
const NO_PORTS: [&str; 2] = ["--health-probe-bind-address=0", "--metrics-bind-address=0"];
/// Flags for a short lease, so that a scheduler leads soon after the previous scheduler was killed.
const SHORT_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
];
/// Flags that enable evictions by taints with a high rate, and status updates at a short interval.
const CONTROLLER_FLAGS: [&str; 4] = [
    "--feature-gates=Failover=true",
    "--enable-no-execute-taint-eviction=true",
    "--resource-eviction-rate=100",
    "--cluster-status-update-frequency=2s",
];

/// Returns the folder of Karmada's programs.
///
/// # Panics
/// If `BERTH_E2E_KARMADA` is not set. A test with `#[needs(karmada)]` runs only if the variable is set.
pub fn karmada_programs() -> PathBuf {
    std::env::var_os("BERTH_E2E_KARMADA")
        .map(PathBuf::from)
        .unwrap()
}

/// The project that provides a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    Berth,
    /// Karmada, whose programs are in this folder.
    Karmada(PathBuf),
}

impl Provider {
    /// Starts the scheduler of the provider with further flags.
    pub fn scheduler(&self, folder: &Path, kubeconfig: &Path, flags: &[&str]) -> Program {
        let mut command = self.command("karmada-scheduler", "scheduler");
        command.args(NO_PORTS).args(SHORT_LEASE).args(flags);
        start(command, "scheduler", folder, kubeconfig)
    }

    /// Starts Berth's scheduler with this scheduler name.
    pub fn second_scheduler(name: &str, folder: &Path, kubeconfig: &Path) -> Program {
        let mut command = Self::Berth.command("karmada-scheduler", "scheduler");
        command.args(NO_PORTS).args([
            &format!("--scheduler-name={name}"),
            &format!("--leader-elect-resource-name={name}"),
        ]);
        start(command, name, folder, kubeconfig)
    }

    /// Starts the controllers of the provider.
    pub fn controllers(&self, folder: &Path, kubeconfig: &Path) -> Program {
        let mut command = self.command("karmada-controller-manager", "controllers");
        command.args(CONTROLLER_FLAGS).args(NO_PORTS);
        start(command, "controllers", folder, kubeconfig)
    }

    /// Starts Karmada's webhook. `folder` contains the certificate of the webhook.
    pub fn webhook(karmada: &Path, folder: &Path, kubeconfig: &Path, port: u16) -> Program {
        let mut command = command(karmada.join("karmada-webhook"));
        command.args(NO_PORTS).args([
            "--bind-address=127.0.0.1",
            &format!("--secure-port={port}"),
            &format!("--cert-dir={}", folder.display()),
        ]);
        start(command, "webhook", folder, kubeconfig)
    }

    fn command(&self, karmada_name: &str, berth_command: &str) -> Command {
        match self {
            Self::Berth => {
                let mut command = command(env!("CARGO_BIN_EXE_berth-program"));
                command.arg(berth_command);
                command
            }
            Self::Karmada(folder) => command(folder.join(karmada_name)),
        }
    }
}

fn start(mut command: Command, name: &str, folder: &Path, kubeconfig: &Path) -> Program {
    command.arg(format!("--kubeconfig={}", kubeconfig.display()));
    Program::start(&mut command, &folder.join(format!("{name}.log")))
}
