//! Tests that Berth's programs accept all flags that Karmada documents for its programs of the same names.

use self::Kind::{Bool, Bytes, Duration, Float, Gates, Int, Severity, Text};
use super::command_line::parse;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Bytes,
    Duration,
    Float,
    Gates,
    Int,
    Severity,
    Text,
}

impl Kind {
    /// Returns a value that Karmada refuses for flags of this kind.
    fn invalid(self) -> Option<&'static str> {
        match self {
            Bool => Some("maybe"),
            Bytes => Some("1X"),
            Duration => Some("5 minutes"),
            Float | Int => Some("many"),
            Gates => Some("NoSuchGate=true"),
            Severity => Some("LOUD"),
            Text => None,
        }
    }
}

/// The name of a flag, the kind of its values, and a valid value, which is usually Karmada's default.
type Flag = (&'static str, Kind, &'static str);

const LOGS: &[Flag] = &[
    ("add-dir-header", Bool, "false"),
    ("alsologtostderr", Bool, "false"),
    ("alsologtostderrthreshold", Severity, "0"),
    ("legacy-stderr-threshold-behavior", Bool, "true"),
    ("log-backtrace-at", Text, ":0"),
    ("log-dir", Text, ""),
    ("log-file", Text, ""),
    ("log-file-max-size", Int, "1800"),
    ("log-flush-frequency", Duration, "5s"),
    ("log-json-info-buffer-size", Bytes, "0"),
    ("log-json-split-stream", Bool, "false"),
    ("log-text-info-buffer-size", Bytes, "0"),
    ("log-text-split-stream", Bool, "false"),
    ("logging-format", Text, "text"),
    ("logging-format", Text, "json"),
    ("logtostderr", Bool, "true"),
    ("one-output", Bool, "false"),
    ("skip-headers", Bool, "false"),
    ("skip-log-headers", Bool, "false"),
    ("stderrthreshold", Severity, "2"),
    ("v", Int, "0"),
    ("vmodule", Text, ""),
];

const COMMON: &[Flag] = &[
    ("enable-pprof", Bool, "false"),
    ("feature-gates", Gates, ""),
    ("kube-api-burst", Int, "60"),
    ("kube-api-qps", Float, "40"),
    ("kubeconfig", Text, ""),
    ("profiling-bind-address", Text, ":6060"),
];

const ELECTION: &[Flag] = &[
    ("leader-elect", Bool, "true"),
    ("leader-elect-lease-duration", Duration, "15s"),
    ("leader-elect-renew-deadline", Duration, "10s"),
    ("leader-elect-resource-namespace", Text, "karmada-system"),
    ("leader-elect-retry-period", Duration, "2s"),
];

const RETRIES: &[Flag] = &[
    ("rate-limiter-base-delay", Duration, "5ms"),
    ("rate-limiter-bucket-size", Int, "100"),
    ("rate-limiter-max-delay", Duration, "16m40s"),
    ("rate-limiter-qps", Int, "10"),
];

const SCHEDULER: &[Flag] = &[
    ("disable-scheduler-estimator-in-pull-mode", Bool, "false"),
    ("enable-empty-workload-propagation", Bool, "false"),
    ("enable-scheduler-estimator", Bool, "false"),
    ("health-probe-bind-address", Text, ":10351"),
    ("insecure-skip-estimator-verify", Bool, "false"),
    ("leader-elect-resource-name", Text, "karmada-scheduler"),
    ("master", Text, ""),
    ("metrics-bind-address", Text, ":8080"),
    ("plugins", Text, "*"),
    ("scheduler-estimator-ca-file", Text, ""),
    ("scheduler-estimator-cert-file", Text, ""),
    ("scheduler-estimator-key-file", Text, ""),
    ("scheduler-estimator-port", Int, "10352"),
    (
        "scheduler-estimator-service-namespace",
        Text,
        "karmada-system",
    ),
    (
        "scheduler-estimator-service-prefix",
        Text,
        "karmada-scheduler-estimator",
    ),
    ("scheduler-estimator-timeout", Text, "3s"),
    ("scheduler-name", Text, "default-scheduler"),
];

