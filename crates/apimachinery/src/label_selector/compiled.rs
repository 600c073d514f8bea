//! Compiled label selectors. A compiled selector is validated and can match labels.

use std::collections::BTreeMap;

use super::syntax::{LabelSyntaxError, validate_label_key, validate_label_value};
use super::{LabelSelector, LabelSelectorRequirement};

/// The reason for which a selector is invalid. Callers let such a selector match nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The operator is unknown, or is invalid in this kind of selector.
    #[error("{0:?} is not a valid selector operator")]
    Operator(String),
    /// A requirement with the operator `In` or `NotIn` has no values.
    #[error("operator {operator} on {key:?} needs at least one value")]
    NoValues {
        /// The operator.
        operator: String,
        /// The label key.
        key: String,
    },
    /// A requirement with the operator `Exists` or `DoesNotExist` has values.
    #[error("operator {operator} on {key:?} takes no values")]
    UnwantedValues {
        /// The operator.
        operator: String,
        /// The label key.
        key: String,
    },
    /// The value of a requirement with the operator `Gt` or `Lt` is not exactly one integer.
    #[error("operator {operator} on {key:?} needs exactly one integer")]
    NotOneInteger {
        /// The operator.
        operator: String,
        /// The label key.
        key: String,
    },
    /// A label key or value is malformed.
    #[error(transparent)]
    Syntax(#[from] LabelSyntaxError),
}

/// The condition that a requirement sets on the value of a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The label is present, and its value is in the list.
    In(Vec<String>),
    /// The label is absent, or its value is not in the list.
    NotIn(Vec<String>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label's value is an integer greater than the bound.
    GreaterThan(i64),
    /// The label's value is an integer less than the bound.
    LessThan(i64),
}

impl Relation {
    /// Reports whether a label value satisfies the relation. `None` stands for an absent label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let integer = |value: Option<&str>| value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => value.is_some_and(|value| contains(values, value)),
            Self::NotIn(values) => value.is_none_or(|value| !contains(values, value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan(bound) => integer(value).is_some_and(|number| number > *bound),
            Self::LessThan(bound) => integer(value).is_some_and(|number| number < *bound),
        }
    }
}

fn contains(values: &[String], value: &str) -> bool {
    values.iter().any(|candidate| candidate == value)
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    key: String,
    relation: Relation,
}

impl LabelRequirement {
    /// Validates the parts of a requirement, and builds the requirement, as `labels.NewRequirement` of Kubernetes does.
    ///
    /// # Errors
    /// When the operator is unknown, when the number of values does not fit the operator, or when the key or a value is
    /// malformed.
    pub fn new(key: &str, operator: &str, values: &[String]) -> Result<Self, SelectorError> {
        validate_label_key(key)?;
        let owned = || (operator.to_owned(), key.to_owned());
        let relation = match operator {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let (operator, key) = owned();
                    return Err(SelectorError::NoValues { operator, key });
                }
                if operator == "In" {
                    Relation::In(values.to_vec())
                } else {
                    Relation::NotIn(values.to_vec())
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let (operator, key) = owned();
                    return Err(SelectorError::UnwantedValues { operator, key });
                }
                if operator == "Exists" {
                    Relation::Exists
                } else {
                    Relation::DoesNotExist
                }
            }
            "Gt" | "Lt" => {
                let [Ok(bound)] = values.iter().map(|v| v.parse()).collect::<Vec<_>>()[..] else {
                    let (operator, key) = owned();
                    return Err(SelectorError::NotOneInteger { operator, key });
                };
                if operator == "Gt" {
                    Relation::GreaterThan(bound)
                } else {
                    Relation::LessThan(bound)
                }
            }
            other => return Err(SelectorError::Operator(other.to_owned())),
        };
        for value in values {
            validate_label_value(value)?;
        }
        Ok(Self {
            key: key.to_owned(),
            relation,
        })
    }

    /// Builds a requirement without a validation of the key and the values.
    pub fn unvalidated(key: String, relation: Relation) -> Self {
        Self { key, relation }
    }

    /// Returns the label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the condition on the label's value.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }
}

/// A validated label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompiledSelector {
    requirements: Vec<LabelRequirement>,
}

impl CompiledSelector {
    /// Reports whether the labels satisfy every requirement. An empty selector matches all labels.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            requirement
                .relation
                .matches(labels.get(&requirement.key).map(String::as_str))
        })
    }

    /// Returns the requirements. Labels match if they satisfy every requirement.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Reports whether the selector has no requirements.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }
}

impl FromIterator<LabelRequirement> for CompiledSelector {
    fn from_iter<T: IntoIterator<Item = LabelRequirement>>(requirements: T) -> Self {
        Self {
            requirements: requirements.into_iter().collect(),
        }
    }
}

