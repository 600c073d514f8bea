//! The arguments of the plugin in the configuration file.

use std::num::NonZeroU32;

use serde::Deserialize;

/// The arguments of the plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ExpressionArgs {
    /// Conditions that clusters must satisfy.
    pub(super) filter: Vec<FilterArgs>,
    /// Expressions whose weighted values are added to the score.
    pub(super) score: Vec<ScoreArgs>,
}

/// A filter expression.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FilterArgs {
    /// The condition, of type bool.
    pub(super) expression: String,
    /// The reason of clusters that do not satisfy it.
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// A score expression.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScoreArgs {
    /// The value, of type number.
    pub(super) expression: String,
    /// Factor of the value.
    #[serde(default = "default_weight")]
    pub(super) weight: NonZeroU32,
    /// The value if the evaluation fails. Without it, the decision fails.
    #[serde(default)]
    pub(super) default: Option<i64>,
}

fn default_weight() -> NonZeroU32 {
    NonZeroU32::MIN
}
