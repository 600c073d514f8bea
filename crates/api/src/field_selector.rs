//! [`FieldSelector`], which matches the provider, the region and the zones of a Cluster. [`crate::label_selector`]
//! matches labels.
//!
//! A selector must be compiled before it can match. A selector with an invalid key, value or operator cannot be
//! compiled. As in Kubernetes, callers let such a selector match nothing.

use berth_apimachinery::label_selector::{LabelRequirement, Relation, SelectorError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field_schema;
use crate::open_enum::open_enum;

/// The key of a requirement on the list of zones.
const ZONE: &str = "zone";

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
    /// The relation between the key and the values.
    #[schemars(schema_with = "field_schema::any_string")]
    pub operator: FieldOperator,
    /// The values to compare with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

open_enum! {
    /// Operators of field selectors. Node selectors have the same operators.
    pub enum FieldOperator {
        /// The field is one of the values.
        In = "In",
        /// The field is none of the values, or absent.
        NotIn = "NotIn",
        /// The field is set.
        Exists = "Exists",
        /// The field is not set.
        DoesNotExist = "DoesNotExist",
        /// The field is an integer greater than the only value.
        Gt = "Gt",
        /// The field is an integer less than the only value.
        Lt = "Lt",
    }
}

/// One requirement of a compiled field selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldRequirement {
    /// A requirement on the list of zones. The operators `Gt` and `Lt` are invalid for this list.
    Zones(Relation),
    /// A requirement on `provider`, on `region`, or on an unknown key. No cluster has a value for an unknown key.
    Field(LabelRequirement),
}

/// A validated field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompiledFieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl CompiledFieldSelector {
    /// Reports whether a cluster satisfies every requirement. An empty provider or region is treated as absent.
    pub fn matches(&self, provider: &str, region: &str, zones: &[String]) -> bool {
        self.requirements
            .iter()
            .all(|requirement| match requirement {
                FieldRequirement::Zones(relation) => zones_satisfy(relation, zones),
                FieldRequirement::Field(requirement) => {
                    let value = match requirement.key() {
                        "provider" => provider,
                        "region" => region,
                        _ => "",
                    };
                    requirement
                        .relation()
                        .matches(Some(value).filter(|value| !value.is_empty()))
                }
            })
    }

    /// Returns the requirements. A cluster must satisfy all of them.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }
}

fn zones_satisfy(relation: &Relation, zones: &[String]) -> bool {
    let overlaps = |values: &[String]| zones.iter().any(|zone| values.contains(zone));
    match relation {
        Relation::In(values) => overlaps(values),
        Relation::NotIn(values) => !overlaps(values),
        Relation::Exists => !zones.is_empty(),
        Relation::DoesNotExist => zones.is_empty(),
        Relation::GreaterThan(_) | Relation::LessThan(_) => false,
    }
}

impl FieldSelector {
    /// Validates the selector and prepares it for matching.
    ///
    /// # Errors
    /// When an operator is unknown, when a requirement on zones uses `Gt` or `Lt`, or when a requirement on another key
    /// is not a valid label requirement. Callers let such a selector match nothing. A requirement on zones may have any
    /// number of values, with any text.
    pub fn compile(&self) -> Result<CompiledFieldSelector, SelectorError> {
        let requirements = self.match_expressions.iter().map(|expression| {
            if expression.key == ZONE {
                let values = expression.values.clone();
                let relation = match &expression.operator {
                    FieldOperator::In => Relation::In(values),
                    FieldOperator::NotIn => Relation::NotIn(values),
                    FieldOperator::Exists => Relation::Exists,
                    FieldOperator::DoesNotExist => Relation::DoesNotExist,
                    FieldOperator::Gt | FieldOperator::Lt | FieldOperator::Other(_) => {
                        return Err(SelectorError::Operator(expression.operator.to_string()));
                    }
                };
                Ok(FieldRequirement::Zones(relation))
            } else {
                LabelRequirement::new(
                    &expression.key,
                    expression.operator.as_str(),
                    &expression.values,
                )
                .map(FieldRequirement::Field)
            }
        });
        Ok(CompiledFieldSelector {
            requirements: requirements.collect::<Result<_, _>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn provider_and_region_match_like_labels_and_zones_like_sets() {
        let matches = |key: &str, operator: &str, values: &[&str], region: &str, zones: &[&str]| {
            let selector: FieldSelector = serde_json::from_value(
                json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}),
            )
            .unwrap();
            let zones: Vec<String> = zones.iter().map(|&zone| zone.to_owned()).collect();
            selector
                .compile()
                .is_ok_and(|selector| selector.matches("aws", region, &zones))
        };
        for (key, operator, values, region, zones, expected) in [
            ("provider", "In", &["aws", "gcp"][..], "", &[][..], true),
            ("provider", "NotIn", &["aws"], "", &[], false),
            ("region", "In", &["eu"], "", &[], false),
            ("region", "NotIn", &["eu"], "", &[], true),
            ("region", "Exists", &[], "", &[], false),
            ("region", "DoesNotExist", &[], "", &[], true),
            ("region", "In", &["not a value"], "eu", &[], false),
            ("region", "NotIn", &["not a value"], "eu", &[], false),
            ("region", "In", &[], "eu", &[], false),
            ("region", "Gt", &["5"], "7", &[], true),
            ("region", "Lt", &["5"], "7", &[], false),
            ("region", "Gt", &["5"], "eu", &[], false),
            ("region", "Gt", &["five"], "7", &[], false),
            ("region", "Is", &["eu"], "eu", &[], false),
            ("planet", "DoesNotExist", &[], "eu", &[], true),
            ("planet", "In", &["earth"], "eu", &[], false),
            ("zone", "In", &["a", "b"], "eu", &["b", "c"], true),
            ("zone", "In", &["a"], "eu", &["b", "c"], false),
            ("zone", "In", &["a"], "eu", &[], false),
            ("zone", "In", &[], "eu", &["a"], false),
            ("zone", "NotIn", &["a"], "eu", &["b"], true),
            ("zone", "NotIn", &["a"], "eu", &["a", "b"], false),
            ("zone", "NotIn", &["a"], "eu", &[], true),
            ("zone", "Exists", &[], "eu", &["a"], true),
            ("zone", "Exists", &[], "eu", &[], false),
            ("zone", "DoesNotExist", &[], "eu", &[], true),
            ("zone", "Gt", &["1"], "eu", &["2"], false),
        ] {
            assert_eq!(
                matches(key, operator, values, region, zones),
                expected,
                "{key} {operator} {values:?} with region {region:?} and zones {zones:?}"
            );
        }
    }
}
