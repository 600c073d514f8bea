//! Label selectors: the API type, its compiled form, and the syntax of labels.
//!
//! A selector must be compiled before it can match. A selector with an invalid key, value or operator cannot be
//! compiled. As in Kubernetes, callers let such a selector match nothing.

mod compiled;
#[cfg(feature = "json")]
mod format;
mod syntax;

pub use compiled::{CompiledSelector, LabelRequirement, Relation, SelectorError};
#[cfg(feature = "json")]
pub use format::format;
pub use syntax::{LabelSyntaxError, validate_label_key, validate_label_value};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A label query: `matchLabels` and `matchExpressions` are ANDed. An empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Pairs that must be present; each is the same as an `In` expression with one value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One requirement of a [`LabelSelector`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// The label key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. Any other operator matches nothing.
    pub operator: String,
    /// The values of `In` and `NotIn`; empty for the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}
