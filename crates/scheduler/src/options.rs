//! The flags of the scheduler, with Karmada's names and defaults, parsed into types that cannot be wrong.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use berth_core::{Gates, PluginSet};
use clap::Args;

use crate::connect::Target;
use crate::gates;
use crate::lease::LeaseOptions;
use crate::rate_limit::Rate;

/// Flags of `berth scheduler`.
#[derive(Args, Clone, Debug)]
pub struct SchedulerArgs {
    /// Path to a kubeconfig file of the control plane
    ///
    /// Without it, KUBECONFIG, ~/.kube/config and the in-cluster configuration are tried, in this order.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; wins over the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Name of this scheduler: it takes the bindings whose spec.schedulerName says so
    #[arg(long, value_name = "NAME", default_value = berth_api::well_known::DEFAULT_SCHEDULER,
        value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub scheduler_name: String,

    /// Plugins to enable: `*` for all, a name to add one, -NAME to leave one out
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub plugins: Vec<String>,

    /// Feature gates, as Name=true,Name=false
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = gates::parse)]
    pub feature_gates: Gates,

    /// Also send workloads with no replicas assigned to the selected clusters, with 0 replicas
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_empty_workload_propagation: bool,

    /// Elect a leader among schedulers of the same lease before scheduling
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Name of the lease; a second scheduler needs its own
    #[arg(long, value_name = "NAME", default_value = "karmada-scheduler")]
    pub leader_elect_resource_name: String,

    /// Namespace of the lease
    #[arg(long, value_name = "NAMESPACE", default_value = berth_api::well_known::NAMESPACE_SYSTEM)]
    pub leader_elect_resource_namespace: String,

    /// How long standbys wait before they take over from a leader that is not heard of
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew its lease before it gives up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub leader_elect_renew_deadline: Duration,

    /// How often candidates try to take or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub leader_elect_retry_period: Duration,

    /// Address that serves /metrics; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,

    /// Address that serves /healthz, /livez and /readyz; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":10351")]
    pub health_probe_bind_address: BindAddress,

    /// Requests to the API server each second; 0 or less means no limit
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 40.0,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f32,

    /// Requests to the API server that may be sent at once; 0 or less means no limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        allow_negative_numbers = true
    )]
    pub kube_api_burst: i32,
}

/// What the scheduler needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the control plane is.
    pub target: Target,
    /// The scheduler's name.
    pub scheduler_name: String,
    /// The plugins in use.
    pub plugins: PluginSet,
    /// The feature gates.
    pub gates: Gates,
    /// Whether clusters without replicas are kept in the result.
    pub empty_workload_propagation: bool,
    /// Leader election, where it is held.
    pub lease: Option<LeaseOptions>,
    /// Where metrics are served.
    pub metrics: BindAddress,
    /// Where probes are served.
    pub health: BindAddress,
    /// The client's own limit; absent means none.
    pub rate: Option<Rate>,
}

impl Options {
    /// For a scheduler in the process of its control plane: no election, no limit towards a server that is
    /// a function call away, and ports that leave the defaults to a second scheduler.
    pub fn embedded() -> Self {
        Self {
            target: Target::default(),
            scheduler_name: berth_api::well_known::DEFAULT_SCHEDULER.to_owned(),
            plugins: PluginSet::all(),
            gates: Gates::default(),
            empty_workload_propagation: false,
            lease: None,
            metrics: BindAddress::Off,
            health: BindAddress::LOOPBACK,
            rate: None,
        }
    }
}

/// Flags that contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The leader would outlive its lease.
    #[error(
        "--leader-elect-lease-duration ({lease:?}) must be longer than --leader-elect-renew-deadline ({renew:?})"
    )]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
    /// The leader would have no second try.
    #[error(
        "--leader-elect-renew-deadline ({renew:?}) must be longer than --leader-elect-retry-period ({retry:?})"
    )]
    RenewTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
}

impl TryFrom<SchedulerArgs> for Options {
    type Error = OptionsError;

    fn try_from(args: SchedulerArgs) -> Result<Self, OptionsError> {
        let lease = LeaseOptions {
            namespace: args.leader_elect_resource_namespace,
            name: args.leader_elect_resource_name,
            identity: LeaseOptions::new_identity(),
            lease_duration: args.leader_elect_lease_duration,
            renew_deadline: args.leader_elect_renew_deadline,
            retry_period: args.leader_elect_retry_period,
        };
        if args.leader_elect {
            check(&lease)?;
        }
        Ok(Self {
            target: Target {
                kubeconfig: args.kubeconfig,
                context: None,
                master: args.master,
            },
            scheduler_name: args.scheduler_name,
            plugins: PluginSet::parse(args.plugins.iter().map(String::as_str), berth_core::IN_TREE),
            gates: args.feature_gates,
            empty_workload_propagation: args.enable_empty_workload_propagation,
            lease: args.leader_elect.then_some(lease),
            metrics: args.metrics_bind_address,
            health: args.health_probe_bind_address,
            rate: Rate::new(args.kube_api_qps, args.kube_api_burst),
        })
    }
}

fn check(lease: &LeaseOptions) -> Result<(), OptionsError> {
    if lease.lease_duration <= lease.renew_deadline {
        return Err(OptionsError::LeaseTooShort {
            lease: lease.lease_duration,
            renew: lease.renew_deadline,
        });
    }
    if lease.renew_deadline <= lease.retry_period {
        return Err(OptionsError::RenewTooShort {
            renew: lease.renew_deadline,
            retry: lease.retry_period,
        });
    }
    Ok(())
}

/// An address to listen on, as Go writes it: `:8080`, `0.0.0.0:8080`, `[::1]:8080`, or `0` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nothing is served.
    Off,
    /// Served here; port 0 means any free port.
    At(SocketAddr),
}

impl BindAddress {
    /// Any free port of the loopback interface.
    pub const LOOPBACK: Self = Self::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
}

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Off);
        }
        let full = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text.replace("localhost:", "127.0.0.1:")
        };
        full.parse()
            .map(Self::At)
            .map_err(|_| "must be HOST:PORT with an IP address, :PORT, or 0 to turn it off".into())
    }
}

/// A duration as Go writes it: `300ms`, `15s`, `1m30s`, `2h`.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    const HINT: &str = "must be a duration such as 300ms, 15s or 1m30s";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or(HINT)?;
        let number: f64 = rest[..digits].parse().map_err(|_| HINT)?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(HINT.into()),
        };
        total += Duration::try_from_secs_f64(number * seconds).map_err(|_| HINT)?;
        rest = &rest[letters..];
    }
    if text.is_empty() {
        Err(HINT.into())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        let cases = [
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("300ms", 300),
            ("1.5h", 5_400_000),
            ("0", 0),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(
                go_duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in ["", "15", "s", "15x", "1m30", "-5s"] {
            assert!(go_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_written_as_in_go() {
        let cases = [
            (":8080", Some("0.0.0.0:8080")),
            ("127.0.0.1:0", Some("127.0.0.1:0")),
            ("localhost:10351", Some("127.0.0.1:10351")),
            ("[::1]:9", Some("[::1]:9")),
            ("0", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map_or(BindAddress::Off, |address| {
                BindAddress::At(address.parse().unwrap())
            });
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        assert!("8080".parse::<BindAddress>().is_err());
    }
}
