//! Tolerations of taints, with fields in the order of the Go type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::go_zero::is_go_zero;

/// The toleration of a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint key; empty with operator `Exists` matches all keys.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub key: Option<String>,
    /// `Exists` or `Equal`; empty means `Equal`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub operator: Option<String>,
    /// The taint value for `Equal`.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`; empty matches all effects.
    #[serde(default, skip_serializing_if = "is_go_zero")]
    pub effect: Option<String>,
    /// Seconds for which a `NoExecute` taint is tolerated; absent means forever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Reports whether the toleration applies to a taint. As in Kubernetes, an unknown operator tolerates nothing.
    pub fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        let is_or_empty = |field: &Option<String>, text: &str| {
            let field = field.as_deref().filter(|field| !field.is_empty());
            field.is_none_or(|field| field == text)
        };
        if !is_or_empty(&self.effect, effect) || !is_or_empty(&self.key, key) {
            return false;
        }
        match self.operator.as_deref().unwrap_or_default() {
            "" | "Equal" => self.value.as_deref().unwrap_or_default() == value,
            "Exists" => true,
            _ => false,
        }
    }
}
