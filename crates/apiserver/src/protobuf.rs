//! Bodies in `application/vnd.kubernetes.protobuf`, which kubectl's imperative commands send and do not fall
//! back from. A table of field numbers for the few kinds those commands create, and a reader of the wire format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::error::{ApiError, Reason};

/// What a field holds. Plain scalars are left out at their zero value, as Go's JSON encoding does.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    PlainInt,
    PlainBool,
    /// A pointer: zero and false are kept.
    Int,
    Bool,
    TextMap,
    BytesMap,
    QuantityMap,
    IntOrString,
    One(&'static [Field]),
    Many(&'static [Field]),
}

type Field = (u64, &'static str, Kind);

use Kind::{
    Bool, BytesMap, Int, IntOrString, Many, One, PlainBool, PlainInt, QuantityMap, Text, TextMap,
    Texts,
};

const META: Field = (1, "metadata", One(OBJECT_META));
const OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Many(OWNER)),
    (14, "finalizers", Texts),
];
const OWNER: &[Field] = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Bool),
    (7, "blockOwnerDeletion", Bool),
];
const NAMED: &[Field] = &[(1, "name", Text)];
const LABEL_SELECTOR: &[Field] = &[
    (1, "matchLabels", TextMap),
    (2, "matchExpressions", Many(EXPRESSION)),
];
const EXPRESSION: &[Field] = &[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "values", Texts),
];
const POD_TEMPLATE: &[Field] = &[META, (2, "spec", One(POD_SPEC))];
const POD_SPEC: &[Field] = &[
    (2, "containers", Many(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Int),
    (5, "activeDeadlineSeconds", Int),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", TextMap),
    (8, "serviceAccountName", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", PlainBool),
];
const CONTAINER: &[Field] = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (6, "ports", Many(CONTAINER_PORT)),
    (7, "env", Many(ENV)),
    (8, "resources", One(RESOURCES)),
    (14, "imagePullPolicy", Text),
];
const CONTAINER_PORT: &[Field] = &[
    (1, "name", Text),
    (2, "hostPort", PlainInt),
    (3, "containerPort", PlainInt),
    (4, "protocol", Text),
];
const ENV: &[Field] = &[(1, "name", Text), (2, "value", Text)];
const RESOURCES: &[Field] = &[(1, "limits", QuantityMap), (2, "requests", QuantityMap)];
const JOB_SPEC: &[Field] = &[
    (1, "parallelism", Int),
    (2, "completions", Int),
    (3, "activeDeadlineSeconds", Int),
    (4, "selector", One(LABEL_SELECTOR)),
    (5, "manualSelector", Bool),
    (6, "template", One(POD_TEMPLATE)),
    (7, "backoffLimit", Int),
    (8, "ttlSecondsAfterFinished", Int),
    (10, "suspend", Bool),
];
const RULE: &[Field] = &[
    (1, "verbs", Texts),
    (2, "apiGroups", Texts),
    (3, "resources", Texts),
    (4, "resourceNames", Texts),
    (5, "nonResourceURLs", Texts),
];
const SUBJECT: &[Field] = &[
    (1, "kind", Text),
    (2, "apiGroup", Text),
    (3, "name", Text),
    (4, "namespace", Text),
];
const ROLE_REF: &[Field] = &[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)];
const BINDING: &[Field] = &[
    META,
    (2, "subjects", Many(SUBJECT)),
    (3, "roleRef", One(ROLE_REF)),
];
const ROLE: &[Field] = &[META, (2, "rules", Many(RULE))];
const RESOURCE_ATTRIBUTES: &[Field] = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const PATH_ATTRIBUTES: &[Field] = &[(1, "path", Text), (2, "verb", Text)];
const ACCESS_SPEC: &[Field] = &[
    (1, "resourceAttributes", One(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", One(PATH_ATTRIBUTES)),
];
const BOUND_OBJECT: &[Field] = &[
    (1, "kind", Text),
    (2, "apiVersion", Text),
    (3, "name", Text),
    (4, "uid", Text),
];
const SERVICE_SPEC: &[Field] = &[
    (1, "ports", Many(SERVICE_PORT)),
    (2, "selector", TextMap),
    (3, "clusterIP", Text),
    (4, "type", Text),
    (10, "externalName", Text),
];
const SERVICE_PORT: &[Field] = &[
    (1, "name", Text),
    (2, "protocol", Text),
    (3, "port", PlainInt),
    (4, "targetPort", IntOrString),
    (5, "nodePort", PlainInt),
];

/// The fields of a kind.
#[expect(clippy::too_many_lines, reason = "a table of fields")]
fn fields(api_version: &str, kind: &str) -> Option<&'static [Field]> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => &[META, (2, "spec", One(&[(1, "finalizers", Texts)]))],
        ("v1", "ConfigMap") => &[
            META,
            (2, "data", TextMap),
            (3, "binaryData", BytesMap),
            (4, "immutable", Bool),
        ],
        ("v1", "Secret") => &[
            META,
            (2, "data", BytesMap),
            (3, "type", Text),
            (4, "stringData", TextMap),
            (5, "immutable", Bool),
        ],
        ("v1", "ServiceAccount") => &[
            META,
            (2, "secrets", Many(NAMED)),
            (3, "imagePullSecrets", Many(NAMED)),
        ],
        ("v1", "ResourceQuota") => &[
            META,
            (
                2,
                "spec",
                One(&[(1, "hard", QuantityMap), (2, "scopes", Texts)]),
            ),
        ],
        ("v1", "Service") => &[META, (2, "spec", One(SERVICE_SPEC))],
        ("v1", "Pod") => POD_TEMPLATE,
        ("apps/v1", "Deployment") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "replicas", Int),
                    (2, "selector", One(LABEL_SELECTOR)),
                    (3, "template", One(POD_TEMPLATE)),
                    (5, "minReadySeconds", PlainInt),
                    (6, "revisionHistoryLimit", Int),
                    (7, "paused", PlainBool),
                    (9, "progressDeadlineSeconds", Int),
                ]),
            ),
        ],
        ("batch/v1", "Job") => &[META, (2, "spec", One(JOB_SPEC))],
        ("batch/v1", "CronJob") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "schedule", Text),
                    (2, "startingDeadlineSeconds", Int),
                    (3, "concurrencyPolicy", Text),
                    (4, "suspend", Bool),
                    (5, "jobTemplate", One(&[META, (2, "spec", One(JOB_SPEC))])),
                    (6, "successfulJobsHistoryLimit", Int),
                    (7, "failedJobsHistoryLimit", Int),
                    (8, "timeZone", Text),
                ]),
            ),
        ],
        ("rbac.authorization.k8s.io/v1", "Role" | "ClusterRole") => ROLE,
        ("rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding") => BINDING,
        ("scheduling.k8s.io/v1", "PriorityClass") => &[
            META,
            (2, "value", Int),
            (3, "globalDefault", PlainBool),
            (4, "description", Text),
            (5, "preemptionPolicy", Text),
        ],
        ("policy/v1", "PodDisruptionBudget") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "minAvailable", IntOrString),
                    (2, "selector", One(LABEL_SELECTOR)),
                    (3, "maxUnavailable", IntOrString),
                ]),
            ),
        ],
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview") => {
            &[META, (2, "spec", One(ACCESS_SPEC))]
        }
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview") => {
            &[META, (2, "spec", One(&[(1, "namespace", Text)]))]
        }
        ("authorization.k8s.io/v1", "SubjectAccessReview" | "LocalSubjectAccessReview") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "resourceAttributes", One(RESOURCE_ATTRIBUTES)),
                    (2, "nonResourceAttributes", One(PATH_ATTRIBUTES)),
                    (3, "user", Text),
                    (4, "groups", Texts),
                    (6, "uid", Text),
                ]),
            ),
        ],
        ("authentication.k8s.io/v1", "SelfSubjectReview") => &[META],
        ("authentication.k8s.io/v1", "TokenReview") => &[
            META,
            (
                2,
                "spec",
                One(&[(1, "token", Text), (2, "audiences", Texts)]),
            ),
        ],
        ("authentication.k8s.io/v1", "TokenRequest") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "audiences", Texts),
                    (3, "boundObjectRef", One(BOUND_OBJECT)),
                    (4, "expirationSeconds", Int),
                ]),
            ),
        ],
        (_, "DeleteOptions") => &[
            (1, "gracePeriodSeconds", Int),
            (
                2,
                "preconditions",
                One(&[(1, "uid", Text), (2, "resourceVersion", Text)]),
            ),
            (3, "orphanDependents", Bool),
            (4, "propagationPolicy", Text),
            (5, "dryRun", Texts),
        ],
        _ => return None,
    })
}

