//! The validated options of the scheduler, which result from the flags and the configuration file.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_api::feature_gates::{EngineGates, FeatureGates};
use berth_apimachinery::namespaced_name::NamespacedName;
use berth_component_base::bind_address::BindAddress;

use super::declared_profiles::{DeclaredProfiles, ProfileFlags};
use super::document::{ConfigError, Document};
use super::file_into_flags::file_into_flags;
use super::flags::SchedulerArgs;
use super::{SchedulerConfiguration, effective, kube_scheduler};
use crate::decision_log::DecisionLogOptions;
use crate::estimator::{EstimatorOptions, EstimatorOptionsError};
use crate::framework::Registry;
use crate::queue::{NamespaceWeights, QueueOrder, Turns};
use crate::recent_decisions::DEFAULT_BINDINGS;
use berth_component_base::access_flags::MetricsAccessFlags;
use berth_component_base::kube_client::Rate;
use berth_component_base::kube_client::{Target, Timeouts};
use berth_component_base::leader_election::{LeaseOptions, LeaseOptionsError};

/// The way in which the scheduler uses its decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The scheduler writes its decisions.
    Schedule,
    /// The scheduler compares its decisions with the decisions of another scheduler, and writes nothing.
    Shadow,
}

/// The check of decisions against FederatedResourceQuotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaEnforcement {
    /// The scheduler watches the quotas, and writes no decision that exceeds one of them.
    On,
    /// The scheduler ignores quotas.
    Off,
}

impl QuotaEnforcement {
    /// Returns the setting that the feature gate FederatedQuotaEnforcement selects.
    pub fn of(gates: &FeatureGates) -> Self {
        if gates.quota_enforcement {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// The use of ClusterQueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterQueues {
    /// The scheduler watches ClusterQueues and namespaces, and the queues limit bindings and take turns.
    On,
    /// The scheduler ignores ClusterQueues.
    Off,
}

impl ClusterQueues {
    fn of(gates: &FeatureGates) -> Self {
        if gates.cluster_queues {
            Self::On
        } else {
            Self::Off
        }
    }
}

/// Validated options of the scheduler.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and credentials of the control plane.
    pub target: Target,
    /// Out-of-tree plugins.
    pub registry: Registry,
    /// In-tree plugins to remove.
    pub unregistered: Vec<String>,
    /// Profiles and extenders, as declared by flags and a file.
    pub declared: DeclaredProfiles,
    /// ConfigMap that declares profiles and extenders. The scheduler watches it.
    pub config_map: Option<NamespacedName>,
    /// All settings of the flags and the file except profiles and extenders, for the effective configuration.
    pub configuration: SchedulerConfiguration,
    /// The feature gates.
    pub gates: EngineGates,
    /// The check of decisions against FederatedResourceQuotas.
    pub quotas: QuotaEnforcement,
    /// The use of ClusterQueues.
    pub cluster_queues: ClusterQueues,
    /// True to record an event for each successful step.
    pub routine_events: bool,
    /// True if selected clusters with 0 replicas are part of a decision.
    pub empty_workload_propagation: bool,
    /// Options of the leader election, or `None` if the election is off.
    pub lease: Option<LeaseOptions>,
    /// The way in which the scheduler uses its decisions.
    pub mode: Mode,
    /// Options of the decision log, or `None` if the log is off.
    pub decision_log: Option<DecisionLogOptions>,
    /// Maximum number of bindings whose last decision is recorded for the debug endpoints. 0 turns the record off.
    pub debug_decisions: usize,
    /// Channel on which the HTTP server publishes the address and port of the metrics and debug endpoints.
    pub serving: Option<tokio::sync::watch::Sender<Option<SocketAddr>>>,
    /// Address that serves metrics.
    pub metrics: BindAddress,
    /// Address that serves probes.
    pub health: BindAddress,
    /// Access rules for the endpoints of metrics, configuration and debugging.
    pub metrics_access: MetricsAccessFlags,
    /// Queue order and retry policy.
    pub order: QueueOrder,
    /// Turns of the namespaces in the queue.
    pub turns: Turns,
    /// Names of flags that were set and have no effect.
    pub ineffective_flags: Vec<&'static str>,
    /// Options of the client of accurate estimators, or `None` if estimators are disabled.
    pub estimator: Option<EstimatorOptions>,
    /// Limit of requests to the API server, or `None` for no limit.
    pub rate: Option<Rate>,
    /// Time limits after which a silent API server counts as unreachable.
    pub timeouts: Timeouts,
}

impl Options {
    /// Returns the options of a scheduler that runs in the process of its control plane. It has no leader election, no
    /// request limit and no listening port.
    pub fn embedded() -> Self {
        Self {
            target: Target::default(),
            registry: Registry::new(),
            unregistered: Vec::new(),
            declared: DeclaredProfiles::single_profile_named(
                berth_api::well_known::DEFAULT_SCHEDULER,
            ),
            config_map: None,
            configuration: SchedulerConfiguration::default(),
            gates: EngineGates::default(),
            quotas: QuotaEnforcement::Off,
            cluster_queues: ClusterQueues::Off,
            routine_events: false,
            empty_workload_propagation: false,
            lease: None,
            mode: Mode::Schedule,
            decision_log: None,
            debug_decisions: DEFAULT_BINDINGS,
            serving: None,
            metrics: BindAddress::Off,
            metrics_access: MetricsAccessFlags::default(),
            health: BindAddress::Off,
            rate: None,
            order: QueueOrder::Priority,
            turns: Turns::default(),
            ineffective_flags: Vec::new(),
            estimator: None,
            timeouts: Timeouts::default(),
        }
    }
}

impl Options {
    /// Sets the feature gates, and the order and turns of the queue that depend on them.
    #[must_use]
    pub fn with_gates(self, gates: FeatureGates) -> Self {
        let order = if gates.priority_based_scheduling {
            QueueOrder::Priority
        } else {
            QueueOrder::ARRIVAL
        };
        Self {
            gates: gates.engine,
            quotas: QuotaEnforcement::of(&gates),
            cluster_queues: ClusterQueues::of(&gates),
            routine_events: gates.routine_events,
            order,
            turns: turns(gates, NamespaceWeights::default()),
            ..self
        }
    }
}

/// Contradicting flags, or an unusable configuration file.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The configuration file cannot be read.
    #[error("--config {path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The configuration file is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration file declares profiles or extenders, although `--config-map` is set.
    #[error(
        "--config {path} has profiles or extenders, and --config-map {config_map} declares them too: remove them from one of the two",
        path = .path.display()
    )]
    DeclaredTwice {
        /// The file.
        path: PathBuf,
        /// The ConfigMap.
        config_map: NamespacedName,
    },
    /// An estimator flag is invalid.
    #[error(transparent)]
    Estimator(#[from] EstimatorOptionsError),
    /// The durations of leader election contradict each other.
    #[error(transparent)]
    Lease(#[from] LeaseOptionsError),
}

impl TryFrom<SchedulerArgs> for Options {
    type Error = OptionsError;

    fn try_from(mut args: SchedulerArgs) -> Result<Self, OptionsError> {
        let declared = declared(&mut args)?;
        let configuration = effective::without_profiles(&args);
        let lease = args.election.lease(args.leader_elect_resource_name)?;
        let both = deprecated_address(args.bind_address, args.secure_port);
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
            quotas: QuotaEnforcement::of(&args.feature_gates),
            cluster_queues: ClusterQueues::of(&args.feature_gates),
            routine_events: args.feature_gates.routine_events,
            empty_workload_propagation: args.enable_empty_workload_propagation,
            lease,
            mode: if args.shadow {
                Mode::Shadow
            } else {
                Mode::Schedule
            },
            decision_log: args.decision_log.options(),
            debug_decisions: args.debug_decisions,
            serving: None,
            metrics: both.unwrap_or(args.metrics_bind_address),
            health: both.unwrap_or(args.health_probe_bind_address),
            metrics_access: args.metrics_access,
            order,
            turns: turns(
                args.feature_gates,
                NamespaceWeights::new(args.namespace_weights),
            ),
            ineffective_flags: [args.ineffective.names(), &args.feature_gates.ineffective()]
                .concat(),
            estimator: args.estimator.options()?,
            rate: Rate::new(args.kube_api_qps, args.kube_api_burst),
            timeouts: Timeouts::default(),
        })
    }
}

