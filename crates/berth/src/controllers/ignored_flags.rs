//! The ignored flags of `berth controllers`: flags of karmada-controller-manager that are accepted without effect, so
//! that existing command lines work. `berth_component_base::program::ignored_flags` parses them.

use berth_component_base::program::ignored_common_flags::{LOGGING, PROFILING};
use berth_component_base::program::ignored_flags::{AcceptedFlag, FlagTables, ValueKind};

/// The list of the flags. It is the type parameter of
/// [`AcceptedFlags`](berth_component_base::program::ignored_flags::AcceptedFlags).
#[derive(Clone, Copy, Debug)]
pub enum WithoutEffect {}

impl FlagTables for WithoutEffect {
    const TABLES: &'static [&'static [AcceptedFlag]] = &[
        LOGGING,
        PROFILING,
        REQUESTS,
        WORKERS,
        INFORMERS,
        MISSING_CONTROLLERS,
    ];
}

const fn flag(name: &'static str, value: ValueKind, default: &'static str) -> AcceptedFlag {
    AcceptedFlag {
        name,
        value,
        default,
    }
}

/// Limits of the rate of requests. Berth's controllers limit the number of concurrent requests instead.
const REQUESTS: &[AcceptedFlag] = &[
    flag("cluster-api-burst", ValueKind::Int, "60"),
    flag("cluster-api-qps", ValueKind::Float, "40"),
    flag("kube-api-burst", ValueKind::Int, "60"),
    flag("kube-api-qps", ValueKind::Float, "40"),
    flag("rate-limiter-base-delay", ValueKind::Duration, "5ms"),
    flag("rate-limiter-bucket-size", ValueKind::Int, "100"),
    flag("rate-limiter-max-delay", ValueKind::Duration, "16m40s"),
    flag("rate-limiter-qps", ValueKind::Int, "10"),
];

/// Numbers of workers. In Berth, each controller is one task, and a constant limits the concurrent writes of this task.
const WORKERS: &[AcceptedFlag] = &[
    flag(
        "concurrent-cluster-propagation-policy-syncs",
        ValueKind::Int,
        "1",
    ),
    flag("concurrent-cluster-syncs", ValueKind::Int, "5"),
    flag("concurrent-dependent-resource-syncs", ValueKind::Int, "2"),
    flag("concurrent-namespace-syncs", ValueKind::Int, "1"),
    flag("concurrent-propagation-policy-syncs", ValueKind::Int, "1"),
    flag("concurrent-resource-template-syncs", ValueKind::Int, "5"),
];

/// Settings of client-go's informers. Berth's watches resume after an error, and do not list the objects periodically.
const INFORMERS: &[AcceptedFlag] = &[
    flag("cluster-cache-sync-timeout", ValueKind::Duration, "2m0s"),
    flag("resync-period", ValueKind::Duration, "0s"),
];

/// Settings of controllers that Berth does not have: the detection of clusters of the Cluster API, and FederatedHPA.
const MISSING_CONTROLLERS: &[AcceptedFlag] = &[
    flag("cluster-api-context", ValueKind::Text, ""),
    flag("cluster-api-kubeconfig", ValueKind::Text, ""),
    flag(
        "horizontal-pod-autoscaler-cpu-initialization-period",
        ValueKind::Duration,
        "5m0s",
    ),
    flag(
        "horizontal-pod-autoscaler-downscale-delay",
        ValueKind::Duration,
        "5m0s",
    ),
    flag(
        "horizontal-pod-autoscaler-downscale-stabilization",
        ValueKind::Duration,
        "5m0s",
    ),
    flag(
        "horizontal-pod-autoscaler-initial-readiness-delay",
        ValueKind::Duration,
        "30s",
    ),
    flag(
        "horizontal-pod-autoscaler-sync-period",
        ValueKind::Duration,
        "15s",
    ),
    flag(
        "horizontal-pod-autoscaler-tolerance",
        ValueKind::Float,
        "0.1",
    ),
    flag(
        "horizontal-pod-autoscaler-upscale-delay",
        ValueKind::Duration,
        "3m0s",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_compatibility_page_lists_every_ignored_flag() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
        let page = std::fs::read_to_string(path).unwrap();
        let section = page.split("## Flags without effect").nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for flag in WithoutEffect::flags() {
            let named = section.contains(&format!("`--{}`", flag.name));
            assert!(named, "docs/compatibility.md does not list --{}", flag.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = WithoutEffect::flags().map(|flag| flag.name).collect();
        assert_eq!(names.len(), WithoutEffect::flags().count());
    }
}
