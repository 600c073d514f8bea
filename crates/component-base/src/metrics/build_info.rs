//! The metric `karmada_build_info`, which describes the build. Karmada's dashboards query this name.

use berth_apimachinery::go_platform::go_platform;

use super::exposition::{Kind, family, quoted, sample};

/// Writes the build information.
pub fn encode(out: &mut String) {
    let name = "karmada_build_info";
    family(
        out,
        name,
        Kind::Gauge,
        "Build information, as labels of the constant 1. The version is that of Berth.",
    );
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let platform = go_platform();
    let labels = [
        ("build_date", "unknown"),
        ("compiler", "rustc"),
        ("git_commit", "unknown"),
        ("git_short_commit", "unknown"),
        ("git_tree_state", "unknown"),
        ("git_version", version),
        ("go_version", "none"),
        ("platform", platform.as_str()),
    ]
    .map(|(label, value)| format!("{label}={}", quoted(value)))
    .join(",");
    sample(out, name, &labels, 1);
}
