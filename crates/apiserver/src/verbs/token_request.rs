//! `serviceaccounts/NAME/token`: requests for service account tokens.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Call, Content, Outcome, pipeline, text};
use crate::authentication::service_account::{ISSUER, ObjectRef, TokenBinding, TokenSpec};
use crate::error::{ApiError, Cause};
use crate::schema::decode;
use crate::shared::Shared;
use crate::store::Key;
use crate::{clock, codec, tables};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFINITION: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// Default, minimum and maximum lifetime.
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// Issues a token.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    let mut request = read(content_type, bytes)?;
    call.find()?;
    let subresource =
        pipeline::VirtualSubresource::new("serviceaccounts", "token", (GROUP, "v1", KIND));
    pipeline::review_virtual(call, &subresource, &mut request).await?;
    let account = call.find()?;
    let key = call.key();
    let (namespace, name) = (&*key.namespace, &*key.name);
    let shared = &call.shared;
    let spec = &request["spec"];
    check_metadata(&request["metadata"], namespace, name)?;
    let seconds = seconds(spec)?;
    let mut audiences: Vec<String> = spec["audiences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    if audiences.is_empty() {
        audiences.push(ISSUER.to_owned());
    }
    let binding = binding(shared, namespace, name, &spec["boundObjectRef"])?;
    let token_spec = TokenSpec {
        namespace,
        account: ObjectRef {
            name: name.to_owned(),
            uid: account.uid.to_string(),
        },
        audiences: audiences.clone(),
        seconds: Some(seconds),
        binding,
    };
    let signed = shared
        .authenticator
        .accounts
        .sign(token_spec)
        .map_err(|e| ApiError::internal(e.to_string()))?;
    let expires = jiff::Timestamp::from_second(signed.expires.unwrap_or(i64::MAX))
        .map_err(|e| ApiError::internal(e.to_string()))?
        .to_string();
    let response = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": account.uid, "creationTimestamp": clock::now()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec["boundObjectRef"]},
        "status": {"token": signed.token, "expirationTimestamp": expires},
    });
    Ok(Outcome::created(Content::Value(response)))
}

/// Decodes a TokenRequest.
fn read(content_type: &str, bytes: &Bytes) -> Result<Value, ApiError> {
    let mut request = codec::typed_object(content_type, bytes, KIND)?.value;
    pipeline::check_type_meta(&request)
        .map_err(|detail| ApiError::bad_request(codec::unrecognized(KIND, &detail)))?;
    let kind = text(&request, &["kind"]).to_owned();
    let refuse = |kind: &str, detail: &str| {
        let message = format!("{kind} in version \"v1\" cannot be handled as a {KIND}: {detail}");
        Err(ApiError::bad_request(message))
    };
    if !["", KIND].contains(&kind.as_str()) {
        return refuse(&kind, "it is of another kind");
    }
    match decode::decode(DEFINITION, &mut request) {
        Some(detail) => refuse(KIND, &detail),
        None => Ok(request),
    }
}

/// Refuses a request with the name or namespace of another account.
fn check_metadata(metadata: &Value, namespace: &str, name: &str) -> Result<(), ApiError> {
    if !["", namespace].contains(&text(metadata, &["namespace"])) {
        let detail =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(detail));
    }
    let named = text(metadata, &["name"]);
    if ["", name].contains(&named) {
        return Ok(());
    }
    let detail = "must match the service account name if specified";
    let cause = Cause::invalid("metadata.name", &json!(named), detail);
    Err(ApiError::invalid(GROUP, KIND, name, vec![cause]))
}

fn seconds(spec: &Value) -> Result<i64, ApiError> {
    let wanted = &spec["expirationSeconds"];
    let refuse = |detail: &str| {
        let cause = Cause::invalid("spec.expirationSeconds", wanted, detail);
        Err(ApiError::invalid(GROUP, KIND, "", vec![cause]))
    };
    match wanted.as_i64() {
        None => Ok(DEFAULT_SECONDS),
        Some(seconds) if seconds < MIN_SECONDS => {
            refuse("may not specify a duration less than 10 minutes")
        }
        Some(seconds) if seconds > MAX_SECONDS => {
            refuse("may not specify a duration larger than 2^32 seconds")
        }
        Some(seconds) => Ok(seconds),
    }
}

/// Returns the object that the token is bound to.
fn binding(
    shared: &Shared,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Option<TokenBinding>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let (name, uid) = (text(reference, &["name"]), text(reference, &["uid"]));
    let bound = match text(reference, &["kind"]) {
        "Pod" => BoundKind::Pod,
        "Secret" => BoundKind::Secret,
        "Node" => BoundKind::Node,
        kind => {
            let version = text(reference, &["apiVersion"]);
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let message =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let table = bound.table();
    let namespace = if bound == BoundKind::Node {
        ""
    } else {
        namespace
    };
    let object = shared
        .store
        .get(table, &Key::new(namespace, name))
        .ok_or_else(|| ApiError::not_found("", table, name))?;
    let kind = text(reference, &["kind"]);
    if !uid.is_empty() && uid != &*object.uid {
        let message = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", kind, name, &message));
    }
    let object_ref = ObjectRef {
        name: name.to_owned(),
        uid: object.uid.to_string(),
    };
    Ok(Some(match bound {
        BoundKind::Secret => TokenBinding::Secret(object_ref),
        BoundKind::Node => TokenBinding::Node(object_ref),
        BoundKind::Pod => {
            let pod = object.value();
            let runs_as = text(&pod, &["spec", "serviceAccountName"]);
            if !runs_as.is_empty() && runs_as != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
                )));
            }
            let node = text(&pod, &["spec", "nodeName"]);
            TokenBinding::Pod {
                pod: object_ref,
                node: node_of(shared, node),
            }
        }
    }))
}

/// Returns the node of a pod if it exists.
fn node_of(shared: &Shared, name: &str) -> Option<ObjectRef> {
    let node = shared.store.get(tables::NODES, &Key::new("", name))?;
    Some(ObjectRef {
        name: name.to_owned(),
        uid: node.uid.to_string(),
    })
}

/// The kinds of objects that tokens can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BoundKind {
    Pod,
    Secret,
    Node,
}

impl BoundKind {
    fn table(self) -> &'static str {
        match self {
            Self::Pod => tables::PODS,
            Self::Secret => tables::SECRETS,
            Self::Node => tables::NODES,
        }
    }
}
