//! JSON patches of requests and webhooks: [`berth_apimachinery::json_patch`] with the errors of an API server.

use berth_apimachinery::json_patch::{BoundedPatch, BoundedPatchError, MAX_OPERATIONS};
pub(crate) use berth_apimachinery::json_patch::{MAX_DEPTH, depth};
pub(crate) use berth_apimachinery::json_size::json_size as size;
use serde_json::Value;

use crate::codec;
use crate::error::{ApiError, Reason};

/// The operations of a patch.
pub(crate) struct Operations(BoundedPatch);

impl Operations {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let refused =
            |message: String| ApiError::bad_request(format!("error decoding patch: {message}"));
        let patch = codec::parse_json(bytes).map_err(refused)?.value;
        let Value::Array(operations) = patch else {
            let message = format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                crate::go_text::type_name(&patch)
            );
            return Err(refused(message));
        };
        match BoundedPatch::new(operations) {
            Ok(patch) => Ok(Self(patch)),
            Err(BoundedPatchError::TooManyOperations(count)) => {
                let message = format!(
                    "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
                );
                Err(ApiError::too_large(&message))
            }
            Err(error) => Err(not_applicable(&error)),
        }
    }

    /// Applies the patch to an object. Fails if one of the operations fails.
    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), ApiError> {
        self.0.apply(object).map_err(|error| not_applicable(&error))
    }
}

fn not_applicable(error: &dyn std::fmt::Display) -> ApiError {
    tracing::debug!(%error, "a JSON patch cannot be applied to the object");
    let mut error = ApiError::new(
        Reason::Invalid,
        "the server rejected our request due to an error in our request",
    );
    error.subject = Some(Box::default());
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut object: Value, patch: &Value) -> Result<Value, u16> {
        let operations = Operations::parse(patch.to_string().as_bytes());
        operations
            .and_then(|operations| operations.apply(&mut object))
            .map_err(|error| error.reason.code())?;
        Ok(object)
    }

    #[test]
    fn absent_members_can_be_replaced_but_not_removed() {
        let replace = |path: &str| json!([{"op": "replace", "path": path, "value": 1}]);
        let object = json!({"a": {"x": 0}, "l": [0]});
        assert_eq!(
            patched(object.clone(), &replace("/a/y")),
            Ok(json!({"a": {"x": 0, "y": 1}, "l": [0]}))
        );
        assert_eq!(
            patched(object.clone(), &replace("/l/0")),
            Ok(json!({"a": {"x": 0}, "l": [1]}))
        );
        assert_eq!(patched(object.clone(), &replace("/l/1")), Err(422));
        assert_eq!(patched(object.clone(), &replace("/b/y")), Err(422));
        assert_eq!(
            patched(object, &json!([{"op": "remove", "path": "/a/y"}])),
            Err(422)
        );
    }

    #[test]
    fn invalid_patches_are_refused() {
        assert_eq!(patched(json!({}), &json!({})), Err(400));
        assert_eq!(
            patched(json!({}), &json!([{"op": "paint", "path": "/a"}])),
            Err(422)
        );
        let many = vec![json!({"op": "add", "path": "/a", "value": 1}); MAX_OPERATIONS + 1];
        assert_eq!(patched(json!({}), &json!(many)), Err(413));
    }
}
