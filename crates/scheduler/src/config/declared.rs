//! The profiles and extenders that flags and a file declare together.
//!
//! The shape is checked when it is read, names of plugins once the registry is known, arguments when the plugins
//! are made. Whatever is found wrong, and whenever, is said with its place in the file.

use std::collections::BTreeMap;

use berth_api::well_known::DEFAULT_SCHEDULER;

use super::configuration::{PluginsConfig, ProfileConfig, SchedulerConfiguration};
use super::document::{ConfigError, Document};
use crate::extender::config::ExtenderConfig;
use crate::framework::profile::{self, ProfileError};
use crate::framework::registry::Registry;

/// What stands for a file where there is none.
const FLAGS: &str = "flags";

/// The flags that were given and say something of a lone profile; they win over a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFlags {
    /// `--scheduler-name`
    pub scheduler_name: Option<String>,
    /// `--plugins`
    pub plugins: Option<Vec<String>>,
}

/// Profiles and extenders as declared.
#[derive(Clone, Debug)]
pub struct Declared {
    document: Option<Document>,
    profiles: Vec<ProfileConfig>,
    extenders: Vec<ExtenderConfig>,
    flags: ProfileFlags,
}

impl Declared {
    /// What flags alone say.
    pub fn by_flags(flags: ProfileFlags) -> Self {
        Self {
            document: None,
            profiles: Vec::new(),
            extenders: Vec::new(),
            flags,
        }
    }

    /// One profile of this name, with the plugins that run without being named.
    pub fn named(scheduler_name: impl Into<String>) -> Self {
        Self::by_flags(ProfileFlags {
            scheduler_name: Some(scheduler_name.into()),
            plugins: None,
        })
    }

    /// What a document says, with flags that win over it.
    ///
    /// # Errors
    /// When flags for one profile meet several, or profiles cannot be told apart.
    pub fn in_document(
        document: Document,
        configuration: SchedulerConfiguration,
        flags: ProfileFlags,
    ) -> Result<Self, ConfigError> {
        let count = configuration.profiles.len();
        for (flag, is_given) in [
            ("--scheduler-name", flags.scheduler_name.is_some()),
            ("--plugins", flags.plugins.is_some()),
        ] {
            if is_given && count > 1 {
                let message = format!(
                    "{flag} is for one profile, and there are {count} here: leave the flag out"
                );
                return Err(document.error("profiles", message));
            }
        }
        let mut known = BTreeMap::new();
        for (index, profile) in configuration.profiles.iter().enumerate() {
            let at = format!("profiles[{index}]");
            match &profile.scheduler_name {
                None if count > 1 => {
                    let message = "schedulerName is required where there are several profiles";
                    return Err(document.error(&at, message));
                }
                None => {}
                Some(name) => {
                    if let Some(other) = known.insert(name, index) {
                        let message = format!("profiles[{other}] is named {name:?} already");
                        return Err(document.error(&format!("{at}.schedulerName"), message));
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

    /// The HTTP extenders.
    pub fn extenders(&self) -> &[ExtenderConfig] {
        &self.extenders
    }

    /// Whether a file declares profiles or extenders.
    pub fn says_anything(&self) -> bool {
        !self.profiles.is_empty() || !self.extenders.is_empty()
    }

    /// The flags that win over a file.
    pub fn flags(&self) -> &ProfileFlags {
        &self.flags
    }

    /// The name of the first profile.
    pub fn first_name(&self) -> &str {
        let said = self
            .profiles
            .first()
            .and_then(|profile| profile.scheduler_name.as_deref());
        self.flags
            .scheduler_name
            .as_deref()
            .or(said)
            .unwrap_or(DEFAULT_SCHEDULER)
    }

    /// The profiles with their names and default plugins filled in. There is at least one.
    ///
    /// # Errors
    /// When a plugin is named that there is not.
    pub fn profiles(&self, registry: &Registry) -> Result<Vec<ProfileConfig>, ConfigError> {
        for (index, profile) in self.profiles.iter().enumerate() {
            profile::check(profile, registry)
                .map_err(|error| self.error(error.below(&format!("profiles[{index}]"))))?;
        }
        Ok(match self.profiles.as_slice() {
            [] => vec![self.lone(&ProfileConfig::default(), Some(&["*".to_owned()]), registry)?],
            [one] => vec![self.lone(one, None, registry)?],
            several => several
                .iter()
                .map(|profile| profile::complete(profile, registry))
                .collect(),
        })
    }

    fn lone(
        &self,
        said: &ProfileConfig,
        default: Option<&[String]>,
        registry: &Registry,
    ) -> Result<ProfileConfig, ConfigError> {
        let by_flag: Option<PluginsConfig> = self
            .flags
            .plugins
            .as_deref()
            .or(default)
            .map(|entries| profile::of_flag(entries, registry))
            .transpose()
            .map_err(|message| by_flags("--plugins", message))?;
        let mut profile = said.clone();
        profile.scheduler_name = Some(self.first_name().to_owned());
        if let Some(plugins) = by_flag {
            profile.plugins = plugins;
        }
        Ok(profile::complete(&profile, registry))
    }

    /// An error about a profile or an extender, at its place in the file.
    pub fn error(&self, error: ProfileError) -> ConfigError {
        let ProfileError { path, message } = error;
        match &self.document {
            Some(document) => document.error(&path, message),
            None => by_flags(FLAGS, message),
        }
    }
}

/// An error of the command line.
fn by_flags(flag: &str, message: String) -> ConfigError {
    ConfigError {
        source_name: flag.to_owned(),
        place: None,
        path: String::new(),
        message,
    }
}

#[cfg(test)]
#[path = "declared_tests.rs"]
mod tests;
