//! JSON patches as Go clients know them: RFC 6902, where replacing a member that is not there adds it.

use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::error::{ApiError, Reason};
use crate::http::body;

/// How many operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// The operations of a patch.
pub(crate) struct Operations(Vec<PatchOperation>);

impl Operations {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ApiError> {
        let refused = |why: String| ApiError::bad_request(format!("error decoding patch: {why}"));
        let patch = body::parsed(bytes).map_err(refused)?.value;
        let Some(operations) = patch.as_array() else {
            let why = format!(
                "json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
                crate::go_text::type_name(&patch)
            );
            return Err(refused(why));
        };
        if operations.len() > MAX_OPERATIONS {
            let why = format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            );
            return Err(ApiError::new(Reason::RequestEntityTooLarge, why));
        }
        let operations = operations.iter().map(|operation| {
            serde_json::from_value(operation.clone()).map_err(|error| does_not_fit(&error))
        });
        Ok(Self(operations.collect::<Result<_, _>>()?))
    }

    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), ApiError> {
        for operation in &self.0 {
            let one = [as_go_reads_it(operation, object)];
            json_patch::patch(object, &one).map_err(|error| does_not_fit(&error))?;
        }
        Ok(())
    }
}

fn does_not_fit(error: &dyn std::fmt::Display) -> ApiError {
    tracing::debug!(%error, "a JSON patch does not fit");
    let mut error = ApiError::new(
        Reason::Invalid,
        "the server rejected our request due to an error in our request",
    );
    error.subject = Some(Box::default());
    error
}

fn as_go_reads_it(operation: &PatchOperation, object: &Value) -> PatchOperation {
    if let PatchOperation::Replace(replace) = operation
        && let Some((parent, _)) = replace.path.split_back()
        && parent.resolve(object).is_ok_and(Value::is_object)
    {
        return PatchOperation::Add(AddOperation {
            path: replace.path.clone(),
            value: replace.value.clone(),
        });
    }
    // What is not there where it could be is copied as nothing.
    if let PatchOperation::Copy(copy) = operation
        && copy.from.resolve(object).is_err()
        && let Some((parent, _)) = copy.from.split_back()
        && parent.resolve(object).is_ok_and(Value::is_object)
    {
        return PatchOperation::Add(AddOperation {
            path: copy.path.clone(),
            value: Value::Null,
        });
    }
    operation.clone()
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
    fn a_member_that_is_not_there_can_be_replaced_but_nothing_else() {
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
    fn what_is_no_patch_is_refused() {
        assert_eq!(patched(json!({}), &json!({})), Err(400));
        assert_eq!(
            patched(json!({}), &json!([{"op": "paint", "path": "/a"}])),
            Err(422)
        );
        let many = vec![json!({"op": "add", "path": "/a", "value": 1}); MAX_OPERATIONS + 1];
        assert_eq!(patched(json!({}), &json!(many)), Err(413));
    }
}
