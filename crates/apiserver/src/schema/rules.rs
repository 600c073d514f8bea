//! Validation rules beyond the structural schema (`x-kubernetes-validations`): kept with the schema, and
//! evaluated by whatever implements [`RuleEngine`]. Without one they are accepted and not enforced.

use serde_json::Value;

use crate::error::Cause;

/// A rule as written in the CRD.
#[derive(Debug, Clone)]
pub struct RuleSource {
    /// The expression.
    pub rule: String,
    /// What to say when it is false.
    pub message: Option<String>,
}

/// Evaluates rules.
pub trait RuleEngine: Send + Sync + 'static {
    /// Checks `value`, found at `path`, against one rule; `old` is the value before an update.
    fn check(
        &self,
        rule: &RuleSource,
        path: &str,
        value: &Value,
        old: Option<&Value>,
    ) -> Result<(), Cause>;
}
