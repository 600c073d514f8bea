//! The get and list verbs.

pub(super) mod options;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Call, Content, Outcome, scale};
use crate::codec;
use crate::error::{ApiError, Cause, Reason};
use crate::query::{ListVersion, Query};
use crate::resource::Subresource;
use crate::selector::{FieldSelector, Selector, label};
use crate::store::Page;

/// Returns an object. A request to the scale subresource returns the Scale of the object.
pub(crate) fn get(call: &Call, query: &Query) -> Result<Outcome, ApiError> {
    if let Some(version) = query.resource_version().map_err(ApiError::unknown)? {
        check_future(version, call.shared.store.version())?;
    }
    let object = call.find()?;
    if call.subresource == Some(Subresource::Scale) {
        let scale = scale::of(&call.resource.read(&object), &call.resource);
        return Ok(Outcome::found(Content::Scale(scale)));
    }
    Ok(Outcome::found(Content::Object(object)).warn_deprecated(&call.resource))
}

/// Returns the selectors of a request. A name in the URL replaces the field selector of the query.
pub(super) fn selector(call: &Call, query: &Query) -> Result<Selector, ApiError> {
    let labels = label::parse(query.get("labelSelector").unwrap_or_default())?;
    let mut fields = query.get("fieldSelector").unwrap_or_default().to_owned();
    if let Some(name) = &call.name {
        fields = format!("metadata.name={name}");
    }
    Ok(Selector {
        labels,
        fields: FieldSelector::parse(&fields, &call.resource)?,
    })
}

/// The contents of a continue token: the position after one page of a list.
struct Continue {
    /// The version of the store at which the next page is read. `None` is the current version.
    version: Option<u64>,
    /// The namespace of the last object on the page.
    namespace: String,
    /// The name of the last object on the page.
    name: String,
}

impl Continue {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!([self.version, self.namespace, self.name]).to_string())
    }

    fn decode(token: &str) -> Result<Self, ApiError> {
        let refused = |message: &str| {
            ApiError::bad_request(format!(
                "invalid continue token: continue key is not valid: {message}"
            ))
        };
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|error| refused(&error.to_string()))?;
        let value = codec::parse_json(&bytes)
            .map_err(|message| refused(&message))?
            .value;
        let text = |i: usize| value[i].as_str().map(str::to_owned);
        let position = text(1).zip(text(2));
        let (namespace, name) = position.ok_or_else(|| refused("issued by another server"))?;
        Ok(Self {
            version: value[0].as_u64(),
            namespace,
            name,
        })
    }
}

fn list_too_old() -> ApiError {
    let message = "The resourceVersion for the provided list is too old.";
    ApiError::new(Reason::Expired, message)
}

/// Returns the error for an expired continue token. The error contains a new token, with which a client lists the rest
/// of the current objects.
fn continue_too_old(after: &Continue) -> ApiError {
    let mut error = ApiError::new(
        Reason::Expired,
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of \
         the results. Continuing with the provided token results in an inconsistent list - objects that were \
         created, modified, or deleted between the time the first chunk was returned and now may show up in the \
         list.",
    );
    let rest = Continue {
        version: None,
        namespace: after.namespace.clone(),
        name: after.name.clone(),
    };
    error.continue_token = Some(rest.encode());
    error
}

/// Returns the maximum number of items on a page. Returns `None` if the limit is missing, zero or negative.
fn limit(query: &Query) -> Result<Option<usize>, ApiError> {
    let limit = query.integer("limit")?;
    Ok(limit
        .and_then(|l| usize::try_from(l).ok())
        .filter(|l| *l > 0))
}

/// Returns all objects of the requested version after the position `after`. The caller applies the selectors and the
/// limit.
fn page(call: &Call, query: &Query, after: Option<&Continue>) -> Result<Page, ApiError> {
    let (store, table, namespace) = (
        &call.shared.store,
        &call.resource.table,
        call.namespace.as_deref(),
    );
    if let Some(after) = after {
        if query.get("resourceVersion").is_some_and(|v| v != "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        let mut page = match after.version {
            Some(version) => store
                .list_at(table, namespace, version)
                .map_err(|_| continue_too_old(after))?,
            None => store.list(table, namespace),
        };
        page.items.retain(|o| {
            (&*o.key.namespace, &*o.key.name) > (after.namespace.as_str(), after.name.as_str())
        });
        return Ok(page);
    }
    let version = query
        .list_version()
        .map_err(|message| ApiError::bad_request(format!("invalid resource version: {message}")))?;
    match version {
        ListVersion::Latest => Ok(store.list(table, namespace)),
        ListVersion::Exactly(version) => {
            check_future(version, store.version())?;
            store
                .list_at(table, namespace, version)
                .map_err(|_| list_too_old())
        }
        ListVersion::NotOlderThan(version) => {
            check_future(version, store.version())?;
            Ok(store.list(table, namespace))
        }
    }
}

/// Refuses a resourceVersion that is greater than the current version.
fn check_future(version: u64, current: u64) -> Result<(), ApiError> {
    if version <= current {
        return Ok(());
    }
    let mut error = ApiError::new(
        Reason::Timeout,
        format!("Timeout: Too large resource version: {version}, current: {current}"),
    );
    error.retry_after = Some(1);
    error.causes = vec![Cause {
        field: String::new(),
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
    }];
    Err(error)
}

/// Returns one page of the selected objects.
pub(crate) fn list(call: &Call, query: &Query) -> Result<Outcome, ApiError> {
    options::check_list(query)?;
    let selector = selector(call, query)?;
    let after = query.get("continue").map(Continue::decode).transpose()?;
    let Page { mut items, version } = page(call, query, after.as_ref())?;
    let select_all = selector.is_empty();
    if !select_all {
        items.retain(|o| selector.matches(o, &call.resource));
    }
    let limit = limit(query)?;
    let mut meta = list_meta(call, version);
    if let Some(limit) = limit
        && items.len() > limit
    {
        let left = items.len() - limit;
        items.truncate(limit);
        if let Some(last) = items.last() {
            let next = Continue {
                version: Some(version),
                namespace: last.key.namespace.to_string(),
                name: last.key.name.to_string(),
            };
            meta["continue"] = json!(next.encode());
        }
        if select_all {
            meta["remainingItemCount"] = json!(left);
        }
    }
    Ok(Outcome::found(Content::List { items, meta }).warn_deprecated(&call.resource))
}

/// Returns the metadata of a complete list. A list of custom objects has an empty `continue` field.
pub(super) fn list_meta(call: &Call, version: u64) -> Value {
    let mut meta = json!({"resourceVersion": version.to_string()});
    if call.resource.is_custom() {
        meta["continue"] = json!("");
    }
    meta
}
