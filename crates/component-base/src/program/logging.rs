//! Log output to standard error: its flags, levels and format.

use std::io::{self, IsTerminal as _, Write};
use std::sync::LazyLock;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
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
    /// Log verbosity: 1 to 3 informational, 4 and 5 debug, 6 and more trace
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

/// A token that is cancelled when the reader of standard error closes the pipe.
static READER_GONE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Waits until the reader of standard error closes the pipe, for example `head` in `berth scheduler 2>&1 | head`. The
/// program then shuts down as on SIGTERM.
pub(crate) async fn reader_gone() {
    READER_GONE.cancelled().await;
}

/// A writer to standard error that ignores write errors. Otherwise the logger would report a write error on standard
/// error, and this second failed write would panic.
struct LogOutput;

impl Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = io::stderr().write_all(line)
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            READER_GONE.cancel();
        }
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
        tracing::error!(location, "a panic: {text:?}");
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
    // kube-rs logs failed requests and broken watches. The callers of kube-rs log the same failures with more context.
    let client = if verbosity < 4 { "error" } else { "debug" };
    format!(
        "{level},hyper=warn,hyper_util=warn,tower=warn,rustls=warn,kube_client::client={client},\
         kube_client::client::builder=off"
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
            (None, 0, "hyper::proto", Level::INFO, false),
            (None, 0, "kube_client::client", Level::WARN, false),
            (None, 4, "kube_client::client", Level::DEBUG, true),
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
