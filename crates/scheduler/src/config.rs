//! The configuration of a scheduler: a file, flags that override it, and a watched ConfigMap.
//!
//! - [`document`] parses YAML, and records the line and column of each value.
//! - [`configuration`] defines the types of the file, and [`schema`] generates their JSON Schema.
//! - [`kube_scheduler`] converts configuration files of kube-scheduler.
//! - [`flags`] defines the flags. [`explicit_flags`] records the flags that the user set, and [`merge`] copies the
//!   settings of the file to the other flags.
//! - [`options`] contains the validated result.
//! - [`declared`] contains the profiles and extenders that the flags and the file or the ConfigMap declare.
//!   [`plugin_lists`] validates and completes the plugins of a profile.
//! - [`config_map`] reads the ConfigMap.
//! - [`effective`] renders the resulting configuration for the log and for `/configz`.

pub mod config_map;
pub mod configuration;
pub mod declared;
pub mod document;
pub mod effective;
pub mod explicit_flags;
pub mod flags;
pub(crate) mod kube_scheduler;
pub(crate) mod merge;
pub mod options;
pub mod plugin_lists;
pub mod schema;

pub use berth_component_base::bind_address::BindAddress;
pub use configuration::{ProfileConfig, SchedulerConfiguration};
pub use declared::{Declared, ProfileFlags};
pub use document::{ConfigError, Document, Position};
pub use effective::Effective;
pub use flags::SchedulerArgs;
pub use options::{Mode, Options, OptionsError};
pub use plugin_lists::ProfileError;
