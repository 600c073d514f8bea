//! The build script of the macro `#[needs(…)]`. It checks whether this machine has the programs and settings that some
//! tests need, and passes the names of the missing requirements to the macro.
//!
//! The environment variable `BERTH_REQUIRE` lists requirements, such as `kubectl,apiserver`. The build fails if one of
//! the listed requirements is missing.

use std::env;
use std::error::Error;
use std::net::{Ipv6Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable with a comma-separated list of requirements. The build fails if one of them is missing.
const REQUIRE: &str = "BERTH_REQUIRE";

/// A program or setting that some tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requirement {
    /// `kubectl` on the `PATH`.
    Kubectl,
    /// `kube-apiserver` and `etcd` in the directory `KUBEBUILDER_ASSETS`.
    Apiserver,
    /// Karmada's scheduler and controller manager in the directory `BERTH_E2E_KARMADA`.
    Karmada,
    /// `karmadactl` in the directory `BERTH_E2E_KARMADA`.
    Karmadactl,
    /// `python3` on the `PATH`.
    Python,
    /// `promtool` on the `PATH`.
    Promtool,
    /// `helm` on the `PATH`.
    Helm,
    /// `chromium` on the `PATH`.
    Chromium,
    /// `script`, which gives a program a terminal, on the `PATH`.
    Script,
    /// `unshare` and `readelf` on the `PATH`, and the right to mount.
    Namespaces,
    /// An IPv6 loopback address.
    Ipv6,
    /// An address that other machines can reach.
    Network,
    /// The embedded API server, which tests use if `KUBEBUILDER_ASSETS` is not set.
    Embedded,
}

impl Requirement {
    /// All requirements.
    const ALL: [Self; 13] = [
        Self::Kubectl,
        Self::Apiserver,
        Self::Karmada,
        Self::Karmadactl,
        Self::Python,
        Self::Promtool,
        Self::Helm,
        Self::Chromium,
        Self::Script,
        Self::Namespaces,
        Self::Ipv6,
        Self::Network,
        Self::Embedded,
    ];

    /// Returns the name of the requirement in `#[needs(…)]` and in `BERTH_REQUIRE`.
    const fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::Apiserver => "apiserver",
            Self::Karmada => "karmada",
            Self::Karmadactl => "karmadactl",
            Self::Python => "python3",
            Self::Promtool => "promtool",
            Self::Helm => "helm",
            Self::Chromium => "chromium",
            Self::Script => "script",
            Self::Namespaces => "namespaces",
            Self::Ipv6 => "ipv6",
            Self::Network => "network",
            Self::Embedded => "embedded",
        }
    }

    /// Returns an instruction for the user to meet the requirement.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Kubectl => "install kubectl 1.29 or newer",
            Self::Apiserver => "set KUBEBUILDER_ASSETS to a directory with kube-apiserver and etcd",
            Self::Karmada => {
                "set BERTH_E2E_KARMADA to a directory with karmada-scheduler and karmada-controller-manager"
            }
            Self::Karmadactl => "set BERTH_E2E_KARMADA to a directory with karmadactl",
            Self::Python => "install Python 3",
            Self::Promtool => "install promtool (Debian: prometheus)",
            Self::Helm => "install helm, or run hack/install-helm.sh",
            Self::Chromium => "install Chromium (Debian: chromium)",
            Self::Script => "install script (Debian: bsdutils)",
            Self::Namespaces => "install unshare and readelf, and run the tests as root",
            Self::Ipv6 => "enable IPv6 on the loopback interface",
            Self::Network => "connect the machine to a network",
            Self::Embedded => "unset KUBEBUILDER_ASSETS",
        }
    }

    /// Reports whether the machine meets the requirement.
    fn is_met(self) -> bool {
        let in_directory = |variable: &str, programs: &[&str]| {
            env::var_os(variable).is_some_and(|directory| {
                let directory = Path::new(&directory);
                programs
                    .iter()
                    .all(|program| directory.join(program).is_file())
            })
        };
        match self {
            Self::Kubectl => on_path("kubectl").is_some(),
            Self::Apiserver => in_directory("KUBEBUILDER_ASSETS", &["kube-apiserver", "etcd"]),
            Self::Karmada => in_directory(
                "BERTH_E2E_KARMADA",
                &["karmada-scheduler", "karmada-controller-manager"],
            ),
            Self::Karmadactl => in_directory("BERTH_E2E_KARMADA", &["karmadactl"]),
            Self::Python => on_path("python3").is_some(),
            Self::Promtool => on_path("promtool").is_some(),
            Self::Helm => on_path("helm").is_some(),
            Self::Chromium => on_path("chromium").is_some(),
            Self::Script => on_path("script").is_some(),
            Self::Namespaces => on_path("readelf").is_some() && may_mount(),
            Self::Ipv6 => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
            Self::Network => has_address(),
            Self::Embedded => env::var_os("KUBEBUILDER_ASSETS").is_none(),
        }
    }
}

