//! Field selectors over provider, region and zones of a cluster, checked and ready to match.

use super::compiled::{LabelRequirement, Relation, SelectorError};
use super::{FieldOperator, FieldSelector};

/// The key that is compared with the list of zones.
const ZONE: &str = "zone";

/// One requirement of a field selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldRequirement {
    /// On the list of zones. `Gt` and `Lt` never hold for a list and do not compile.
    Zones(Relation),
    /// On `provider`, `region` or a key that no cluster has, as if these were labels.
    Field(LabelRequirement),
}

/// A field selector that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompiledFieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl CompiledFieldSelector {
    /// Whether a cluster satisfies every requirement. An empty provider or region counts as absent.
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
                        .holds(Some(value).filter(|value| !value.is_empty()))
                }
            })
    }

    /// The requirements, all of which must hold.
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
    /// Checks the selector and makes it ready to match.
    ///
    /// # Errors
    /// When an operator is unknown (on zones also `Gt` and `Lt`), or a requirement on another key is not a
    /// valid label requirement. Such a selector matches nothing. The values of a zone requirement are
    /// free text and their number is not checked.
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
    fn fields_match_like_labels_and_zones_like_sets() {
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
