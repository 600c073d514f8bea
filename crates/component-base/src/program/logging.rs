//! Log output to standard error: its flags, levels and format.

use std::io::{self, IsTerminal as _, Write};

use berth_apimachinery::go_platform::go_platform;
use clap::{Args, ValueEnum};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt, registry};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Flags of log output.
#[derive(Args, Clone, Debug, Default)]
pub struct LogArgs {
    /// Log verbosity: 1 informational, 2 also results, 3 also their reasons, 4 and 5 debug, 6 and more trace
    #[arg(
        short,
        long = "v",
        value_name = "LEVEL",
        default_value_t = 0,
        default_missing_value = "1",
        num_args = 0..=1,
        global = true
    )]
    pub verbosity: u8,

    /// Format of log lines
    #[arg(
        long,
        visible_alias = "log-format",
        value_name = "FORMAT",
        default_value = "text",
        global = true
    )]
    pub logging_format: Format,
}

/// Target of the lines at debug level that `-v=2` shows.
pub const V2: &str = "v2";
/// Target of the lines at debug level that `-v=3` shows.
pub const V3: &str = "v3";

/// A writer to standard error that ignores write errors: a program runs on when the reader of its log closes the pipe,
/// as in `berth scheduler 2>&1 | head`. Otherwise the logger would report a write error on standard error, and this
/// second failed write would panic.
struct LogOutput;

impl Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Installs a panic hook that logs each panic in one line. Most panics come from plugins. A panic of a plugin fails
/// only the current binding or the current configuration change, and the scheduler reports this failure as well.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string);
        let text = panic.payload_as_str().unwrap_or("without a message");
        tracing::error!(location, "a panic: {text}");
    }));
}

/// Returns the log level of each target. `RUST_LOG`, such as `info,berth_scheduler=debug`, sets the levels. If the
/// variable is unset, empty or malformed, the flags set the levels.
fn targets(variable: Option<&str>, verbosity: u8, default_level: &str) -> Targets {
    let given = variable.filter(|text| !text.is_empty());
    if let Some(Ok(given)) = given.map(str::parse) {
        return given;
    }
    let level = match verbosity {
        0 => default_level,
        1..=3 => "info",
        4..=5 => "debug",
        _ => "trace",
    };
    let details = match verbosity {
        2 => ",v2=debug",
        3 => ",v2=debug,v3=debug",
        _ => "",
    };
    // kube-rs logs failed requests and broken watches as Rust structures. The callers of kube-rs log the same failures
    // as sentences.
    format!(
        "{level},hyper=warn,hyper_util=warn,tower=warn,rustls=warn,kube_client::client=error,\
         kube_client::client::builder=off{details}"
    )
    .parse()
    .unwrap_or_default()
}

/// Starts logging to standard error. `RUST_LOG` overrides the verbosity. A second call has no effect.
pub fn init(args: &LogArgs, default_level: &str) {
    let variable = std::env::var("RUST_LOG").ok();
    let layer = fmt::layer().with_writer(|| LogOutput);
    let layer = match args.logging_format {
        Format::Text => layer
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .boxed(),
        Format::Json => layer.json().boxed(),
    };
    let targets = targets(variable.as_deref(), args.verbosity, default_level);
    let _ = registry().with(layer.with_filter(targets)).try_init();
}

/// Logs the start of a service with its version and platform.
pub fn log_start(program: &str, version: &str) {
    tracing::info!(version, platform = go_platform(), "starting {program}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn flags_and_rust_log_choose_the_level_of_each_target() {
        for (variable, verbosity, target, level, logged) in [
            (None, 0, "berth_scheduler", Level::INFO, true),
            (None, 0, "berth_scheduler", Level::DEBUG, false),
            (None, 4, "berth_scheduler::queue", Level::DEBUG, true),
            (None, 6, "berth_scheduler", Level::TRACE, true),
            (None, 1, V2, Level::DEBUG, false),
            (None, 2, V2, Level::DEBUG, true),
            (None, 2, V3, Level::DEBUG, false),
            (None, 3, V2, Level::DEBUG, true),
            (None, 3, V3, Level::DEBUG, true),
            (None, 3, "berth_scheduler", Level::DEBUG, false),
            (None, 4, V3, Level::DEBUG, true),
            (Some("info,v2=debug"), 0, V2, Level::DEBUG, true),
            (Some("info"), 4, V2, Level::DEBUG, false),
            (None, 0, "hyper::proto", Level::INFO, false),
            (None, 0, "kube_client::client", Level::WARN, false),
            (None, 6, "kube_client::client", Level::DEBUG, false),
            (None, 6, "kube_client::client::builder", Level::ERROR, false),
            (Some(""), 0, "berth_scheduler", Level::INFO, true),
            (Some("berth=loud"), 0, "berth_scheduler", Level::INFO, true),
            (Some("off"), 6, "berth_scheduler", Level::ERROR, false),
            (Some("debug"), 0, "hyper::proto", Level::DEBUG, true),
            (
                Some("warn,berth_engine=trace"),
                0,
                "berth_engine",
                Level::TRACE,
                true,
            ),
            (
                Some("warn,berth_engine=trace"),
                0,
                "berth",
                Level::INFO,
                false,
            ),
        ] {
            let targets = targets(variable, verbosity, "info");
            assert_eq!(
                targets.would_enable(target, &level),
                logged,
                "{variable:?} -v{verbosity} {target} {level}"
            );
        }
    }
}