impl LabelSelector {
    /// Validates the selector and prepares it for matching.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use berth_apimachinery::label_selector::LabelSelector;
    ///
    /// let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
    /// let selector = LabelSelector {
    ///     match_labels: labels.clone(),
    ///     ..LabelSelector::default()
    /// };
    /// assert!(selector.compile()?.matches(&labels));
    /// # Ok::<(), berth_apimachinery::label_selector::SelectorError>(())
    /// ```
    ///
    /// # Errors
    /// When an operator is not `In`, `NotIn`, `Exists` or `DoesNotExist`, when the number of values does not fit the
    /// operator, or when a key or value is malformed. Callers let such a selector match nothing.
    pub fn compile(&self) -> Result<CompiledSelector, SelectorError> {
        let mut requirements =
            Vec::with_capacity(self.match_labels.len() + self.match_expressions.len());
        for (key, value) in &self.match_labels {
            requirements.push(LabelRequirement::new(
                key,
                "In",
                std::slice::from_ref(value),
            )?);
        }
        for LabelSelectorRequirement {
            key,
            operator,
            values,
        } in &self.match_expressions
        {
            if matches!(operator.as_str(), "Gt" | "Lt") {
                return Err(SelectorError::Operator(operator.clone()));
            }
            requirements.push(LabelRequirement::new(key, operator, values)?);
        }
        Ok(CompiledSelector { requirements })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn selector(value: serde_json::Value) -> LabelSelector {
        serde_json::from_value(value).unwrap()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        selector(
            json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}),
        )
    }

    #[test]
    fn labels_match_if_every_requirement_holds() {
        let labels: BTreeMap<String, String> = [("env", "prod"), ("tier", "gold"), ("empty", "")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        for (selector, expected) in [
            (selector(json!({})), true),
            (selector(json!({"matchLabels": {"env": "prod"}})), true),
            (
                selector(json!({"matchLabels": {"env": "prod", "tier": "iron"}})),
                false,
            ),
            (selector(json!({"matchLabels": {"zone": "a"}})), false),
            (expression("env", "In", &["dev", "prod"]), true),
            (expression("env", "In", &["dev"]), false),
            (expression("absent", "In", &["dev"]), false),
            (expression("env", "NotIn", &["dev"]), true),
            (expression("env", "NotIn", &["prod"]), false),
            (expression("absent", "NotIn", &["prod"]), true),
            (expression("env", "Exists", &[]), true),
            (expression("empty", "Exists", &[]), true),
            (expression("absent", "Exists", &[]), false),
            (expression("env", "DoesNotExist", &[]), false),
            (expression("absent", "DoesNotExist", &[]), true),
            (expression("empty", "In", &[""]), true),
        ] {
            assert_eq!(
                selector.compile().unwrap().matches(&labels),
                expected,
                "{selector:?}"
            );
        }
    }

    #[test]
    fn an_invalid_requirement_makes_the_whole_selector_invalid() {
        for selector in [
            expression("env", "Is", &["a"]),
            expression("env", "", &["a"]),
            expression("env", "Gt", &["1"]),
            expression("env", "in", &["a"]),
            expression("env", "In", &[]),
            expression("env", "NotIn", &[]),
            expression("env", "Exists", &["a"]),
            expression("env", "DoesNotExist", &["a"]),
            expression("not a key", "Exists", &[]),
            expression("env", "In", &["not a value"]),
            expression("env", "NotIn", &["good", "-bad"]),
            selector(json!({"matchLabels": {"env": "not a value"}})),
            selector(json!({"matchLabels": {"-": "a"}})),
        ] {
            assert!(selector.compile().is_err(), "{selector:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_selectors_do_not_panic(
            key in ".{0,12}", operator in "(In|NotIn|Exists|DoesNotExist|Gt|Lt|.{0,4})",
            values in prop::collection::vec(".{0,6}", 0..3), labels in prop::collection::btree_map(".{0,3}", ".{0,3}", 0..3),
        ) {
            let selector = LabelSelector {
                match_labels: labels,
                match_expressions: vec![LabelSelectorRequirement { key, operator, values }],
            };
            // Nearly all of these selectors are invalid; the next property has valid ones.
            let _ = selector.compile();
        }

        #[test]
        fn valid_selectors_match_by_key_and_value(
            key in "[ab]", operator in "(In|NotIn|Exists|DoesNotExist)", values in prop::collection::vec("[xy]?", 1..3),
            labels in prop::collection::btree_map("[abc]", "[xyz]?", 0..3),
        ) {
            let value = labels.get(&key);
            let is_listed = value.is_some_and(|value| values.contains(value));
            let (has_values, expected) = match operator.as_str() {
                "In" => (true, is_listed),
                "NotIn" => (true, !is_listed),
                "Exists" => (false, value.is_some()),
                _ => (false, value.is_none()),
            };
            let requirement = LabelSelectorRequirement {
                key,
                operator,
                values: if has_values { values } else { Vec::new() },
            };
            let selector = LabelSelector {
                match_labels: BTreeMap::new(),
                match_expressions: vec![requirement],
            };
            prop_assert_eq!(selector.compile().unwrap().matches(&labels), expected, "{:?} {:?}", selector, labels);
        }
    }
}
