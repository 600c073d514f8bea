//! `serviceaccounts/NAME/token`: a token for a service account, made on the spot.

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{Call, pipeline, text};
use crate::authentication::service_account::{ISSUER, Named, Tie, Wanted};
use crate::clock;
use crate::error::{ApiError, Cause};
use crate::http::{body, respond};
use crate::schema::decode;
use crate::shared::Shared;
use crate::store::Key;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const DEFINITION: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// How long a token lasts if nobody says.
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let mut request = read(content_type, bytes)?;
    call.find()?;
    let part = pipeline::Part::new("serviceaccounts", "token", (GROUP, "v1", KIND));
    pipeline::review_part(call, &part, &mut request).await?;
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
    let tie = tie(shared, namespace, name, &spec["boundObjectRef"])?;
    let wanted = Wanted {
        namespace,
        account: Named {
            name: name.to_owned(),
            uid: account.uid.to_string(),
        },
        audiences: audiences.clone(),
        seconds: Some(seconds),
        tie,
    };
    let signed = shared
        .authenticator
        .accounts
        .sign(wanted)
        .map_err(|e| ApiError::internal(e.to_string()))?;
    let expires = jiff::Timestamp::from_second(signed.expires.unwrap_or(i64::MAX))
        .map_err(|e| ApiError::internal(e.to_string()))?
        .to_string();
    let answer = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace, "uid": account.uid, "creationTimestamp": clock::now()},
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": spec["boundObjectRef"]},
        "status": {"token": signed.token, "expirationTimestamp": expires},
    });
    Ok(respond::json_value(StatusCode::CREATED, &answer))
}

/// A TokenRequest, as Go would decode it.
fn read(content_type: &str, bytes: &Bytes) -> Result<Value, ApiError> {
    let mut request = body::typed(content_type, bytes, KIND)?.value;
    if let Some(why) = pipeline::unreadable(&request) {
        let why =
            format!("couldn't get version/kind; json parse error: json: cannot unmarshal {why}");
        return Err(ApiError::bad_request(body::unrecognized(KIND, &why, bytes)));
    }
    let kind = text(&request, &["kind"]).to_owned();
    let refuse = |kind: &str, why: &str| {
        let message = format!("{kind} in version \"v1\" cannot be handled as a {KIND}: {why}");
        Err(ApiError::bad_request(message))
    };
    if !["", KIND].contains(&kind.as_str()) {
        return refuse(&kind, "it is of another kind");
    }
    match decode::problem(DEFINITION, &mut request) {
        Some(why) => refuse(KIND, &why),
        None => Ok(request),
    }
}

/// Refuses a request that says it is for another account.
fn check_metadata(metadata: &Value, namespace: &str, name: &str) -> Result<(), ApiError> {
    if !["", namespace].contains(&text(metadata, &["namespace"])) {
        let why =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(why));
    }
    let said = text(metadata, &["name"]);
    if ["", name].contains(&said) {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let cause = Cause::invalid("metadata.name", &json!(said), why);
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
        Some(seconds) if seconds < SHORTEST => {
            refuse("may not specify a duration less than 10 minutes")
        }
        Some(seconds) if seconds > LONGEST => {
            refuse("may not specify a duration larger than 2^32 seconds")
        }
        Some(seconds) => Ok(seconds),
    }
}

/// What the token is to die with.
fn tie(
    shared: &Shared,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Option<Tie>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let (name, uid) = (text(reference, &["name"]), text(reference, &["uid"]));
    let bound = match text(reference, &["kind"]) {
        "Pod" => Bound::Pod,
        "Secret" => Bound::Secret,
        "Node" => Bound::Node,
        kind => {
            let version = text(reference, &["apiVersion"]);
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(why));
        }
    };
    if name.is_empty() {
        return Err(ApiError::bad_request("Name parameter required."));
    }
    let table = bound.table();
    let place = if bound == Bound::Node { "" } else { namespace };
    let object = shared
        .store
        .get(table, &Key::new(place, name))
        .ok_or_else(|| ApiError::not_found("", table, name))?;
    let kind = text(reference, &["kind"]);
    if !uid.is_empty() && uid != &*object.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", kind, name, &why));
    }
    let named = Named {
        name: name.to_owned(),
        uid: object.uid.to_string(),
    };
    Ok(Some(match bound {
        Bound::Secret => Tie::Secret(named),
        Bound::Node => Tie::Node(named),
        Bound::Pod => {
            let pod = object.value();
            let runs_as = text(&pod, &["spec", "serviceAccountName"]);
            if !runs_as.is_empty() && runs_as != account {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
                )));
            }
            let node = text(&pod, &["spec", "nodeName"]);
            Tie::Pod {
                pod: named,
                node: node_of(shared, node),
            }
        }
    }))
}

/// The node of a pod, if it has one that is known.
fn node_of(shared: &Shared, name: &str) -> Option<Named> {
    let node = shared.store.get("nodes", &Key::new("", name))?;
    Some(Named {
        name: name.to_owned(),
        uid: node.uid.to_string(),
    })
}

/// What tokens can be bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Pod,
    Secret,
    Node,
}

impl Bound {
    fn table(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }
}
