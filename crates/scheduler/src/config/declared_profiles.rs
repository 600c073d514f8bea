//! The profiles and extenders that the flags and a configuration file or ConfigMap declare.
//!
//! Validation has three steps. The parser of the file checks the types of the values. [`DeclaredProfiles::profiles`]
//! checks the names of plugins against the registry. The plugins check their arguments when they are built. Each error
//! contains the position of the invalid value in the file.

use std::collections::BTreeMap;

use berth_api::well_known::DEFAULT_SCHEDULER;

use super::configuration::{PluginsConfig, ProfileConfig, SchedulerConfiguration};
use super::document::{ConfigError, Document};
use super::plugin_lists::{self, ProfileError};
use crate::extender::config::ExtenderConfig;
use crate::framework::registry::Registry;

/// The source name of errors if there is no file.
const FLAGS: &str = "flags";

/// The explicitly set flags that configure a single profile. They override the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFlags {
    /// `--scheduler-name`
    pub scheduler_name: Option<String>,
    /// `--plugins`
    pub plugins: Option<Vec<String>>,
}

/// The declared profiles and extenders.
#[derive(Clone, Debug)]
pub struct DeclaredProfiles {
    document: Option<Document>,
    profiles: Vec<ProfileConfig>,
    extenders: Vec<ExtenderConfig>,
    flags: ProfileFlags,
}

impl DeclaredProfiles {
    /// Returns the single profile that the flags declare without a file.
    pub fn from_flags(flags: ProfileFlags) -> Self {
        Self {
            document: None,
            profiles: Vec::new(),
            extenders: Vec::new(),
            flags,
        }
    }

    /// Returns a declaration of a single profile with this name and the plugins of `--plugins=*`.
    pub fn single_profile_named(scheduler_name: impl Into<String>) -> Self {
        Self::from_flags(ProfileFlags {
            scheduler_name: Some(scheduler_name.into()),
            plugins: None,
        })
    }

    /// Returns the profiles and extenders that a document declares. `flags` override the document.
    ///
    /// # Errors
    /// If the document declares several profiles and `flags` sets a flag, or if one of several profiles has no name, or
    /// if two profiles have the same name.
    pub fn from_document(
        document: Document,
        configuration: SchedulerConfiguration,
        flags: ProfileFlags,
    ) -> Result<Self, ConfigError> {
        let count = configuration.profiles.len();
        for (flag, is_set) in [
            ("--scheduler-name", flags.scheduler_name.is_some()),
            ("--plugins", flags.plugins.is_some()),
        ] {
            if is_set && count > 1 {
                let message = format!(
                    "{flag} applies to a single profile, but there are {count}: remove the flag"
                );
                return Err(document.error("profiles", message));
            }
        }
        let mut names = BTreeMap::new();
        for (index, profile) in configuration.profiles.iter().enumerate() {
            let path = format!("profiles[{index}]");
            match &profile.scheduler_name {
                None if count > 1 => {
                    let message = "schedulerName is required with several profiles";
                    return Err(document.error(&path, message));
                }
                None => {}
                Some(name) => {
                    if let Some(other) = names.insert(name, index) {
                        let message = format!("profiles[{other}] has the name {name:?} already");
                        return Err(document.error(&format!("{path}.schedulerName"), message));
                    }
                }
            }
        }
        Ok(Self {
            document: Some(document),
            profiles: configuration.profiles,
            extenders: configuration.extenders,
            flags,
        })
    }

    /// Returns the HTTP extenders.
    pub fn extenders(&self) -> &[ExtenderConfig] {
        &self.extenders
    }

    /// Reports whether a file declares profiles or extenders.
    pub fn are_declared_in_file(&self) -> bool {
        !self.profiles.is_empty() || !self.extenders.is_empty()
    }

    /// Returns the flags that override the file.
    pub fn flags(&self) -> &ProfileFlags {
        &self.flags
    }

    /// Returns the name of the first profile.
    pub fn first_name(&self) -> &str {
        let name_in_file = self
            .profiles
            .first()
            .and_then(|profile| profile.scheduler_name.as_deref());
        self.flags
            .scheduler_name
            .as_deref()
            .or(name_in_file)
            .unwrap_or(DEFAULT_SCHEDULER)
    }

    /// Returns the profiles with their names and with the default plugins. The result contains at least one profile.
    ///
    /// # Errors
    /// If a plugin is unknown.
    pub fn profiles(&self, registry: &Registry) -> Result<Vec<ProfileConfig>, ConfigError> {
        for (index, profile) in self.profiles.iter().enumerate() {
            plugin_lists::check(profile, registry)
                .map_err(|error| self.error(error.below(&format!("profiles[{index}]"))))?;
        }
        Ok(match self.profiles.as_slice() {
            [] => vec![self.single_profile(
                &ProfileConfig::default(),
                Some(&["*".to_owned()]),
                registry,
            )?],
            [profile] => vec![self.single_profile(profile, None, registry)?],
            several => several
                .iter()
                .map(|profile| plugin_lists::complete(profile, registry))
                .collect(),
        })
    }

    /// Applies the flags to the only profile, and adds the default plugins. `default` lists the entries of `--plugins`
    /// that apply if the flag is not set.
    fn single_profile(
        &self,
        declared: &ProfileConfig,
        default: Option<&[String]>,
        registry: &Registry,
    ) -> Result<ProfileConfig, ConfigError> {
        let plugins_of_flag: Option<PluginsConfig> = self
            .flags
            .plugins
            .as_deref()
            .or(default)
            .map(|entries| plugin_lists::of_flag(entries, registry))
            .transpose()
            .map_err(|message| flag_error("--plugins", message))?;
        let mut profile = declared.clone();
        profile.scheduler_name = Some(self.first_name().to_owned());
        if let Some(plugins) = plugins_of_flag {
            profile.plugins = plugins;
        }
        Ok(plugin_lists::complete(&profile, registry))
    }

    /// Adds the position in the file to an error about a profile or an extender.
    pub(crate) fn error(&self, error: ProfileError) -> ConfigError {
        let ProfileError { path, message } = error;
        match &self.document {
            Some(document) => document.error(&path, message),
            None => flag_error(FLAGS, message),
        }
    }
}

/// Returns an error about a flag.
fn flag_error(flag: &str, message: String) -> ConfigError {
    ConfigError {
        source_name: flag.to_owned(),
        position: None,
        path: String::new(),
        message,
    }
}

#[cfg(test)]
mod tests;
