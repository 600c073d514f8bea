//! JSON patches (RFC 6902) with bounds. A short patch cannot create a huge object, because the total size of its copies
//! is limited. As in Go clients, the operation `replace` adds an absent member.

use json_patch::jsonptr::Pointer;
use json_patch::{AddOperation, PatchOperation};
use serde_json::Value;

use crate::json_size::json_size;

/// Maximum number of operations in a patch.
pub const MAX_OPERATIONS: usize = 10_000;
/// Maximum total size of the values that a patch copies, in bytes of JSON.
const MAX_COPIED: usize = 3 << 20;
/// Maximum sum of the list items that a patch shifts and the values that it moves. Each item or value takes some
/// nanoseconds.
const MAX_MOVED: usize = 50_000_000;
/// Maximum nesting depth of an object. A deeper object cannot be parsed.
pub const MAX_DEPTH: usize = 127;

/// The operations of a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedPatch(Vec<PatchOperation>);

/// A patch that is malformed, too large, or does not fit the object.
#[derive(Debug, thiserror::Error)]
pub enum BoundedPatchError {
    /// The patch has too many operations.
    #[error("the patch has {0} operations, more than {MAX_OPERATIONS}")]
    TooManyOperations(usize),
    /// An operation is malformed.
    #[error("the patch has a malformed operation: {0}")]
    Operation(#[from] serde_json::Error),
    /// The patch moves too many values.
    #[error("the patch moves more than {MAX_MOVED} values")]
    TooManyMoves,
    /// The copies of the patch are too large.
    #[error("the copies of the patch have more than {MAX_COPIED} bytes")]
    TooLargeCopies,
    /// The result is nested too deeply.
    #[error("the result has more than {MAX_DEPTH} levels")]
    TooDeep,
    /// An operation does not fit the object.
    #[error("the patch does not fit the object: {0}")]
    Mismatch(#[from] json_patch::PatchError),
}

impl BoundedPatch {
    /// Parses the operations of a patch.
    ///
    /// # Errors
    /// When there are too many operations, or an operation is malformed.
    pub fn new(operations: Vec<Value>) -> Result<Self, BoundedPatchError> {
        if operations.len() > MAX_OPERATIONS {
            return Err(BoundedPatchError::TooManyOperations(operations.len()));
        }
        let operations = operations.into_iter().map(serde_json::from_value);
        Ok(Self(operations.collect::<Result<_, _>>()?))
    }

    /// Applies the patch to an object. After an error, the object is partly changed and must not be used.
    ///
    /// # Errors
    /// When an operation does not fit the object, or exceeds a bound.
    pub fn apply(&self, object: &mut Value) -> Result<(), BoundedPatchError> {
        let (mut copied, mut moved) = (0, 0_usize);
        for operation in &self.0 {
            moved += moved_values(operation, object);
            if moved > MAX_MOVED {
                return Err(BoundedPatchError::TooManyMoves);
            }
            if let PatchOperation::Copy(copy) = operation
                && let Ok(source) = copy.from.resolve(object)
            {
                copied += json_size(source);
                if copied > MAX_COPIED {
                    return Err(BoundedPatchError::TooLargeCopies);
                }
            }
            if added_depth(operation, object) > MAX_DEPTH {
                return Err(BoundedPatchError::TooDeep);
            }
            let one = [as_go_reads_it(operation, object)];
            json_patch::patch_unsafe(object, &one)?;
        }
        Ok(())
    }
}

/// Returns the number of nested levels of objects and lists in a value.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the depth of the deepest value that an operation adds, counted from the root of the object.
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

/// Returns the number of list items that an operation shifts, plus the number of values that it moves.
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

/// Returns the number of values in a JSON tree, including the root.
fn values(value: &Value) -> usize {
    match value {
        Value::Object(map) => 1 + map.values().map(values).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        _ => 1,
    }
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
    // Go copies null from an absent member of an existing object.
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

    fn patched(mut object: Value, patch: &Value) -> Result<Value, BoundedPatchError> {
        BoundedPatch::new(patch.as_array().unwrap().clone())?.apply(&mut object)?;
        Ok(object)
    }

    #[test]
    fn the_number_of_moved_values_is_bounded() {
        let list = json!({ "l": vec![0; 100_000], "m": {} });
        for (operation, is_refused) in [
            (json!({ "op": "remove", "path": "/l/0" }), true),
            (json!({ "op": "add", "path": "/l/0", "value": 1 }), true),
            (json!({ "op": "add", "path": "/l/-", "value": 1 }), false),
            (json!({ "op": "move", "from": "/l", "path": "/l" }), true),
        ] {
            let patch = Value::Array(vec![operation.clone(); 1000]);
            let found = patched(list.clone(), &patch);
            let moved = matches!(found, Err(BoundedPatchError::TooManyMoves));
            assert_eq!(moved, is_refused, "{operation}");
        }
    }

    #[test]
    fn the_size_of_all_copies_is_bounded() {
        // Each copy has one mebibyte, including the quotes.
        let object = json!({"a": "x".repeat((1 << 20) - 2), "b": []});
        let copy = json!({"op": "copy", "from": "/a", "path": "/b/-"});
        for (copies, expected) in [(3, Some(3)), (4, None)] {
            let patch = json!(vec![copy.clone(); copies]);
            let found = patched(object.clone(), &patch);
            let found = found.map(|object| object["b"].as_array().unwrap().len());
            assert_eq!(found.ok(), expected);
        }
        // Each operation would double the number of values in the object.
        let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let bomb = json!(vec![double; 40]);
        let found = patched(json!({"a": ["x"]}), &bomb);
        assert!(matches!(found, Err(BoundedPatchError::TooLargeCopies)));
    }

    #[test]
    fn no_operation_makes_an_object_too_deep() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        let below = |levels| "/a".repeat(levels);
        for (levels, expected) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
            let object = json!({"a": nested(60), "b": nested(levels - 61)});
            for operation in [
                json!({"op": "add", "path": below(61), "value": nested(levels - 61)}),
                json!({"op": "copy", "from": "/b", "path": below(61)}),
                json!({"op": "move", "from": "/b", "path": below(61)}),
                json!({"op": "replace", "path": below(61), "value": nested(levels - 61)}),
            ] {
                let found = patched(object.clone(), &json!([operation]));
                assert_eq!(found.is_ok(), expected, "{operation}");
            }
        }
    }
}
