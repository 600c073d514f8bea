//! `serviceaccounts/NAME/token`: a token for a service account, made on the spot.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::text;
use crate::authentication::service_account::{ISSUER, Named, Tie, Wanted};
use crate::clock;
use crate::error::{ApiError, Cause};
use crate::http::{body, respond};
use crate::shared::Shared;
use crate::store::Key;

/// How long a token lasts if nobody says.
const DEFAULT_SECONDS: i64 = 3600;
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

pub(crate) fn create(
    shared: &Arc<Shared>,
    namespace: &str,
    name: &str,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let request = body::object(content_type, bytes)?.value;
    let kind = text(&request, &["kind"]);
    if !kind.is_empty() && kind != "TokenRequest" {
        return Err(ApiError::bad_request(format!(
            "{kind} cannot be handled as a TokenRequest"
        )));
    }
    let account = shared
        .store
        .get("serviceaccounts", &Key::new(namespace, name))
        .ok_or_else(|| ApiError::not_found("", "serviceaccounts", name))?;
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

fn seconds(spec: &Value) -> Result<i64, ApiError> {
    let wanted = &spec["expirationSeconds"];
    let refuse = |detail: &str| {
        let cause = Cause::invalid("spec.expirationSeconds", wanted, detail);
        Err(ApiError::invalid(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            vec![cause],
        ))
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
    shared: &Arc<Shared>,
    namespace: &str,
    account: &str,
    reference: &Value,
) -> Result<Option<Tie>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let (name, uid) = (text(reference, &["name"]), text(reference, &["uid"]));
    let (table, tie): (_, fn(Named) -> Tie) = match text(reference, &["kind"]) {
        "Pod" => ("pods", Tie::Pod),
        "Secret" => ("secrets", Tie::Secret),
        other => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {other}"
            )));
        }
    };
    let object = shared
        .store
        .get(table, &Key::new(namespace, name))
        .ok_or_else(|| ApiError::not_found("", table, name))?;
    if !uid.is_empty() && uid != &*object.uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict("", table, name, &why));
    }
    let runs_as = text(&object.value(), &["spec", "serviceAccountName"]).to_owned();
    if table == "pods" && !runs_as.is_empty() && runs_as != account {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount \"{account}\" to pod running with different serviceaccount name."
        )));
    }
    Ok(Some(tie(Named {
        name: name.to_owned(),
        uid: object.uid.to_string(),
    })))
}
