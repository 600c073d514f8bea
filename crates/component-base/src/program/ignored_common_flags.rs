//! The ignored flags about logging and profiling that every Karmada program has, as tables for `ignored_flags`.

use super::ignored_flags::{AcceptedFlag, FlagTables, ValueKind};

/// The tables of the flags that every Karmada program has.
#[derive(Clone, Copy, Debug)]
pub enum SharedFlags {}

impl FlagTables for SharedFlags {
    const TABLES: &'static [&'static [AcceptedFlag]] = &[LOGGING, PROFILING];
}

const fn flag(name: &'static str, value: ValueKind, default: &'static str) -> AcceptedFlag {
    AcceptedFlag {
        name,
        value,
        default,
    }
}

/// Flags about log files, headers, thresholds and buffers. Berth writes each log line to standard error immediately.
pub const LOGGING: &[AcceptedFlag] = &[
    flag("add-dir-header", ValueKind::Bool, "false"),
    flag("alsologtostderr", ValueKind::Bool, "false"),
    flag("alsologtostderrthreshold", ValueKind::Severity, "0"),
    flag("legacy-stderr-threshold-behavior", ValueKind::Bool, "true"),
    flag("log-backtrace-at", ValueKind::Location, ":0"),
    flag("log-dir", ValueKind::Text, ""),
    flag("log-file", ValueKind::Text, ""),
    flag("log-file-max-size", ValueKind::Uint, "1800"),
    flag("log-flush-frequency", ValueKind::Duration, "5s"),
    flag("log-json-info-buffer-size", ValueKind::Quantity, "0"),
    flag("log-json-split-stream", ValueKind::Bool, "false"),
    flag("log-text-info-buffer-size", ValueKind::Quantity, "0"),
    flag("log-text-split-stream", ValueKind::Bool, "false"),
    flag("logtostderr", ValueKind::Bool, "true"),
    flag("one-output", ValueKind::Bool, "false"),
    flag("skip-headers", ValueKind::Bool, "false"),
    flag("skip-log-headers", ValueKind::Bool, "false"),
    flag("stderrthreshold", ValueKind::Severity, "2"),
    flag("vmodule", ValueKind::Levels, ""),
];

/// Flags about profiling of the Go runtime.
pub const PROFILING: &[AcceptedFlag] = &[
    flag("enable-pprof", ValueKind::Bool, "false"),
    flag("profiling-bind-address", ValueKind::Text, ":6060"),
];
