//! Command-line flags of the scheduler, with Karmada's names and defaults.

use std::path::PathBuf;
use std::time::Duration;

use berth_api::feature_gates::{self, FeatureGates};
use berth_apimachinery::namespaced_name::NamespacedName;
use berth_component_base::bind_address::BindAddress;
use berth_telemetry::TracingArgs;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::config::explicit_flags::ExplicitFlags;
use crate::decision_log::DecisionLogFlags;
use crate::estimator::EstimatorArgs;
use crate::recent_decisions::DEFAULT_BINDINGS;
use berth_apimachinery::go_bool::go_bool;
use berth_component_base::access_flags::MetricsAccessFlags;
use berth_component_base::go_duration::go_duration;
use berth_component_base::leader_election::flags::ElectionFlags;
use berth_component_base::program::ignored_common_flags::SharedFlags;
use berth_component_base::program::ignored_flags::AcceptedFlags;

/// Flags of `berth scheduler`, and of scheduler programs with plugins of their own.
#[derive(Args, Clone, Debug)]
pub struct SchedulerArgs {
    #[command(flatten)]
    pub(crate) explicit: ExplicitFlags,

    /// Configuration file with profiles, plugin arguments and extenders; flags override it
    ///
    /// docs/plugins.md describes it; docs/schemas/scheduler-configuration.json is its JSON Schema.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// ConfigMap whose key config.yaml declares profiles and extenders; changes apply without a restart
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub config_map: Option<NamespacedName>,

    /// Path to the kubeconfig file of the control plane
    ///
    /// If the flag is unset or empty, the scheduler uses the first that exists: KUBECONFIG, the kubeconfig of `berth
    /// up`, ~/.kube/config, the in-cluster configuration. A program with plugins of its own does not use the kubeconfig
    /// of `berth up`.
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,

    /// Address of the API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Name of this scheduler; it schedules the bindings with this spec.schedulerName
    #[arg(long, value_name = "NAME", default_value = berth_api::well_known::DEFAULT_SCHEDULER,
        value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub scheduler_name: String,

    /// Plugins to enable: `*` for all except optional plugins, NAME to add one, -NAME to remove one
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    pub plugins: Vec<String>,

    /// Feature gates, as Name=true,Name=false
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse)]
    pub feature_gates: FeatureGates,

    /// Also propagate workloads to selected clusters that get 0 replicas
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set,
        value_parser = go_bool)]
    pub enable_empty_workload_propagation: bool,

    /// Flags of leader election.
    #[command(flatten)]
    pub election: ElectionFlags,

    /// Name of the lease; schedulers with different names need different leases
    #[arg(long, value_name = "NAME", default_value = "karmada-scheduler")]
    pub leader_elect_resource_name: String,

    /// Compare decisions with the decisions of the running scheduler, and write nothing (metrics berth_shadow_*)
    #[arg(long)]
    pub shadow: bool,

    /// Flags of the decision log.
    #[command(flatten)]
    pub decision_log: DecisionLogFlags,

    /// Maximum number of bindings whose last decision is kept for /debug/decisions; 0 keeps none
    ///
    /// The address of --metrics-bind-address serves /debug/decisions. Without --metrics-secure, only clients on this
    /// machine can read it. With --metrics-secure, authorized clients can read it.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BINDINGS)]
    pub debug_decisions: usize,

    /// Address that serves /metrics; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,

    /// Address that serves /healthz, /livez and /readyz; 0 turns it off
    #[arg(long, value_name = "ADDRESS", default_value = ":10351")]
    pub health_probe_bind_address: BindAddress,

    /// Maximum requests to the API server per second; 0 or less means no limit
    #[arg(
        long,
        value_name = "QPS",
        default_value_t = 40.0,
        allow_negative_numbers = true
    )]
    pub kube_api_qps: f32,

    /// Maximum burst of requests to the API server; 0 or less means no limit
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        allow_negative_numbers = true
    )]
    pub kube_api_burst: i32,

    /// Bindings that a namespace gets scheduled in one of its turns among bindings of equal priority, such as `shop=3`;
    /// other namespaces get 1 (only with FairQueueing=true)
    #[arg(long, value_name = "NAMESPACE=N", value_delimiter = ',', value_parser = namespace_weight)]
    pub namespace_weights: Vec<(String, u32)>,

    /// Initial delay before a failed binding is retried (only with PriorityBasedScheduling=false)
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = go_duration)]
    pub rate_limiter_base_delay: Duration,

    /// Maximum delay before a failed binding is retried (only with PriorityBasedScheduling=false)
    #[arg(long, value_name = "DURATION", default_value = "1000s", value_parser = go_duration)]
    pub rate_limiter_max_delay: Duration,

    /// Maximum retries of failed bindings per second (only with PriorityBasedScheduling=false)
    #[arg(long, value_name = "QPS", default_value_t = 10)]
    pub rate_limiter_qps: u32,

    /// Maximum burst of retries of failed bindings (only with PriorityBasedScheduling=false)
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub rate_limiter_bucket_size: u32,

    /// Deprecated: host of both --health-probe-bind-address and --metrics-bind-address
    #[arg(long, value_name = "IP", hide = true)]
    pub bind_address: Option<std::net::IpAddr>,

    /// Deprecated: port of both --health-probe-bind-address and --metrics-bind-address
    #[arg(long, value_name = "PORT", hide = true)]
    pub secure_port: Option<u16>,

    #[command(flatten)]
    pub(crate) estimator: EstimatorArgs,

    /// Flags that restrict access to the metrics.
    #[command(flatten)]
    pub metrics_access: MetricsAccessFlags,

    /// Flags of tracing.
    #[command(flatten)]
    pub tracing: TracingArgs,

    #[command(flatten)]
    pub(crate) ineffective: AcceptedFlags<SharedFlags>,
}

/// Parses `NAMESPACE=N`.
fn namespace_weight(text: &str) -> Result<(String, u32), String> {
    let expected = || format!("{text:?} is not of the form NAMESPACE=N, such as shop=3");
    let (namespace, weight) = text.split_once('=').ok_or_else(expected)?;
    match weight.parse() {
        Ok(weight) if weight > 0 && !namespace.is_empty() => Ok((namespace.to_owned(), weight)),
        _ => Err(expected()),
    }
}
