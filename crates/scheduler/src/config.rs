//! The configuration of a scheduler: a file, flags that override it, and a watched ConfigMap.
//!
//! - [`document`] parses YAML and keeps the position of each value.
//! - [`configuration`] holds the types of the file, [`schema`] their JSON Schema. [`kube_scheduler`] converts files of
//!   kube-scheduler.
//! - [`explicit_flags`] records which flags are set; [`merge`] fills in the others from the file.
//! - [`declared`] holds the profiles and extenders that flags and file declare.
//! - [`config_map`] reads and watches the ConfigMap.
//! - [`effective`] shows the configuration in force.

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