fn broken() -> ApiError {
    ApiError::bad_request("the protobuf body is malformed")
}

/// One value on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads the fields of one message in order.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, ApiError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(broken)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ApiError> {
        let length = usize::try_from(length).map_err(|_| broken())?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(broken)?;
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, ApiError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            _ => return Err(broken()),
        };
        Ok(Some((tag >> 3, wire)))
    }
}

fn text(bytes: &[u8]) -> Result<&str, ApiError> {
    std::str::from_utf8(bytes).map_err(|_| broken())
}

/// Key and value of a map entry.
fn entry(bytes: &[u8]) -> Result<(String, &[u8]), ApiError> {
    let (mut key, mut value, mut reader) = (String::new(), [].as_slice(), Reader(bytes));
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(b)) => text(b)?.clone_into(&mut key),
            (2, Wire::Bytes(b)) => value = b,
            _ => {}
        }
    }
    Ok((key, value))
}

/// The first text field of a message, for quantities.
fn first_text(bytes: &[u8]) -> Result<&str, ApiError> {
    match Reader(bytes).next()? {
        Some((1, Wire::Bytes(b))) => text(b),
        _ => Ok("0"),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ApiError> {
    let (mut is_text, mut number, mut string, mut reader) = (false, 0, "", Reader(bytes));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Number(n)) => is_text = n == 1,
            (2, Wire::Number(n)) => number = n.cast_signed(),
            (3, Wire::Bytes(b)) => string = text(b)?,
            _ => {}
        }
    }
    Ok(if is_text {
        json!(string)
    } else {
        json!(number)
    })
}

