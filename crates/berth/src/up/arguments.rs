//! The command-line flags of `berth up`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use berth_api::feature_gates::{self, FeatureGates};
use berth_telemetry::TracingArgs;
use clap::Args;
use regex::Regex;

use super::DisabledComponent;
use crate::controllers::controller_set::ControllerFlags;
use crate::persistence::PersistenceArgs;

/// Flags of `berth up`.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// Address of the API servers; any address except a loopback address exposes them to other machines
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,

    /// Port of the API server; 0 for any free port. Members use the following ports if they are free
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 6443,
        env = "BERTH_PORT",
        hide_env_values = true
    )]
    pub port: u16,

    /// Port of the dashboard, which listens on the loopback address only; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub dashboard_port: u16,

    /// Number of simulated member clusters; 0 for none
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number_of_members)]
    pub members: usize,

    /// File with Cluster manifests that describe the fleet, instead of --members (see examples/fleet.yaml)
    #[arg(long, value_name = "FILE", conflicts_with = "members")]
    pub fleet: Option<PathBuf>,

    /// Images that simulated members cannot pull: a regular expression that matches anywhere in the name
    #[arg(long, value_name = "REGEX")]
    pub unpullable: Option<Regex>,

    /// File to write the kubeconfig to [default: ~/.berth/kubeconfig]
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,

    /// Storage of the servers.
    #[command(flatten)]
    pub persistence: PersistenceArgs,

    /// Components not to start, such as the scheduler if you run karmada-scheduler instead
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub without: Vec<DisabledComponent>,

    /// Feature gates of controllers and scheduler; Failover is on by default here
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse_stand_alone)]
    pub feature_gates: FeatureGates,

    /// Flags of the controllers.
    #[command(flatten)]
    pub controllers: ControllerFlags,

    /// Flags of tracing.
    #[command(flatten)]
    pub tracing: TracingArgs,
}

/// Maximum value of `--members`. Each member needs a server, a port and several tasks.
const MAX_MEMBERS: usize = 1000;

fn number_of_members(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= MAX_MEMBERS);
    number.ok_or_else(|| format!("must be a number from 0 to {MAX_MEMBERS}"))
}

impl Default for UpArgs {
    /// Returns the arguments of a command line without flags.
    fn default() -> Self {
        Self {
            bind_address: Ipv4Addr::LOCALHOST.into(),
            port: 6443,
            dashboard_port: 0,
            members: 3,
            fleet: None,
            unpullable: None,
            kubeconfig: None,
            persistence: PersistenceArgs::default(),
            without: Vec::new(),
            feature_gates: FeatureGates::stand_alone(),
            controllers: ControllerFlags::default(),
            tracing: TracingArgs::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_members_is_bounded() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("1000", Ok(1000)),
            ("1001", Err(())),
            ("-1", Err(())),
            ("many", Err(())),
        ] {
            let refused = |()| "must be a number from 0 to 1000".to_owned();
            assert_eq!(number_of_members(text), expected.map_err(refused), "{text}");
        }
    }
}
