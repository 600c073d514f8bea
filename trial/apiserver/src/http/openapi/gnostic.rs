//! The OpenAPI v2 document in the protobuf format of the gnostic library. client-go reads this format. The field
//! numbers are from gnostic's `OpenAPIv2.proto`.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value;

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(&mut self, field: u32, number: u64) {
        encode_key(field, WireType::Varint, &mut self.0);
        encode_varint(number, &mut self.0);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u32, inner: &Self) {
        self.bytes(field, &inner.0);
    }

    /// Adds a field with a text, number or boolean. If `value` is a list, adds the field once for each item.
    fn scalar(&mut self, field: u32, value: &Value) {
        match value {
            Value::String(text) => self.bytes(field, text.as_bytes()),
            Value::Array(items) => items.iter().for_each(|item| self.scalar(field, item)),
            Value::Bool(true) => self.number(field, 1),
            Value::Number(number) => self.number(field, number.as_u64().unwrap_or_default()),
            _ => {}
        }
    }

    fn double(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_f64() {
            encode_key(field, WireType::SixtyFourBit, &mut self.0);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Adds a field with a message that contains a name and a value.
    fn named(&mut self, field: u32, name: &str, value: &Self) {
        let mut entry = Self::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, value);
        self.message(field, &entry);
    }
}

/// Returns a message whose only field is another message.
fn wrapped(field: u32, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(field, inner);
    out
}

/// Encodes a value as gnostic's message `Any`. The message contains YAML, and JSON is valid YAML.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, value.to_string().as_bytes());
    out
}

/// Encodes the whole document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut info = Message::default();
    info.scalar(1, &document["info"]["title"]);
    info.scalar(2, &document["info"]["version"]);
    let mut out = Message::default();
    out.scalar(1, &document["swagger"]);
    out.message(2, &info);
    out.message(8, &Message::default());
    out.message(9, &schemas(1, &document["definitions"]));
    out.0
}

/// Encodes a map of schemas. Each schema becomes an entry of a repeated field.
fn schemas(field: u32, value: &Value) -> Message {
    let mut out = Message::default();
    for (name, inner) in value.as_object().into_iter().flatten() {
        out.named(field, name, &schema(inner));
    }
    out
}

fn schema(value: &Value) -> Message {
    const SCALARS: [(u32, &str); 14] = [
        (1, "$ref"),
        (2, "format"),
        (4, "description"),
        (8, "exclusiveMaximum"),
        (10, "exclusiveMinimum"),
        (11, "maxLength"),
        (12, "minLength"),
        (13, "pattern"),
        (14, "maxItems"),
        (15, "minItems"),
        (16, "uniqueItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
        (19, "required"),
    ];
    let mut out = Message::default();
    for (field, name) in SCALARS {
        out.scalar(field, &value[name]);
    }
    for (field, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(field, &value[name]);
    }
    for allowed in value["enum"].as_array().into_iter().flatten() {
        out.message(20, &any(allowed));
    }
    match &value["additionalProperties"] {
        Value::Bool(allowed) => {
            let mut item = Message::default();
            item.number(2, u64::from(*allowed));
            out.message(21, &item);
        }
        Value::Null => {}
        inner => out.message(21, &wrapped(1, &schema(inner))),
    }
    if let Some(name) = value["type"].as_str() {
        let mut item = Message::default();
        item.bytes(1, name.as_bytes());
        out.message(22, &item);
    }
    if let Some(items) = value.get("items") {
        out.message(23, &wrapped(1, &schema(items)));
    }
    if value["properties"].is_object() {
        out.message(25, &schemas(1, &value["properties"]));
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        if name.starts_with("x-") {
            out.named(31, name, &any(inner));
        }
    }
    out
}
