//! Flags of the commands that compute scheduling decisions themselves: `dashboard`, `drain`, `explain` and `simulate`.

use std::path::Path;

use berth_api::feature_gates::{self, FeatureGates};
use berth_engine::{EngineOptions, PluginSet};
use berth_plan::scheduler_configuration::{ConfigurationError, DecisionConfiguration};
use berth_scheduler::config::QuotaEnforcement;
use berth_scheduler::framework::Registry;
use clap::Args;

/// Flags that affect scheduling decisions. `berth scheduler` has the same flags.
#[derive(Args, Clone, Debug)]
pub struct EngineFlags {
    /// Plugins to enable, as for berth scheduler
    #[arg(
        long,
        value_name = "LIST",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true,
        value_parser = plugin
    )]
    pub plugins: Vec<String>,

    /// Feature gates, as for berth scheduler; FederatedQuotaEnforcement is on by default
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true, value_parser = feature_gates::parse_for_predictions)]
    pub feature_gates: FeatureGates,

    /// Also propagate workloads to selected clusters that get 0 replicas
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "false", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub enable_empty_workload_propagation: bool,

    /// Plugins that a program adds to the plugins of Berth.
    #[arg(skip)]
    pub out_of_tree: Registry,
}

impl EngineFlags {
    /// Returns the default flags with these feature gates.
    pub(crate) fn with_gates(feature_gates: FeatureGates) -> Self {
        Self {
            plugins: vec!["*".to_owned()],
            feature_gates,
            enable_empty_workload_propagation: false,
            out_of_tree: Registry::new(),
        }
    }

    /// Returns the configuration that consists of the flags.
    pub(crate) fn configuration(&self) -> DecisionConfiguration {
        DecisionConfiguration::of_flags(self.options()).with_quotas(self.quotas())
    }

    /// Reads a configuration file. The flag `--plugins` overrides the plugins in the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn configuration_of_file(
        &self,
        path: &Path,
    ) -> Result<DecisionConfiguration, ConfigurationError> {
        let plugins = Some(self.plugins.clone()).filter(|plugins| *plugins != ["*"]);
        let out_of_tree = self.out_of_tree.clone();
        let of_file = DecisionConfiguration::of_file(path, plugins, self.options(), out_of_tree)?;
        Ok(of_file.with_quotas(self.quotas()))
    }

    fn quotas(&self) -> QuotaEnforcement {
        QuotaEnforcement::of(&self.feature_gates)
    }

    /// Converts the flags to options of the engine.
    fn options(&self) -> EngineOptions {
        EngineOptions {
            plugins: PluginSet::parse(self.plugins.iter().map(String::as_str), plugins()),
            gates: self.feature_gates.engine,
            empty_workload_propagation: self.enable_empty_workload_propagation,
        }
    }
}

/// Returns the names of the plugins that `--plugins` accepts. Some of these plugins also need a feature gate to run.
fn plugins<'a>() -> impl Iterator<Item = &'a str> {
    let (free, gated): ([&'a str; 6], [&'a str; 2]) = (berth_engine::IN_TREE, berth_engine::GATED);
    free.into_iter().chain(gated)
}

/// Parses an entry of `--plugins`.
fn plugin(entry: &str) -> Result<String, String> {
    let name = entry.trim_start_matches('-');
    if entry.is_empty() || entry == "*" || plugins().any(|known| known == name) {
        return Ok(entry.to_owned());
    }
    let known: Vec<&str> = plugins().collect();
    Err(format!(
        "no plugin is named {name:?}; known plugins: {}",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_plugins_are_accepted() {
        for entry in [
            "*",
            "",
            "-ClusterAffinity",
            "TaintToleration",
            "-WorkloadAffinity",
        ] {
            assert_eq!(plugin(entry), Ok(entry.to_owned()));
        }
        for entry in ["Foo", "-Foo", "clusteraffinity", "-"] {
            let refused = plugin(entry).unwrap_err();
            assert!(
                refused.contains("known plugins: APIEnablement, "),
                "{refused}"
            );
        }
    }
}
