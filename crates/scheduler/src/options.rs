//! What the scheduler needs to know, in types that cannot be wrong.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use berth_core::{GATED, Gates};

use crate::config::config_map::ConfigMapName;
use crate::config::effective;
use crate::config::{
    ConfigError, Declared, Document, ProfileFlags, SchedulerConfiguration, kube_scheduler, merge,
};
use crate::connect::Target;
use crate::estimator::{EstimatorOptions, EstimatorOptionsError};
use crate::flags::SchedulerArgs;
use crate::framework::{Registry, RegistryError};
use crate::gates::FeatureGates;
use crate::lease::{LeaseOptions, LeaseOptionsError};
use crate::queue::QueueOrder;
use crate::rate_limit::Rate;

/// What the scheduler needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the control plane is.
    pub target: Target,
    /// The plugins there are besides the in-tree ones.
    pub registry: Registry,
    /// In-tree plugins that there are not.
    pub unregistered: Vec<String>,
    /// The profiles and extenders, as flags and a file declare them.
    pub declared: Declared,
    /// The ConfigMap that declares profiles and extenders, and is watched.
    pub config_map: Option<ConfigMapName>,
    /// What flags and file say of everything else, for people to look at.
    pub configuration: SchedulerConfiguration,
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
    /// In which order, and how often, bindings are tried.
    pub order: QueueOrder,
    /// Flags that were given and have no meaning.
    pub meaningless: Vec<&'static str>,
    /// The members' accurate estimators, where they are asked.
    pub estimator: Option<EstimatorOptions>,
    /// The client's own limit; absent means none.
    pub rate: Option<Rate>,
    /// How long the API server may be silent.
    pub patience: Patience,
}

/// How long the API server may be silent before a connection counts as dead. A machine that vanishes, or a
/// connection that is half closed, says nothing: without these limits nobody would ever notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// With the answer to a request.
    pub request: Duration,
    /// On a watch, which the server is asked to end after this time. Whole seconds.
    pub watch: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(15),
            watch: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// For a scheduler in the process of its control plane: no election, no limit towards a server that is
    /// a function call away, and no port of its own.
    pub fn embedded() -> Self {
        Self {
            target: Target::default(),
            registry: Registry::new(),
            unregistered: Vec::new(),
            declared: Declared::named(berth_api::well_known::DEFAULT_SCHEDULER),
            config_map: None,
            configuration: SchedulerConfiguration::default(),
            gates: Gates::default(),
            empty_workload_propagation: false,
            lease: None,
            metrics: BindAddress::Off,
            health: BindAddress::Off,
            rate: None,
            order: QueueOrder::Priority,
            meaningless: Vec::new(),
            estimator: None,
            patience: Patience::default(),
        }
    }
}

impl Options {
    /// The same with these gates.
    #[must_use]
    pub fn with_gates(self, gates: FeatureGates) -> Self {
        let order = if gates.priority_based_scheduling {
            QueueOrder::Priority
        } else {
            QueueOrder::ARRIVAL
        };
        Self {
            gates: gates.engine,
            order,
            ..self
        }
    }

    /// Every plugin there is.
    ///
    /// # Errors
    /// When a plugin from outside has the name of an in-tree one that is still there, or one to take out is unknown.
    pub fn all_plugins(&self) -> Result<Registry, RegistryError> {
        let mut all = Registry::in_tree(self.gates);
        for name in &self.unregistered {
            // A plugin behind a gate that is off is out already.
            if all.contains(name) || !GATED.contains(&name.as_str()) {
                all.unregister(name)?;
            }
        }
        all.merge(self.registry.clone())?;
        Ok(all)
    }
}

