//! The configuration of a scheduler: a file, flags that override it, and a watched ConfigMap.
//!
//! - `document` parses YAML, and records the line and column of each value.
//! - `configuration` defines the types of the file, and [`schema`] generates their JSON Schema.
//! - `kube_scheduler` converts configuration files of kube-scheduler.
//! - `flags` defines the flags. `explicit_flags` records the flags that the user set, and `file_into_flags` copies the
//!   settings of the file to the other flags.
//! - `options` contains the validated result.
//! - `declared_profiles` contains the profiles and extenders that the flags and the file or the ConfigMap declare.
//!   `plugin_lists` validates and completes the plugins of a profile.
//! - `config_map` reads the ConfigMap.
//! - `effective` renders the resulting configuration for the log and for `/configz`.

pub(crate) mod config_map;
pub(crate) mod configuration;
pub(crate) mod declared_profiles;
pub(crate) mod document;
pub(crate) mod effective;
pub(crate) mod explicit_flags;
pub(crate) mod file_into_flags;
pub(crate) mod flags;
pub(crate) mod kube_scheduler;
pub(crate) mod options;
pub(crate) mod plugin_lists;
pub mod schema;

pub use berth_component_base::bind_address::BindAddress;
pub use configuration::SchedulerConfiguration;
pub use declared_profiles::{DeclaredProfiles, ProfileFlags};
pub use document::{ConfigError, Document};
pub(crate) use effective::Effective;
pub use flags::SchedulerArgs;
pub use options::{ClusterQueues, Mode, Options, OptionsError, QuotaEnforcement};
