//! Resource quantities, as text in API objects and as exact numbers.
//!
//! [`QuantityText`] is the type of fields in API objects. [`Quantity`] is the number for arithmetic. Both types are
//! independent of resource names. For example, the caller decides that CPU is counted in thousandths.

mod format;
mod number;
mod parse;

pub use number::{Format, Quantity};
pub use parse::QuantityError;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A quantity as written in an object: `"500m"`, `"1Gi"`, `2`.
///
/// The text is parsed on use. Therefore an object with a malformed quantity can still be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct QuantityText(pub String);

impl QuantityText {
    /// Parses the text into an exact number.
    ///
    /// # Errors
    /// When the text is not a quantity.
    pub fn parse(&self) -> Result<Quantity, QuantityError> {
        Quantity::parse(&self.0)
    }
}

impl From<&str> for QuantityText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = QuantityText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a quantity: a string or a number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText(text.to_owned()))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for QuantityText {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}
