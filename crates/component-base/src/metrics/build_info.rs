//! The metric `karmada_build_info`, which describes the build. Karmada's dashboards query this name.

use berth_apimachinery::go_platform::go_platform;
use berth_metrics::{ConstGauge, Registry, Series};

/// Registers the build information.
pub fn register(registry: &mut Registry) {
    let labels = [
        ("build_date", "unknown".to_owned()),
        ("compiler", "rustc".to_owned()),
        ("git_commit", "unknown".to_owned()),
        ("git_short_commit", "unknown".to_owned()),
        ("git_tree_state", "unknown".to_owned()),
        (
            "git_version",
            concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("go_version", "none".to_owned()),
        ("platform", go_platform()),
    ];
    registry.register(
        "karmada_build_info",
        "Build information, as labels of the constant 1. The version is that of Berth.",
        Series::new([(labels, ConstGauge::new(1))]),
    );
}
