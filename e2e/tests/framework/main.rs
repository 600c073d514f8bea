//! End-to-end tests of the scheduler framework: plugins at each extension point, profiles, and the configuration.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod combined_profiles;
mod config_reload;
mod documented_configs;
mod extension_points;
mod metrics;
mod panicking_plugin;
mod plugin_panics;
mod profiles;
mod spy;
