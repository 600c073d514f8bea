//! The v2 document as protobuf messages of gnostic, which client-go reads. Field numbers are those of gnostic's
//! `OpenAPIv2.proto`.

use serde_json::{Map, Value};

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or_default());
        self.0.extend_from_slice(bytes);
    }

    /// Adds a string unless it is empty.
    fn text(&mut self, field: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, value: &Value) {
        for text in value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn integer(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_u64().filter(|number| *number != 0) {
            self.varint(field << 3);
            self.varint(number);
        }
    }

    fn double(&mut self, field: u64, value: &Value) {
        if let Some(number) = value.as_f64().filter(|number| *number != 0.0) {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn message(&mut self, field: u64, inner: &Self) {
        self.bytes(field, &inner.0);
    }

    /// Adds a message of name and value for each entry of a map.
    fn named(&mut self, field: u64, value: &Value, encode: impl Fn(&Value) -> Self) {
        for (name, inner) in value.as_object().into_iter().flatten() {
            let mut entry = Self::default();
            entry.bytes(1, name.as_bytes());
            entry.message(2, &encode(inner));
            self.message(field, &entry);
        }
    }

    /// Adds the fields that start with `x-`.
    fn extensions(&mut self, field: u64, value: &Value) {
        let extensions: Map<String, Value> = value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.starts_with("x-"))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        self.named(field, &Value::Object(extensions), any);
    }
}

/// Encodes any value as an `Any`, which contains YAML; JSON is valid YAML.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, value.to_string().as_bytes());
    out
}

/// Returns a message with one field.
fn wrapped(field: u64, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(field, inner);
    out
}

/// Encodes the whole document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    let mut paths = Message::default();
    paths.named(2, &document["paths"], path_item);
    let mut definitions = Message::default();
    definitions.named(1, &document["definitions"], schema);
    let mut security = Message::default();
    security.named(1, &document["securityDefinitions"], |definition| {
        let mut key = Message::default();
        key.text(1, &definition["type"]);
        key.text(2, &definition["name"]);
        key.text(3, &definition["in"]);
        key.text(4, &definition["description"]);
        wrapped(2, &key)
    });
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, &info);
    out.message(8, &paths);
    out.message(9, &definitions);
    for requirement in document["security"].as_array().into_iter().flatten() {
        let mut required = Message::default();
        required.named(1, requirement, |scopes| {
            let mut list = Message::default();
            list.texts(1, scopes);
            list
        });
        out.message(12, &required);
    }
    out.message(13, &security);
    out.0
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (field, method) in [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (8, "patch"),
    ] {
        if let Some(found) = item.get(method) {
            out.message(field, &operation(found));
        }
    }
    for found in item["parameters"].as_array().into_iter().flatten() {
        out.message(9, &parameter(found));
    }
    out
}

fn operation(value: &Value) -> Message {
    let mut out = Message::default();
    out.texts(6, &value["produces"]);
    out.texts(7, &value["consumes"]);
    for found in value["parameters"].as_array().into_iter().flatten() {
        out.message(8, &parameter(found));
    }
    let mut responses = Message::default();
    responses.named(1, &value["responses"], |response| {
        let mut body = Message::default();
        body.text(1, &response["description"]);
        body.message(2, &wrapped(1, &schema(&response["schema"])));
        wrapped(1, &body)
    });
    out.message(9, &responses);
    out.texts(10, &value["schemes"]);
    out.extensions(13, value);
    out
}

/// Encodes a parameter as a `ParametersItem`, which is a parameter or a reference.
fn parameter(value: &Value) -> Message {
    let mut inner = Message::default();
    let location = value["in"].as_str().unwrap_or_default();
    let kind = if location == "body" {
        inner.text(2, &value["name"]);
        inner.text(3, &value["in"]);
        inner.flag(4, &value["required"]);
        inner.message(5, &schema(&value["schema"]));
        wrapped(1, &inner)
    } else {
        inner.flag(1, &value["required"]);
        inner.text(2, &value["in"]);
        inner.text(4, &value["name"]);
        // Path parameters have no field `allow_empty_value`, so the field numbers differ.
        let (field, typed, unique) = if location == "path" {
            (4, 5, 19)
        } else {
            (3, 6, 20)
        };
        inner.text(typed, &value["type"]);
        inner.flag(unique, &value["uniqueItems"]);
        wrapped(2, &wrapped(field, &inner))
    };
    wrapped(1, &kind)
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &value["$ref"]);
    out.text(2, &value["format"]);
    out.text(3, &value["title"]);
    out.text(4, &value["description"]);
    out.double(6, &value["multipleOf"]);
    out.double(7, &value["maximum"]);
    out.flag(8, &value["exclusiveMaximum"]);
    out.double(9, &value["minimum"]);
    out.flag(10, &value["exclusiveMinimum"]);
    out.integer(11, &value["maxLength"]);
    out.integer(12, &value["minLength"]);
    out.text(13, &value["pattern"]);
    out.integer(14, &value["maxItems"]);
    out.integer(15, &value["minItems"]);
    out.flag(16, &value["uniqueItems"]);
    out.integer(17, &value["maxProperties"]);
    out.integer(18, &value["minProperties"]);
    out.texts(19, &value["required"]);
    for allowed in value["enum"].as_array().into_iter().flatten() {
        out.message(20, &any(allowed));
    }
    match &value["additionalProperties"] {
        Value::Bool(allowed) => {
            let mut item = Message::default();
            item.varint(2 << 3);
            item.varint(u64::from(*allowed));
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
        let mut properties = Message::default();
        properties.named(1, &value["properties"], schema);
        out.message(25, &properties);
    }
    out.extensions(31, value);
    out
}