/// Parses `BERTH_REQUIRE`.
fn parse(list: &str) -> Result<Vec<Requirement>, String> {
    let names = list
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut all = Requirement::ALL.into_iter();
            all.find(|requirement| requirement.name() == name)
                .ok_or_else(|| {
                    let known = Requirement::ALL.map(Requirement::name).join(", ");
                    format!("{REQUIRE} contains {name:?}; the known requirements are {known}")
                })
        })
        .collect()
}

/// Reports whether the current user may mount a folder in a new mount namespace.
fn may_mount() -> bool {
    let unshare = Command::new("unshare")
        .args(["--mount", "mount", "--bind", "/", "/"])
        .output();
    unshare.is_ok_and(|output| output.status.success())
}

/// Reports whether the machine has an address other than loopback. The function sends no packet: connecting a datagram
/// socket only selects the local address.
fn has_address() -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0");
    let connected = socket.and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    connected.is_ok_and(|address| !address.ip().is_loopback() && !address.ip().is_unspecified())
}

fn directories() -> Vec<PathBuf> {
    env::var_os("PATH").map_or_else(Vec::new, |path| env::split_paths(&path).collect())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let candidates = directories()
        .into_iter()
        .map(|directory| directory.join(program));
    candidates.into_iter().find(|candidate| candidate.is_file())
}

fn main() -> Result<(), Box<dyn Error>> {
    for variable in ["PATH", "KUBEBUILDER_ASSETS", "BERTH_E2E_KARMADA", REQUIRE] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    // If a missing program is installed later, a directory in the `PATH` changes, and Cargo runs this script again.
    for program in [
        "kubectl", "python3", "promtool", "helm", "chromium", "script",
    ] {
        if let Some(path) = on_path(program) {
            println!("cargo::rerun-if-changed={}", path.display());
            continue;
        }
        for directory in directories().iter().filter(|directory| directory.is_dir()) {
            println!("cargo::rerun-if-changed={}", directory.display());
        }
    }
    let required = parse(&env::var(REQUIRE).unwrap_or_default())?;
    let missing: Vec<_> = Requirement::ALL
        .into_iter()
        .filter(|requirement| !requirement.is_met())
        .collect();
    if let Some(unmet) = missing
        .iter()
        .find(|requirement| required.contains(requirement))
    {
        return Err(format!(
            "{REQUIRE} contains {}, which is missing: {}",
            unmet.name(),
            unmet.remedy()
        )
        .into());
    }
    let missing: Vec<_> = missing.into_iter().map(Requirement::name).collect();
    println!(
        "cargo::rustc-env=BERTH_KNOWN={}",
        Requirement::ALL.map(Requirement::name).join(",")
    );
    println!("cargo::rustc-env=BERTH_MISSING={}", missing.join(","));
    if !missing.is_empty() {
        println!(
            "cargo::warning=tests that need {} are ignored",
            missing.join(", ")
        );
    }
    Ok(())
}
