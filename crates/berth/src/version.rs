//! The version that `berth` and its programs under Karmada's names print.

/// Version of the package. In release builds, the commit follows, such as `0.1.0 (0123456789ab)`.
pub(crate) const VERSION: &str = env!("BERTH_VERSION");