const CONTROLLER_MANAGER: &[Flag] = &[
    ("cluster-api-burst", Int, "60"),
    ("cluster-api-context", Text, ""),
    ("cluster-api-kubeconfig", Text, ""),
    ("cluster-api-qps", Float, "40"),
    ("cluster-cache-sync-timeout", Duration, "2m0s"),
    ("cluster-failure-threshold", Duration, "30s"),
    ("cluster-monitor-grace-period", Duration, "40s"),
    ("cluster-monitor-period", Duration, "5s"),
    ("cluster-startup-grace-period", Duration, "1m0s"),
    ("cluster-status-update-frequency", Duration, "10s"),
    ("cluster-success-threshold", Duration, "30s"),
    ("concurrent-cluster-propagation-policy-syncs", Int, "1"),
    ("concurrent-cluster-syncs", Int, "5"),
    ("concurrent-clusterresourcebinding-syncs", Int, "5"),
    ("concurrent-dependent-resource-syncs", Int, "2"),
    ("concurrent-namespace-syncs", Int, "1"),
    ("concurrent-propagation-policy-syncs", Int, "1"),
    ("concurrent-resource-template-syncs", Int, "5"),
    ("concurrent-resourcebinding-syncs", Int, "5"),
    ("concurrent-work-syncs", Int, "5"),
    ("controllers", Text, "*"),
    ("enable-cluster-resource-modeling", Bool, "true"),
    ("enable-no-execute-taint-eviction", Bool, "false"),
    ("enable-taint-manager", Bool, "true"),
    ("federated-resource-quota-sync-period", Duration, "5m0s"),
    ("graceful-eviction-timeout", Duration, "10m0s"),
    (
        "horizontal-pod-autoscaler-cpu-initialization-period",
        Duration,
        "5m0s",
    ),
    (
        "horizontal-pod-autoscaler-downscale-delay",
        Duration,
        "5m0s",
    ),
    (
        "horizontal-pod-autoscaler-downscale-stabilization",
        Duration,
        "5m0s",
    ),
    (
        "horizontal-pod-autoscaler-initial-readiness-delay",
        Duration,
        "30s",
    ),
    ("horizontal-pod-autoscaler-sync-period", Duration, "15s"),
    ("horizontal-pod-autoscaler-tolerance", Float, "0.1"),
    ("horizontal-pod-autoscaler-upscale-delay", Duration, "3m0s"),
    ("no-execute-taint-eviction-purge-mode", Text, "Gracefully"),
    ("no-execute-taint-eviction-purge-mode", Text, "Directly"),
    ("resource-eviction-rate", Float, "0.5"),
    ("resync-period", Duration, "0s"),
    ("skipped-propagating-apis", Text, ""),
    ("skipped-propagating-namespaces", Text, "kube-.*"),
];

const WEBHOOK: &[Flag] = &[
    ("allow-no-execute-taint-policy", Bool, "false"),
    ("bind-address", Text, "0.0.0.0"),
    ("cert-dir", Text, "/tmp/k8s-webhook-server/serving-certs"),
    ("health-probe-bind-address", Text, ":8000"),
    ("metrics-bind-address", Text, ":8080"),
    ("secure-port", Int, "8443"),
    ("tls-cert-file-name", Text, "tls.crt"),
    ("tls-min-version", Text, "1.3"),
    ("tls-private-key-file-name", Text, "tls.key"),
];

const PROGRAMS: [(&str, &[&[Flag]]); 3] = [
    (
        "karmada-scheduler",
        &[LOGS, COMMON, ELECTION, RETRIES, SCHEDULER],
    ),
    (
        "karmada-controller-manager",
        &[LOGS, COMMON, ELECTION, RETRIES, CONTROLLER_MANAGER],
    ),
    ("karmada-webhook", &[LOGS, COMMON, WEBHOOK]),
];

#[test]
fn every_documented_flag_is_accepted() {
    for (program, tables) in PROGRAMS {
        for (name, kind, default) in tables.concat() {
            let flag = format!("--{name}={default}");
            assert_eq!(parse(program, &[&flag]), Ok(()), "{program} {flag}");
            if kind == Bool {
                let alone = format!("--{name}");
                assert_eq!(parse(program, &[&alone]), Ok(()), "{program} {alone}");
            } else if !default.is_empty() {
                let words = [&format!("--{name}"), default];
                assert_eq!(parse(program, &words), Ok(()), "{program} {words:?}");
            }
        }
    }
}

#[test]
fn errors_about_malformed_values_contain_the_name_of_the_flag() {
    for (program, tables) in PROGRAMS {
        for (name, kind, _) in tables.concat() {
            let Some(value) = kind.invalid() else {
                continue;
            };
            let error = parse(program, &[&format!("--{name}={value}")]).unwrap_err();
            let prefix = format!("'--{name}");
            let named = [" <", " [", "["]
                .iter()
                .any(|end| error.contains(&format!("{prefix}{end}")));
            assert!(named, "{program} --{name}: {error}");
        }
    }
}

#[test]
fn flags_with_underscores_and_repeated_flags_are_accepted() {
    for (program, _) in PROGRAMS {
        for words in [
            &["--log_dir=/tmp", "--enable_pprof=false"][..],
            &["--v=4", "--v=2"],
            &["--one-output", "--one-output=false"],
            &["--enable-pprof=T"],
        ] {
            assert_eq!(parse(program, words), Ok(()), "{program} {words:?}");
        }
    }
}
