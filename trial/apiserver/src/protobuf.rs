//! Decoding of request bodies in `application/vnd.kubernetes.protobuf`. Go clients send built-in kinds in this format,
//! without a fallback to JSON.

mod messages;
mod object;
mod wire;

use serde_json::{Value, json};

use crate::error::{ApiError, Reason};
use wire::{Reader, Wire};

/// Decodes an object in the envelope of Kubernetes, which contains its API version and kind.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Err(ApiError::bad_request("empty data"));
    }
    let Some(body) = bytes.strip_prefix(b"k8s\0") else {
        return Err(ApiError::bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if body.is_empty() {
        return Err(ApiError::bad_request("empty body"));
    }
    let (mut types, mut raw, mut reader) = ([].as_slice(), [].as_slice(), Reader::new(body));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Bytes(b)) => types = b,
            (2, Wire::Bytes(b)) => raw = b,
            _ => {}
        }
    }
    let (mut api_version, mut kind, mut reader) = ("", "", Reader::new(types));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Bytes(b)) => api_version = wire::text(b)?,
            (2, Wire::Bytes(b)) => kind = wire::text(b)?,
            _ => {}
        }
    }
    let Some(fields) = messages::of_kind(api_version, kind) else {
        return Err(ApiError::new(
            Reason::UnsupportedMediaType,
            format!(
                "{api_version} {kind} is not accepted as protobuf by this server; send it as JSON (kubectl: use -f)"
            ),
        ));
    };
    let mut object = object::read(raw, fields)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, body: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(body.len()).unwrap()];
        out.extend(body);
        out
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &types), field(2, raw)].concat()
    }

    #[test]
    fn config_maps_are_decoded() {
        let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
        let raw = [field(1, &field(1, b"cm")), data].concat();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v"}});
        assert_eq!(
            decode(&enveloped("v1", "ConfigMap", &raw)).unwrap(),
            expected
        );
        assert!(decode(b"k8s\0\xff").is_err());
    }

    #[test]
    fn times_and_managed_fields_of_leases_are_decoded() {
        // The fields of a time: 1,700,000,000 seconds and 120,000 nanoseconds.
        let time = [vec![8, 0x80, 0xe2, 0xcf, 0xaa, 6], vec![16, 0xc0, 0xa9, 7]].concat();
        let managed = [
            field(1, b"m"),
            field(4, &time),
            field(7, &field(1, br#"{"f:spec":{}}"#)),
        ]
        .concat();
        let meta = [
            field(1, b"l"),
            field(8, b""),
            field(5, b""),
            vec![0x8a, 1, u8::try_from(managed.len()).unwrap()],
            managed,
        ]
        .concat();
        let spec = [
            field(1, b"me"),
            number(2, 15),
            field(4, &time),
            number(5, 0),
        ]
        .concat();
        let raw = [field(1, &meta), field(2, &spec)].concat();
        let lease = decode(&enveloped("coordination.k8s.io/v1", "Lease", &raw)).unwrap();
        let expected = json!({
            "metadata": { "name": "l", "managedFields": [{
                "manager": "m", "time": "2023-11-14T22:13:20Z", "fieldsV1": { "f:spec": {} } }] },
            "spec": { "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "renewTime": "2023-11-14T22:13:20.000120Z" },
        });
        assert_eq!(lease["metadata"], expected["metadata"]);
        assert_eq!(lease["spec"], expected["spec"]);
    }

    #[test]
    fn webhook_configurations_have_the_field_numbers_of_kubernetes() {
        let rule = [
            field(1, b"apps"),
            field(2, b"v1"),
            field(3, b"pods"),
            field(4, b"*"),
        ]
        .concat();
        let service = [
            field(1, b"n"),
            field(2, b"s"),
            field(3, b"/p"),
            number(4, 99),
        ]
        .concat();
        let condition = [field(1, b"c"), field(2, b"true")].concat();
        let common = [
            field(1, b"w"),
            field(2, &[field(1, &service), field(2, b"ca")].concat()),
            field(3, &[field(1, b"CREATE"), field(2, &rule)].concat()),
            field(4, b"Fail"),
            field(6, b"None"),
            number(7, 5),
            field(8, b"v1"),
            field(9, b"Exact"),
        ]
        .concat();
        let mutating = [field(10, b"IfNeeded"), field(12, &condition)].concat();
        for (kind, own) in [
            ("Mutating", mutating),
            ("Validating", field(11, &condition)),
        ] {
            let raw = field(2, &[common.clone(), own].concat());
            let body = enveloped(
                "admissionregistration.k8s.io/v1",
                &format!("{kind}WebhookConfiguration"),
                &raw,
            );
            let mut expected = json!({
                "name": "w", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 5,
                "clientConfig": {"caBundle": "Y2E=",
                    "service": {"namespace": "n", "name": "s", "path": "/p", "port": 99}},
                "rules": [{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
                    "resources": ["pods"], "scope": "*"}],
                "admissionReviewVersions": ["v1"], "matchPolicy": "Exact",
                "matchConditions": [{"name": "c", "expression": "true"}],
            });
            if kind == "Mutating" {
                expected["reinvocationPolicy"] = json!("IfNeeded");
            }
            assert_eq!(decode(&body).unwrap()["webhooks"][0], expected, "{kind}");
        }
    }

    #[test]
    fn additional_properties_are_decoded_as_a_schema_or_a_boolean() {
        let text = field(5, b"string");
        let either = |message: Vec<u8>| {
            [vec![0xf2, 1, u8::try_from(message.len()).unwrap()], message].concat()
        };
        let schema = |props: Vec<u8>| {
            let version = [field(1, b"v1"), number(2, 1), field(4, &field(1, &props))].concat();
            let raw = field(2, &field(7, &version));
            let definition = decode(&enveloped(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &raw,
            ));
            definition.unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
        };
        assert_eq!(
            schema(either([number(1, 1), field(2, &text)].concat())),
            json!({ "additionalProperties": { "type": "string" } })
        );
        assert_eq!(
            schema(either(number(1, 1))),
            json!({ "additionalProperties": true })
        );
    }

    #[test]
    fn deeply_nested_messages_are_refused() {
        let mut props = Vec::new();
        for _ in 0..2000 {
            let mut length = props.len();
            let mut outer = vec![0xe2, 1];
            while length > 127 {
                outer.push(u8::try_from(length & 127).unwrap() | 128);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.extend(props);
            props = outer;
        }
        let fields = messages::named("apiextensions.v1.JSONSchemaProps").unwrap();
        assert!(object::read(&props, fields).is_err());
    }
}