/// Flags that contradict each other, or a configuration file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The configuration file cannot be read.
    #[error("--config {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The configuration file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Profiles and extenders are in two places.
    #[error(
        "--config {path} has profiles or extenders, and --config-map {config_map} declares them too: leave them out of one",
        path = .path.display()
    )]
    DeclaredTwice {
        /// The file.
        path: PathBuf,
        /// The ConfigMap.
        config_map: ConfigMapName,
    },
    /// A flag of the estimators has no sense.
    #[error(transparent)]
    Estimator(#[from] EstimatorOptionsError),
    /// The durations of leader election make no sense together.
    #[error(transparent)]
    Lease(#[from] LeaseOptionsError),
}

impl TryFrom<SchedulerArgs> for Options {
    type Error = OptionsError;

    fn try_from(mut args: SchedulerArgs) -> Result<Self, OptionsError> {
        let declared = declared(&mut args)?;
        let configuration = effective::process(&args);
        let lease = args.election.lease(args.leader_elect_resource_name)?;
        let both = BindAddress::older(args.bind_address, args.secure_port);
        let order = if args.feature_gates.priority_based_scheduling {
            QueueOrder::Priority
        } else {
            QueueOrder::Arrival {
                base: args.rate_limiter_base_delay,
                max: args.rate_limiter_max_delay,
                qps: args.rate_limiter_qps,
                burst: args.rate_limiter_bucket_size,
            }
        };
        Ok(Self {
            target: Target {
                kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
                context: None,
                master: args.master.filter(|url| !url.is_empty()),
            },
            registry: Registry::new(),
            unregistered: Vec::new(),
            declared,
            config_map: args.config_map,
            configuration,
            gates: args.feature_gates.engine,
            empty_workload_propagation: args.enable_empty_workload_propagation,
            lease,
            metrics: both.unwrap_or(args.metrics_bind_address),
            health: both.unwrap_or(args.health_probe_bind_address),
            order,
            meaningless: args.meaningless.given(),
            estimator: args.estimator.options()?,
            rate: Rate::new(args.kube_api_qps, args.kube_api_burst),
            patience: Patience::default(),
        })
    }
}

/// Reads the configuration file, where there is one, and puts it under the flags.
fn declared(args: &mut SchedulerArgs) -> Result<Declared, OptionsError> {
    let flags = ProfileFlags {
        scheduler_name: args
            .explicit
            .contains("scheduler_name")
            .then(|| args.scheduler_name.clone()),
        plugins: args
            .explicit
            .contains("plugins")
            .then(|| args.plugins.clone()),
    };
    let Some(path) = args.config.clone() else {
        return Ok(Declared::from_flags(flags));
    };
    let text = std::fs::read_to_string(&path).map_err(|source| OptionsError::File {
        path: path.clone(),
        source,
    })?;
    let document = Document::read(&path.display().to_string(), &text)?;
    let configuration = kube_scheduler::read(&document)?;
    merge::file_into_flags(args, &document, &configuration)?;
    let declared = Declared::from_document(document, configuration, flags)?;
    match &args.config_map {
        Some(config_map) if declared.is_by_file() => Err(OptionsError::DeclaredTwice {
            path,
            config_map: config_map.clone(),
        }),
        _ => Ok(declared),
    }
}

/// The port of health and metrics where older flags name none.
const DEFAULT_SECURE_PORT: u16 = 10351;

/// An address to listen on, as Go writes it: `:8080`, `0.0.0.0:8080`, `[::1]:8080`, or `0` for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Nothing is served.
    Off,
    /// Served here; port 0 means any free port.
    At(SocketAddr),
}

impl BindAddress {
    /// What `--bind-address` and `--secure-port` say, where one of them is given: probes and metrics there.
    fn older(host: Option<IpAddr>, port: Option<u16>) -> Option<Self> {
        if host.is_none() && port.is_none() {
            return None;
        }
        let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let port = port.unwrap_or(DEFAULT_SECURE_PORT);
        Some(if port == 0 {
            Self::Off
        } else {
            Self::At(SocketAddr::new(host, port))
        })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At(address) => address.fmt(f),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn only_plugins_that_there_are_can_be_taken_out() {
        let without = |name: &str| Options {
            unregistered: vec![name.to_owned()],
            ..Options::embedded()
        };
        let all = without("ClusterAffinity").all_plugins().unwrap();
        assert!(!all.contains("ClusterAffinity"));
        // Its gate is off.
        assert!(without("WorkloadAffinity").all_plugins().is_ok());
        let error = without("Typo").all_plugins().unwrap_err().to_string();
        assert!(
            error.starts_with("no plugin is named \"Typo\": there are APIEnablement, "),
            "{error}"
        );
    }

    #[test]
    fn gates_decide_the_order_for_an_embedded_scheduler_as_for_one_of_its_own() {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            flags: SchedulerArgs,
        }
        for (gates, order) in [
            ("PriorityBasedScheduling=true", QueueOrder::Priority),
            ("PriorityBasedScheduling=false", QueueOrder::ARRIVAL),
        ] {
            let flags = ["scheduler", "--feature-gates", gates];
            let flags = <Program as clap::Parser>::parse_from(flags).flags;
            assert_eq!(Options::try_from(flags).unwrap().order, order, "{gates}");
            let parsed = crate::gates::parse(gates).unwrap();
            let embedded = Options::embedded().with_gates(parsed);
            assert_eq!(embedded.order, order, "{gates}");
            assert_eq!(embedded.gates, parsed.engine, "{gates}");
        }
    }
}
