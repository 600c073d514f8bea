//! The command-line flags for traces.

use clap::Args;

/// The sampling rate at which every trace is recorded.
const ALL: u32 = 1_000_000;

/// The flags for traces, which all components share.
#[derive(Args, Clone, Debug)]
pub struct TracingArgs {
    /// Base URL of an OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318; without it, nothing is
    /// traced
    #[arg(
        long,
        value_name = "URL",
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true
    )]
    pub tracing_endpoint: Option<String>,

    /// Number of recorded traces per million traces that begin in this process
    #[arg(
        long,
        value_name = "N",
        default_value_t = ALL,
        value_parser = clap::value_parser!(u32).range(..=i64::from(ALL))
    )]
    pub tracing_sampling_rate_per_million: u32,
}

impl Default for TracingArgs {
    /// Returns the values of a process without flags, which records no traces.
    fn default() -> Self {
        Self {
            tracing_endpoint: None,
            tracing_sampling_rate_per_million: ALL,
        }
    }
}
