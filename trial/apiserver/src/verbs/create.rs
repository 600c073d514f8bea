//! The create verb: decodes the body, refuses a nonzero `resourceVersion`, and calls `pipeline::insert`.

use bytes::Bytes;

use super::pipeline::{self, Source, WriteKind};
use super::{Call, Content, Outcome};
use crate::codec;
use crate::error::ApiError;

/// Creates an object.
pub(crate) async fn create(
    call: &Call,
    content_type: &str,
    bytes: &Bytes,
) -> Result<Outcome, ApiError> {
    if call.resource.namespaced() && call.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let decoded = codec::typed_object(content_type, bytes, &call.resource.kind)?;
    let mut value = decoded.value;
    let warnings = pipeline::decode(call, &mut value, Source::Body, &decoded.duplicates)?;
    if value["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|version| version.parse::<u64>().ok())
        .is_some_and(|version| version != 0)
    {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::unknown(message));
    }
    let written = pipeline::insert(call, value, WriteKind::Plain).await?;
    Ok(Outcome::created(Content::Object(written))
        .warn(warnings)
        .warn_deprecated(&call.resource))
}
