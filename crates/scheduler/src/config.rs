//! The configuration of a scheduler: a file, flags that win over it, and a ConfigMap that is watched.
//!
//! [`document`] reads text and remembers places, [`configuration`] has the shape, [`kube_scheduler`] takes over files of
//! kube-scheduler, [`declared`] what follows for
//! profiles and extenders. What a plugin is, and how profiles are made of plugins, is in [`crate::framework`].

pub mod config_map;
pub mod configuration;
pub mod declared;
pub mod document;
pub mod effective;
pub mod given;
pub(crate) mod kube_scheduler;
pub(crate) mod overlay;
pub mod schema;
pub(crate) mod start;

pub use config_map::ConfigMapName;
pub use configuration::{ProfileConfig, SchedulerConfiguration};
pub use declared::{Declared, ProfileFlags};
pub use document::{ConfigError, Document, Place};
pub use effective::Effective;
