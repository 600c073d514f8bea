//! Label and field selectors: as they are written in API objects, and compiled for matching.
//!
//! Matching follows Kubernetes to the letter, validity included: a selector with an invalid key, value or
//! operator does not compile, and what does not compile matches nothing.

mod compiled;
mod field;
mod label_syntax;

pub use compiled::{CompiledSelector, LabelRequirement, Relation, SelectorError};
pub use field::{CompiledFieldSelector, FieldRequirement};
pub use label_syntax::{LabelSyntaxError, validate_label_key, validate_label_value};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::open_enum::open_enum;

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
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. Others are stored as written and match nothing.
    pub operator: String,
    /// The values of `In` and `NotIn`; empty for the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A query over the fields `provider`, `region` and `zone` of a Cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelector {
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<FieldSelectorRequirement>,
}

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldSelectorRequirement {
    /// `provider`, `region` or `zone`.
    pub key: String,
    /// How the key relates to the values.
    #[schemars(schema_with = "any_string")]
    pub operator: FieldOperator,
    /// The values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

open_enum! {
    /// Operators of field selectors: those of node selectors.
    pub enum FieldOperator {
        /// The field is one of the values.
        In = "In",
        /// The field is none of the values, or absent.
        NotIn = "NotIn",
        /// The field is set.
        Exists = "Exists",
        /// The field is not set.
        DoesNotExist = "DoesNotExist",
        /// The field is an integer greater than the one value.
        Gt = "Gt",
        /// The field is an integer less than the one value.
        Lt = "Lt",
    }
}

/// The operator is no enum in Karmada's schema; the admission rules restrict it.
fn any_string(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string" })
}
