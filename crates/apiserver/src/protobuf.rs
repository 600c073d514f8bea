//! Bodies in `application/vnd.kubernetes.protobuf`, which kubectl's imperative commands send.

use serde_json::Value;

use crate::error::ApiError;
use crate::http::body::unsupported;

/// Decodes an enveloped object.
pub(crate) fn decode(_bytes: &[u8]) -> Result<Value, ApiError> {
    Err(unsupported(
        "application/vnd.kubernetes.protobuf",
        "application/json, application/yaml",
    ))
}
