//! The arguments of the scheduler plugin `Expression` in the configuration file.

use std::num::NonZeroU32;

use serde::Deserialize;

/// The arguments of the plugin `Expression`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExpressionArgs {
    /// Conditions that clusters must satisfy.
    pub filter: Vec<FilterArgs>,
    /// Expressions whose weighted values are added to the score.
    pub score: Vec<ScoreArgs>,
}

/// A filter expression.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterArgs {
    /// The condition, a CEL expression of type bool.
    pub expression: String,
    /// The reason for clusters that do not satisfy the condition.
    #[serde(default)]
    pub message: Option<String>,
}

/// A score expression.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScoreArgs {
    /// The value, a CEL expression of type number.
    pub expression: String,
    /// The factor by which the value is multiplied.
    #[serde(default = "default_weight")]
    pub weight: NonZeroU32,
    /// The value if the evaluation fails. Without a default, the scheduling decision fails.
    #[serde(default)]
    pub default: Option<i64>,
}

fn default_weight() -> NonZeroU32 {
    NonZeroU32::MIN
}