/// Reads the configuration file, if there is one. Merges its settings into `args`, and returns the declared profiles
/// and extenders.
fn declared(args: &mut SchedulerArgs) -> Result<DeclaredProfiles, OptionsError> {
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
        return Ok(DeclaredProfiles::from_flags(flags));
    };
    let text = std::fs::read_to_string(&path).map_err(|source| OptionsError::File {
        path: path.clone(),
        source,
    })?;
    let document = Document::read(&path.display().to_string(), &text)?;
    let configuration = kube_scheduler::read(&document)?;
    file_into_flags(args, &document, &configuration)?;
    let declared = DeclaredProfiles::from_document(document, configuration, flags)?;
    match &args.config_map {
        Some(config_map) if declared.are_declared_in_file() => Err(OptionsError::DeclaredTwice {
            path,
            config_map: config_map.clone(),
        }),
        _ => Ok(declared),
    }
}

/// Port of probes and metrics if only `--bind-address` is set.
const DEFAULT_SECURE_PORT: u16 = 10351;

/// Returns the address of both probes and metrics if one of the deprecated flags `--bind-address` and `--secure-port`
/// is set.
fn deprecated_address(host: Option<IpAddr>, port: Option<u16>) -> Option<BindAddress> {
    if host.is_none() && port.is_none() {
        return None;
    }
    let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let port = port.unwrap_or(DEFAULT_SECURE_PORT);
    Some(if port == 0 {
        BindAddress::Off
    } else {
        BindAddress::At(SocketAddr::new(host, port))
    })
}

/// Returns the turns of the namespaces in the queue. There are none in order of arrival.
fn turns(gates: FeatureGates, weights: NamespaceWeights) -> Turns {
    if gates.fair_queueing && gates.priority_based_scheduling {
        Turns::ByNamespace(weights)
    } else {
        Turns::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_set_the_queue_order_of_embedded_and_standalone_schedulers() {
        #[derive(clap::Parser)]
        struct Program {
            #[command(flatten)]
            flags: SchedulerArgs,
        }
        for (gates, order, by_namespace) in [
            ("PriorityBasedScheduling=true", QueueOrder::Priority, true),
            ("PriorityBasedScheduling=false", QueueOrder::ARRIVAL, false),
            ("FairQueueing=false", QueueOrder::Priority, false),
        ] {
            let turns = if by_namespace {
                Turns::default()
            } else {
                Turns::None
            };
            let flags = ["scheduler", "--feature-gates", gates];
            let flags = <Program as clap::Parser>::parse_from(flags).flags;
            let options = Options::try_from(flags).unwrap();
            assert_eq!((options.order, &options.turns), (order, &turns), "{gates}");
            let parsed = berth_api::feature_gates::parse(gates).unwrap();
            let embedded = Options::embedded().with_gates(parsed);
            assert_eq!(
                (embedded.order, &embedded.turns),
                (order, &turns),
                "{gates}"
            );
            assert_eq!(embedded.gates, parsed.engine, "{gates}");
        }
    }
}
