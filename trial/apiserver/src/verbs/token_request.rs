//! The subresource `serviceaccounts/NAME/token`, which issues tokens of a ServiceAccount.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Call, Content, Outcome, check_body_metadata, pipeline, text};
use crate::authentication::service_account::{ISSUER, ObjectRef, TokenSpec};
use crate::error::{ApiError, Cause};
use crate::schema::decode;
use crate::shared::Shared;
use crate::store::{Key, Stored};
use crate::{clock, codec, table_names};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFINITION: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// Default lifetime of a token.
const DEFAULT_SECONDS: i64 = 3600;
/// Minimum lifetime of a token.
const MIN_SECONDS: i64 = 600;
/// Maximum lifetime of a token.
const MAX_SECONDS: i64 = 1 << 32;

/// Issues a token for the ServiceAccount in the URL.
pub(crate) fn create(call: &Call, content_type: &str, bytes: &Bytes) -> Result<Outcome, ApiError> {
    let mut request = read(content_type, bytes)?;
    let account = call.find()?;
    let key = call.key();
    let (namespace, name) = (&*key.namespace, &*key.name);
    let shared = &call.shared;
    let named = text(&request, &["metadata", "name"]);
    if !["", name].contains(&named) {
        let detail = "must match the service account name if specified";
        let cause = Cause::invalid("metadata.name", &json!(named), detail);
        return Err(ApiError::invalid(GROUP, KIND, name, vec![cause]));
    }
    request["metadata"]["name"] = json!(name);
    check_body_metadata(&request, &key)?;
    let spec = &request["spec"];
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
    let bound = bound(shared, namespace, name, &spec["boundObjectRef"])?;
    let token_spec = TokenSpec {
        namespace,
        account: ObjectRef {
            name: name.to_owned(),
            uid: account.uid.to_string(),
        },
        audiences: audiences.clone(),
        seconds: Some(seconds),
        bound,
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

/// Decodes the TokenRequest in a request body.
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
        return refuse(&kind, "the kind does not match");
    }
    match decode::decode(DEFINITION, &mut request) {
        Some(detail) => refuse(KIND, &detail),
        None => Ok(request),
    }
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

/// Returns the objects to which the token is bound, keyed by their lower-case kind. These are the referenced object
/// and, if this object is a pod, the node of the pod.
fn bound(
    shared: &Shared,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<BTreeMap<String, ObjectRef>, ApiError> {
    let mut bound = BTreeMap::new();
    if reference.is_null() {
        return Ok(bound);
    }
    let [kind, name, uid] = ["kind", "name", "uid"].map(|field| text(reference, &[field]));
    let (table, namespace) = match kind {
        "Pod" => (table_names::PODS, namespace),
        "Secret" => (table_names::SECRETS, namespace),
        "Node" => (table_names::NODES, ""),
        _ => {
            let message = format!("cannot bind token to object of type {kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let find = |table: &str, namespace: &str, name: &str| {
        let found = shared.store.get(table, &Key::new(namespace, name));
        found.ok_or_else(|| ApiError::not_found("", table, name))
    };
    let reference_to = |object: &Stored| ObjectRef {
        name: object.key.name.to_string(),
        uid: object.uid.to_string(),
    };
    let object = find(table, namespace, name)?;
    if !uid.is_empty() && uid != &*object.uid {
        let message = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record"
        );
        return Err(ApiError::conflict("", kind, name, &message));
    }
    if kind == "Pod" {
        let pod = object.value();
        let runs_as = text(&pod, &["spec", "serviceAccountName"]);
        if !runs_as.is_empty() && runs_as != account {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
            )));
        }
        if let Ok(node) = find(table_names::NODES, "", text(&pod, &["spec", "nodeName"])) {
            bound.insert("node".to_owned(), reference_to(&node));
        }
    }
    bound.insert(kind.to_ascii_lowercase(), reference_to(&object));
    Ok(bound)
}
