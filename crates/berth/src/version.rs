//! The version that the programs print.

/// Version of the package and, in release builds, the commit: `0.1.0 (0123456789ab)`.
pub(crate) const VERSION: &str = env!("BERTH_VERSION");
