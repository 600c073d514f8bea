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
    Quantity,
    One(&'static [Field]),
    /// A message whose fields are those of the one around it.
    Inline(&'static [Field]),
    Many(&'static [Field]),
}

type Field = (u64, &'static str, Kind);

use Kind::{
    Bool, BytesMap, Inline, Int, IntOrString, Many, One, PlainBool, PlainInt, Quantity,
    QuantityMap, Text, TextMap, Texts,
};

const META: Field = (1, "metadata", One(OBJECT_META));
const OBJECT_META: &[Field] = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", PlainInt),
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
    (1, "volumes", Many(VOLUME)),
    (2, "containers", Many(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Int),
    (5, "activeDeadlineSeconds", Int),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", TextMap),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", PlainBool),
    (12, "hostPID", PlainBool),
    (13, "hostIPC", PlainBool),
    (14, "securityContext", One(POD_SECURITY)),
    (15, "imagePullSecrets", Many(NAMED)),
    (16, "hostname", Text),
    (17, "subdomain", Text),
    (19, "schedulerName", Text),
    (20, "initContainers", Many(CONTAINER)),
    (21, "automountServiceAccountToken", Bool),
    (22, "tolerations", Many(TOLERATION)),
    (24, "priorityClassName", Text),
    (25, "priority", Int),
    (30, "enableServiceLinks", Bool),
    (31, "preemptionPolicy", Text),
];
const POD_SECURITY: &[Field] = &[
    (2, "runAsUser", Int),
    (3, "runAsNonRoot", Bool),
    (5, "fsGroup", Int),
    (6, "runAsGroup", Int),
];
const SECURITY: &[Field] = &[
    (
        1,
        "capabilities",
        One(&[(1, "add", Texts), (2, "drop", Texts)]),
    ),
    (2, "privileged", Bool),
    (4, "runAsUser", Int),
    (5, "runAsNonRoot", Bool),
    (6, "readOnlyRootFilesystem", Bool),
    (7, "allowPrivilegeEscalation", Bool),
    (8, "runAsGroup", Int),
];
const TOLERATION: &[Field] = &[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "value", Text),
    (4, "effect", Text),
    (5, "tolerationSeconds", Int),
];
const KEY_TO_PATH: &[Field] = &[(1, "key", Text), (2, "path", Text), (3, "mode", Int)];
const VOLUME: &[Field] = &[(1, "name", Text), (2, "", Inline(VOLUME_SOURCE))];
const VOLUME_SOURCE: &[Field] = &[
    (1, "hostPath", One(&[(1, "path", Text), (2, "type", Text)])),
    (
        2,
        "emptyDir",
        One(&[(1, "medium", Text), (2, "sizeLimit", Quantity)]),
    ),
    (
        6,
        "secret",
        One(&[
            (1, "secretName", Text),
            (2, "items", Many(KEY_TO_PATH)),
            (3, "defaultMode", Int),
            (4, "optional", Bool),
        ]),
    ),
    (
        10,
        "persistentVolumeClaim",
        One(&[(1, "claimName", Text), (2, "readOnly", PlainBool)]),
    ),
    (
        19,
        "configMap",
        One(&[
            (1, "", Inline(NAMED)),
            (2, "items", Many(KEY_TO_PATH)),
            (3, "defaultMode", Int),
            (4, "optional", Bool),
        ]),
    ),
];
const VOLUME_MOUNT: &[Field] = &[
    (1, "name", Text),
    (2, "readOnly", PlainBool),
    (3, "mountPath", Text),
    (4, "subPath", Text),
    (5, "mountPropagation", Text),
    (6, "subPathExpr", Text),
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
    (9, "volumeMounts", Many(VOLUME_MOUNT)),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (15, "securityContext", One(SECURITY)),
    (16, "stdin", PlainBool),
    (17, "stdinOnce", PlainBool),
    (18, "tty", PlainBool),
    (19, "envFrom", Many(ENV_FROM)),
    (20, "terminationMessagePolicy", Text),
];
const CONTAINER_PORT: &[Field] = &[
    (1, "name", Text),
    (2, "hostPort", PlainInt),
    (3, "containerPort", PlainInt),
    (4, "protocol", Text),
];
const ENV: &[Field] = &[
    (1, "name", Text),
    (2, "value", Text),
    (3, "valueFrom", One(ENV_SOURCE)),
];
const ENV_SOURCE: &[Field] = &[
    (
        1,
        "fieldRef",
        One(&[(1, "apiVersion", Text), (2, "fieldPath", Text)]),
    ),
    (
        2,
        "resourceFieldRef",
        One(&[
            (1, "containerName", Text),
            (2, "resource", Text),
            (3, "divisor", Quantity),
        ]),
    ),
    (3, "configMapKeyRef", One(KEY_REF)),
    (4, "secretKeyRef", One(KEY_REF)),
];
const KEY_REF: &[Field] = &[
    (1, "", Inline(NAMED)),
    (2, "key", Text),
    (3, "optional", Bool),
];
const ENV_FROM: &[Field] = &[
    (1, "prefix", Text),
    (
        2,
        "configMapRef",
        One(&[(1, "", Inline(NAMED)), (2, "optional", Bool)]),
    ),
    (
        3,
        "secretRef",
        One(&[(1, "", Inline(NAMED)), (2, "optional", Bool)]),
    ),
];
const BACKEND: &[Field] = &[
    (
        3,
        "resource",
        One(&[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)]),
    ),
    (
        4,
        "service",
        One(&[
            (1, "name", Text),
            (
                2,
                "port",
                One(&[(1, "name", Text), (2, "number", PlainInt)]),
            ),
        ]),
    ),
];
const INGRESS_RULE: &[Field] = &[(1, "host", Text), (2, "", Inline(INGRESS_PATHS))];
const INGRESS_PATHS: &[Field] = &[(
    1,
    "http",
    One(&[(
        1,
        "paths",
        Many(&[
            (1, "path", Text),
            (2, "backend", One(BACKEND)),
            (3, "pathType", Text),
        ]),
    )]),
)];
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
            (4, "automountServiceAccountToken", Bool),
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
        ("networking.k8s.io/v1", "Ingress") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (1, "defaultBackend", One(BACKEND)),
                    (
                        2,
                        "tls",
                        Many(&[(1, "hosts", Texts), (2, "secretName", Text)]),
                    ),
                    (3, "rules", Many(INGRESS_RULE)),
                    (4, "ingressClassName", Text),
                ]),
            ),
        ],
        ("autoscaling/v1", "HorizontalPodAutoscaler") => &[
            META,
            (
                2,
                "spec",
                One(&[
                    (
                        1,
                        "scaleTargetRef",
                        One(&[
                            (1, "kind", Text),
                            (2, "name", Text),
                            (3, "apiVersion", Text),
                        ]),
                    ),
                    (2, "minReplicas", Int),
                    (3, "maxReplicas", PlainInt),
                    (4, "targetCPUUtilizationPercentage", Int),
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

/// The status of most kinds, which a create drops anyway.
const STATUS: u64 = 3;

/// Whether a field holds what Go writes for one that is not set: nothing, zero, or a message of such fields.
fn is_unset(wire: &Wire<'_>) -> bool {
    match wire {
        Wire::Number(number) => *number == 0,
        Wire::Bytes(bytes) => {
            let mut reader = Reader(bytes);
            loop {
                match reader.next() {
                    Ok(None) => return true,
                    Ok(Some((_, inner))) if is_unset(&inner) => {}
                    _ => return false,
                }
            }
        }
    }
}

fn unknown(number: u64) -> ApiError {
    ApiError::new(
        Reason::UnsupportedMediaType,
        format!(
            "field {number} of a message is not accepted as protobuf by this server; send the object as JSON \
             (kubectl: use -f)"
        ),
    )
}

fn message(bytes: &[u8], fields: &[Field], depth: usize) -> Result<Map<String, Value>, ApiError> {
    let (mut map, mut reader) = (Map::new(), Reader(bytes));
    while let Some((number, wire)) = reader.next()? {
        let Some((_, name, kind)) = fields.iter().find(|(n, ..)| *n == number) else {
            // Go writes fields that nobody has set, too.
            if depth > 0 || number != STATUS {
                is_unset(&wire)
                    .then_some(())
                    .ok_or_else(|| unknown(number))?;
            }
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
            (Quantity, Wire::Bytes(b)) => {
                drop(map.insert((*name).to_owned(), json!(first_text(b)?)));
            }
            (One(inner), Wire::Bytes(b)) => {
                let value = Value::Object(message(b, inner, depth + 1)?);
                drop(map.insert((*name).to_owned(), value));
            }
            (Inline(inner), Wire::Bytes(b)) => map.extend(message(b, inner, depth + 1)?),
            (Many(inner), Wire::Bytes(b)) => {
                append(&mut map, name, Value::Object(message(b, inner, depth + 1)?));
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
    let types = message(type_meta, &[(1, "apiVersion", Text), (2, "kind", Text)], 0)?;
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
    let mut object = message(raw, fields, 0)?;
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
