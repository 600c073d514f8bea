//! The protobuf encoding of Kubernetes types. The encoded bytes equal the bytes that Kubernetes itself writes, and all
//! bytes that Kubernetes writes can be decoded.
//!
//! Kubernetes encodes an empty string unless the field is a pointer. Therefore string fields are optional here, and an
//! empty string is `Some`.

use berth_api::quantity::{Quantity, QuantityError};
use berth_api::toleration::Toleration;
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use prost::Message;

/// Bytes that are not the encoding of a Kubernetes type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes are not a protobuf message with the fields of the type.
    #[error("malformed protobuf: {0}")]
    Message(#[from] prost::DecodeError),
    /// The text of a quantity cannot be parsed.
    #[error("malformed quantity: {0}")]
    Quantity(#[from] QuantityError),
}

#[derive(Clone, PartialEq, Message)]
struct WireQuantity {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct WireToleration {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    operator: Option<String>,
    #[prost(string, optional, tag = "3")]
    value: Option<String>,
    #[prost(string, optional, tag = "4")]
    effect: Option<String>,
    #[prost(int64, optional, tag = "5")]
    toleration_seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct WireNodeSelector {
    #[prost(message, repeated, tag = "1")]
    terms: Vec<WireTerm>,
}

#[derive(Clone, PartialEq, Message)]
struct WireTerm {
    #[prost(message, repeated, tag = "1")]
    match_expressions: Vec<WireRequirement>,
    #[prost(message, repeated, tag = "2")]
    match_fields: Vec<WireRequirement>,
}

#[derive(Clone, PartialEq, Message)]
struct WireRequirement {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    operator: Option<String>,
    #[prost(string, repeated, tag = "3")]
    values: Vec<String>,
}

/// Encodes a `resource.Quantity`, as its canonical text.
pub fn quantity(quantity: Quantity) -> Vec<u8> {
    let text = Some(quantity.to_string());
    WireQuantity { text }.encode_to_vec()
}

/// Encodes a `v1.Toleration`.
pub fn toleration(toleration: &Toleration) -> Vec<u8> {
    let Toleration {
        key,
        operator,
        value,
        effect,
        toleration_seconds,
    } = toleration.clone();
    WireToleration {
        key: Some(key.unwrap_or_default()),
        operator: Some(operator.unwrap_or_default()),
        value: Some(value.unwrap_or_default()),
        effect: Some(effect.unwrap_or_default()),
        toleration_seconds,
    }
    .encode_to_vec()
}

/// Encodes a `v1.NodeSelector`.
pub fn node_selector(selector: &NodeSelector) -> Vec<u8> {
    let requirements = |list: &Option<Vec<NodeSelectorRequirement>>| {
        let list = list.as_deref().unwrap_or_default().iter();
        list.map(requirement).collect()
    };
    let terms = selector.node_selector_terms.iter().map(|term| WireTerm {
        match_expressions: requirements(&term.match_expressions),
        match_fields: requirements(&term.match_fields),
    });
    WireNodeSelector {
        terms: terms.collect(),
    }
    .encode_to_vec()
}

fn requirement(requirement: &NodeSelectorRequirement) -> WireRequirement {
    WireRequirement {
        key: Some(requirement.key.clone()),
        operator: Some(requirement.operator.clone()),
        values: requirement.values.clone().unwrap_or_default(),
    }
}

/// Decodes a `resource.Quantity`. A message without a text is 0.
///
/// # Errors
/// When the bytes are malformed, or the text is not a quantity.
pub fn decode_quantity(bytes: &[u8]) -> Result<Quantity, DecodeError> {
    let text = WireQuantity::decode(bytes)?.text;
    Ok(text
        .map(|text| Quantity::parse(&text))
        .transpose()?
        .unwrap_or_default())
}

/// Decodes a `v1.Toleration`. An empty string is `None`.
///
/// # Errors
/// When the bytes are malformed.
pub fn decode_toleration(bytes: &[u8]) -> Result<Toleration, DecodeError> {
    let wire = WireToleration::decode(bytes)?;
    let text = |field: Option<String>| field.filter(|text| !text.is_empty());
    Ok(Toleration {
        key: text(wire.key),
        operator: text(wire.operator),
        value: text(wire.value),
        effect: text(wire.effect),
        toleration_seconds: wire.toleration_seconds,
    })
}

/// Decodes a `v1.NodeSelector`.
///
/// # Errors
/// When the bytes are malformed.
pub fn decode_node_selector(bytes: &[u8]) -> Result<NodeSelector, DecodeError> {
    let terms = WireNodeSelector::decode(bytes)?.terms.into_iter();
    let requirements = |list: Vec<WireRequirement>| {
        let list = list.into_iter().map(|wire| NodeSelectorRequirement {
            key: wire.key.unwrap_or_default(),
            operator: wire.operator.unwrap_or_default(),
            values: Some(wire.values).filter(|values| !values.is_empty()),
        });
        Some(list.collect::<Vec<_>>()).filter(|list| !list.is_empty())
    };
    let terms = terms.map(|term| NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions),
        match_fields: requirements(term.match_fields),
    });
    Ok(NodeSelector {
        node_selector_terms: terms.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_encoded_as_canonical_text() {
        for (text, bytes) in [
            ("500m", &b"\x0a\x04500m"[..]),
            ("0.5", b"\x0a\x04500m"),
            ("1000m", b"\x0a\x011"),
            ("1024Mi", b"\x0a\x031Gi"),
            ("0", b"\x0a\x010"),
        ] {
            let parsed = Quantity::parse(text).unwrap();
            assert_eq!(quantity(parsed), bytes, "{text}");
            assert_eq!(decode_quantity(bytes), Ok(parsed), "{text}");
        }
        assert_eq!(decode_quantity(b""), Ok(Quantity::ZERO));
        let is_message = |bytes| matches!(decode_quantity(bytes), Err(DecodeError::Message(_)));
        assert!(is_message(b"\x0a\x09500m"));
        let is_quantity = |bytes| matches!(decode_quantity(bytes), Err(DecodeError::Quantity(_)));
        assert!(is_quantity(b"\x0a\x04much") && is_quantity(b"\x0a\x00"));
    }

    #[test]
    fn tolerations_encode_empty_strings_and_omit_absent_seconds() {
        assert_eq!(
            toleration(&Toleration::default()),
            b"\x0a\x00\x12\x00\x1a\x00\x22\x00"
        );
        let empty = decode_toleration(b"\x0a\x00\x12\x00\x1a\x00\x22\x00");
        assert_eq!(empty, Ok(Toleration::default()));
        let full = Toleration {
            key: Some("k".into()),
            operator: Some("Equal".into()),
            value: Some("v".into()),
            effect: Some("NoExecute".into()),
            toleration_seconds: Some(300),
        };
        assert_eq!(
            toleration(&full),
            b"\x0a\x01k\x12\x05Equal\x1a\x01v\x22\x09NoExecute\x28\xac\x02"
        );
        assert_eq!(decode_toleration(&toleration(&full)), Ok(full));
    }

    #[test]
    fn node_selectors_encode_terms_and_requirements() {
        let requirement = |key: &str, operator: &str, values: &[&str]| NodeSelectorRequirement {
            key: key.into(),
            operator: operator.into(),
            values: Some(values.iter().map(|&value| value.into()).collect())
                .filter(|values: &Vec<String>| !values.is_empty()),
        };
        let selector = NodeSelector {
            node_selector_terms: vec![
                NodeSelectorTerm {
                    match_expressions: Some(vec![requirement("zone", "In", &["a", "b"])]),
                    match_fields: None,
                },
                NodeSelectorTerm {
                    match_expressions: None,
                    match_fields: Some(vec![requirement("n", "Exists", &[])]),
                },
            ],
        };
        assert_eq!(
            node_selector(&selector),
            b"\x0a\x12\x0a\x10\x0a\x04zone\x12\x02In\x1a\x01a\x1a\x01b\
              \x0a\x0d\x12\x0b\x0a\x01n\x12\x06Exists"
        );
        assert_eq!(
            decode_node_selector(&node_selector(&selector)),
            Ok(selector)
        );
        assert!(decode_node_selector(b"\x0a\x12").is_err());
    }
}
