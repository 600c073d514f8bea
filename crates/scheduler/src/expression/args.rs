//! The arguments of the plugin, as the configuration file gives them.

use std::num::NonZeroU32;

use serde::Deserialize;

/// The arguments of the plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ExpressionArgs {
    /// A cluster has to satisfy all of them.
    pub(super) filter: Vec<FilterArgs>,
    /// Their values, each times its weight, are added up.
    pub(super) score: Vec<ScoreArgs>,
}

/// One condition.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FilterArgs {
    /// What has to be true.
    pub(super) expression: String,
    /// What is said of a cluster for which it is false.
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// One preference.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScoreArgs {
    /// A number.
    pub(super) expression: String,
    /// By what it is multiplied.
    #[serde(default = "one")]
    pub(super) weight: NonZeroU32,
    /// The number where the evaluation fails; without it nothing is decided then.
    #[serde(default)]
    pub(super) default: Option<i64>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}
