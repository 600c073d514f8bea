//! JSON patches (RFC 6902), where replacing an absent member adds it, as in Go clients. The size of the
//! result is bounded: a short patch cannot create a huge object.

use std::io;

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::codec;
use crate::error::{ApiError, Reason};

/// Maximum operations of a patch.
const MAX_OPERATIONS: usize = 10_000;
/// Maximum bytes of JSON that the copies of a patch produce.
const MAX_COPIED: usize = 3 << 20;
/// Maximum list items that a patch shifts and values that it moves. Each takes some nanoseconds.
const MAX_MOVED: usize = 50_000_000;
/// Maximum levels of an object. A deeper object could not be parsed again.
pub(crate) const MAX_DEPTH: usize = 127;

/// The operations of a patch.
pub(crate) struct Operations(Vec<PatchOperation>);

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
        if operations.len() > MAX_OPERATIONS {
            let message = format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            );
            return Err(ApiError::too_large(&message));
        }
        let operations = operations.into_iter().map(|operation| {
            serde_json::from_value(operation).map_err(|error| not_applicable(&error))
        });
        Ok(Self(operations.collect::<Result<_, _>>()?))
    }

    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), ApiError> {
        let (mut copied, mut moved) = (0, 0);
        for operation in &self.0 {
            moved += moved_values(operation, object);
            if moved > MAX_MOVED {
                let message = format!("the patch moves more than {MAX_MOVED} values");
                return Err(not_applicable(&message));
            }
            if let PatchOperation::Copy(copy) = operation
                && let Ok(source) = copy.from.resolve(object)
            {
                copied += size(source);
                if copied > MAX_COPIED {
                    let message =
                        format!("the copies of the patch have more than {MAX_COPIED} bytes");
                    return Err(not_applicable(&message));
                }
            }
            if added_depth(operation, object) > MAX_DEPTH {
                let message = format!("the result has more than {MAX_DEPTH} levels");
                return Err(not_applicable(&message));
            }
            let one = [as_go_reads_it(operation, object)];
            // A failed patch stores nothing.
            json_patch::patch_unsafe(object, &one).map_err(|error| not_applicable(&error))?;
        }
        Ok(())
    }
}

/// Counts the bytes of a value as JSON.
pub(crate) fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Serializing a JSON value into a counter cannot fail.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}

/// Counts the levels of objects and lists in a value.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the depth below the root that an operation adds.
fn added_depth(operation: &PatchOperation, object: &Value) -> usize {
    let source = |from: &Pointer| from.resolve(object).map_or(0, depth);
    let (path, inner) = match operation {
        PatchOperation::Add(add) => (&add.path, depth(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, depth(&replace.value)),
        PatchOperation::Copy(copy) => (&copy.path, source(&copy.from)),
        PatchOperation::Move(moved) => (&moved.path, source(&moved.from)),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    path.count() + inner
}

/// Returns the number of list items that an operation shifts, and of the values in a moved value.
fn moved_values(operation: &PatchOperation, object: &Value) -> usize {
    let shifted = |path: &Pointer| {
        let (parent, last) = path.split_back()?;
        let items = parent.resolve(object).ok()?.as_array()?;
        let index: usize = last.decoded().parse().ok()?;
        items.len().checked_sub(index)
    };
    let shifted = |path: &Pointer| shifted(path).unwrap_or(0);
    match operation {
        PatchOperation::Add(add) => shifted(&add.path),
        PatchOperation::Copy(copy) => shifted(&copy.path),
        PatchOperation::Remove(remove) => shifted(&remove.path),
        PatchOperation::Move(moved) => {
            shifted(&moved.from)
                + shifted(&moved.path)
                + moved.from.resolve(object).map_or(0, values)
        }
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Counts a value and the values in it.
fn values(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(values).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        _ => 1,
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
    // An absent member that could exist is copied as null.
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

    #[test]
    fn the_number_of_moved_values_is_bounded() {
        let list = json!({ "l": vec![0; 100_000], "m": {} });
        for (operation, code) in [
            (json!({ "op": "remove", "path": "/l/0" }), Some(422)),
            (
                json!({ "op": "add", "path": "/l/0", "value": 1 }),
                Some(422),
            ),
            (json!({ "op": "add", "path": "/l/-", "value": 1 }), None),
            (
                json!({ "op": "move", "from": "/l", "path": "/l" }),
                Some(422),
            ),
        ] {
            let patch = Value::Array(vec![operation.clone(); 1000]);
            assert_eq!(patched(list.clone(), &patch).err(), code, "{operation}");
        }
    }

    #[test]
    fn the_size_of_all_copies_is_bounded() {
        // With its quotes a copy has one mebibyte.
        let object = json!({"a": "x".repeat((1 << 20) - 2), "b": []});
        let copy = json!({"op": "copy", "from": "/a", "path": "/b/-"});
        for (copies, expected) in [(3, Ok(3)), (4, Err(422))] {
            let patch = json!(vec![copy.clone(); copies]);
            let found = patched(object.clone(), &patch);
            let found = found.map(|object| object["b"].as_array().unwrap().len());
            assert_eq!(found, expected);
        }
        // Each operation doubles the list, up to 2^40 items.
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let bomb = json!(vec![double; 40]);
        assert_eq!(patched(json!({"a": ["x"]}), &bomb), Err(422));
    }

    #[test]
    fn no_operation_makes_an_object_too_deep() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let below = |levels| "/a".repeat(levels);
        for (levels, expected) in [(MAX_DEPTH, Ok(())), (MAX_DEPTH + 1, Err(422))] {
            let object = json!({"a": nested(60), "b": nested(levels - 61)});
            for operation in [
                json!({"op": "add", "path": below(61), "value": nested(levels - 61)}),
                json!({"op": "copy", "from": "/b", "path": below(61)}),
                json!({"op": "move", "from": "/b", "path": below(61)}),
                json!({"op": "replace", "path": below(61), "value": nested(levels - 61)}),
            ] {
                let found = patched(object.clone(), &json!([operation])).map(drop);
                assert_eq!(found, expected, "{operation}");
            }
        }
    }
}
