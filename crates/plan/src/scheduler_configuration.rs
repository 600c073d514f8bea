//! The scheduler configuration with which commands compute decisions, and its loaders: from the flags of the command, a
//! file, or a running scheduler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use berth_api::Binding;
use berth_api::feature_gates::EngineGates;
use berth_engine::{Engine, EngineError, EngineOptions, Estimator, Plugins};
use berth_scheduler::config::{ProfileFlags, QuotaEnforcement};
use berth_scheduler::debug_api::ActiveConfiguration;
use berth_scheduler::framework::Registry;
use berth_scheduler::offline::{OfflineConfig, OfflineError, OfflineScheduler};

/// An error of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read.
    #[error("--config {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The configuration is invalid.
    #[error(transparent)]
    Invalid(#[from] OfflineError),
    /// The flags are invalid for the engine.
    #[error("cannot start the engine: {0}")]
    Engine(#[from] EngineError),
}

/// The scheduler configuration with which a command computes decisions.
#[derive(Clone, Debug)]
pub struct DecisionConfiguration {
    /// Options from the flags of the command. They are used only if `document` is `None`.
    options: EngineOptions,
    /// The configuration from a file or from a running scheduler, with the name of this source. `None` if only flags
    /// are used.
    document: Option<(String, OfflineConfig)>,
    /// True if the running scheduler queries accurate estimators.
    queries_estimators: bool,
    quotas: QuotaEnforcement,
}

impl DecisionConfiguration {
    /// Returns a configuration that consists of the flags and enforces quotas.
    pub fn of_flags(options: EngineOptions) -> Self {
        Self {
            options,
            document: None,
            queries_estimators: false,
            quotas: QuotaEnforcement::On,
        }
    }

    /// Sets whether decisions obey the FederatedResourceQuotas.
    #[must_use]
    pub fn with_quotas(self, quotas: QuotaEnforcement) -> Self {
        Self { quotas, ..self }
    }

    /// Reads a configuration file. If `plugins` has the entries of the flag `--plugins`, they override the plugins in
    /// the file. `out_of_tree` are the plugins that a program adds to the plugins of Berth.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn of_file(
        path: &Path,
        plugins: Option<Vec<String>>,
        options: EngineOptions,
        out_of_tree: Registry,
    ) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigurationError::File {
            path: path.to_owned(),
            source,
        })?;
        let origin = path.display().to_string();
        let config = OfflineConfig {
            source_name: origin.clone(),
            text,
            flags: ProfileFlags {
                scheduler_name: None,
                plugins,
            },
            gates: options.gates,
            empty_workload_propagation: options.empty_workload_propagation,
            estimators: Vec::new(),
            out_of_tree,
        };
        Ok(Self {
            document: Some((origin, config)),
            ..Self::of_flags(options)
        })
    }

    /// Returns the configuration of a running scheduler. `out_of_tree` are the plugins that a program adds to the
    /// plugins of Berth.
    pub fn of_scheduler(url: &str, active: &ActiveConfiguration, out_of_tree: Registry) -> Self {
        let origin = format!("the scheduler at {url}");
        let config = OfflineConfig {
            source_name: origin.clone(),
            text: active.configuration.to_string(),
            flags: ProfileFlags::default(),
            gates: active.feature_gates,
            empty_workload_propagation: active.empty_workload_propagation,
            estimators: Vec::new(),
            out_of_tree,
        };
        Self {
            document: Some((origin, config)),
            queries_estimators: active.enable_scheduler_estimator,
            quotas: if active.enforces_quotas {
                QuotaEnforcement::On
            } else {
                QuotaEnforcement::Off
            },
            ..Self::of_flags(EngineOptions::default())
        }
    }

    /// Returns the feature gates.
    pub(crate) fn gates(&self) -> EngineGates {
        match &self.document {
            Some((_, config)) => config.gates,
            None => self.options.gates,
        }
    }

    /// Returns the source of the configuration for messages, or `None` if only flags are used.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.document.as_ref().map(|(origin, _)| origin.as_str())
    }

    /// Returns the setting of [`Self::with_quotas`], or of the running scheduler.
    pub(crate) fn quotas(&self) -> QuotaEnforcement {
        self.quotas
    }

    /// Reports whether the running scheduler queries accurate estimators.
    pub(crate) fn queries_estimators(&self) -> bool {
        self.queries_estimators
    }

    /// Checks the configuration, so that a command reports an invalid configuration before it does anything else.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn check(&self) -> Result<(), ConfigurationError> {
        self.engines(Vec::new()).map(|_| ())
    }

    /// Builds the engines of the configuration. `estimators` are additional estimators for each engine.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub(crate) fn engines(
        &self,
        estimators: Vec<Arc<dyn Estimator>>,
    ) -> Result<Engines, ConfigurationError> {
        if let Some((_, config)) = &self.document {
            let config = OfflineConfig {
                estimators,
                ..config.clone()
            };
            let scheduler = OfflineScheduler::new(&config)?;
            return Ok(Engines::Profiles(Box::new(scheduler)));
        }
        let options = self.options.clone();
        let mut plugins = Plugins::in_tree(options.gates);
        plugins.estimators.extend(estimators);
        let engine = Engine::with_plugins(options, plugins)?;
        Ok(Engines::Single(Box::new(engine)))
    }
}

/// The engines of a configuration.
#[derive(Debug)]
pub(crate) enum Engines {
    /// One engine with the in-tree plugins, for all bindings.
    Single(Box<Engine>),
    /// One engine for each profile.
    Profiles(Box<OfflineScheduler>),
}

impl Engines {
    /// Returns the engine for a binding, or `None` if no profile has the name of the binding's scheduler.
    pub(crate) fn of(&mut self, binding: &Binding) -> Option<&mut Engine> {
        match self {
            Self::Single(engine) => Some(engine),
            Self::Profiles(scheduler) => scheduler.engine_of(binding),
        }
    }

    /// Returns the profiles, or `None` if only flags are used.
    pub(crate) fn profiles(&mut self) -> Option<&mut OfflineScheduler> {
        match self {
            Self::Single(_) => None,
            Self::Profiles(scheduler) => Some(scheduler),
        }
    }

    /// Returns descriptions of the parts of the configuration that the engines ignore.
    pub(crate) fn omitted(&self) -> &[String] {
        match self {
            Self::Single(_) => &[],
            Self::Profiles(scheduler) => scheduler.omitted(),
        }
    }
}