fn append(map: &mut Map<String, Value>, name: &str, value: Value) {
    if let Some(list) = map
        .entry(name.to_owned())
        .or_insert_with(|| json!([]))
        .as_array_mut()
    {
        list.push(value);
    }
}

fn insert(map: &mut Map<String, Value>, name: &str, key: String, value: Value) {
    if let Some(inner) = map
        .entry(name.to_owned())
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        inner.insert(key, value);
    }
}

fn message(bytes: &[u8], fields: &[Field]) -> Result<Map<String, Value>, ApiError> {
    let (mut map, mut reader) = (Map::new(), Reader(bytes));
    while let Some((number, wire)) = reader.next()? {
        let Some((_, name, kind)) = fields.iter().find(|(n, ..)| *n == number) else {
            continue;
        };
        match (kind, wire) {
            (Text, Wire::Bytes([])) | (PlainInt | PlainBool, Wire::Number(0)) => {}
            (Text, Wire::Bytes(b)) => drop(map.insert((*name).to_owned(), json!(text(b)?))),
            (Texts, Wire::Bytes(b)) => append(&mut map, name, json!(text(b)?)),
            (Int | PlainInt, Wire::Number(n)) => {
                drop(map.insert((*name).to_owned(), json!(n.cast_signed())));
            }
            (Bool | PlainBool, Wire::Number(n)) => {
                drop(map.insert((*name).to_owned(), json!(n != 0)));
            }
            (TextMap, Wire::Bytes(b)) => {
                let (key, value) = entry(b)?;
                insert(&mut map, name, key, json!(text(value)?));
            }
            (BytesMap, Wire::Bytes(b)) => {
                let (key, value) = entry(b)?;
                insert(&mut map, name, key, json!(STANDARD.encode(value)));
            }
            (QuantityMap, Wire::Bytes(b)) => {
                let (key, value) = entry(b)?;
                insert(&mut map, name, key, json!(first_text(value)?));
            }
            (IntOrString, Wire::Bytes(b)) => {
                drop(map.insert((*name).to_owned(), int_or_string(b)?));
            }
            (One(inner), Wire::Bytes(b)) => {
                drop(map.insert((*name).to_owned(), Value::Object(message(b, inner)?)));
            }
            (Many(inner), Wire::Bytes(b)) => {
                append(&mut map, name, Value::Object(message(b, inner)?));
            }
            _ => return Err(broken()),
        }
    }
    Ok(map)
}

/// Decodes an enveloped object.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, ApiError> {
    let body = bytes.strip_prefix(b"k8s\0").ok_or_else(broken)?;
    let (mut type_meta, mut raw, mut reader) = ([].as_slice(), [].as_slice(), Reader(body));
    while let Some(field) = reader.next()? {
        match field {
            (1, Wire::Bytes(b)) => type_meta = b,
            (2, Wire::Bytes(b)) => raw = b,
            _ => {}
        }
    }
    let types = message(type_meta, &[(1, "apiVersion", Text), (2, "kind", Text)])?;
    let named = |key: &str| types.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (named("apiVersion"), named("kind"));
    let Some(fields) = fields(api_version, kind) else {
        return Err(ApiError::new(
            Reason::UnsupportedMediaType,
            format!(
                "{api_version} {kind} is not accepted as protobuf by this server; send it as JSON (kubectl: use -f)"
            ),
        ));
    };
    let mut object = message(raw, fields)?;
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

    #[test]
    fn a_config_map_arrives() {
        let types = [field(1, b"v1"), field(2, b"ConfigMap")].concat();
        let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
        let raw = [field(1, &field(1, b"cm")), data].concat();
        let body = [b"k8s\0".to_vec(), field(1, &types), field(2, &raw)].concat();
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v"}});
        assert_eq!(decode(&body).unwrap(), expected);
        assert!(decode(b"k8s\0\xff").is_err());
    }
}
