//! The compilation of the schema of a custom resource, with the standard `metadata`, or of a part of it.

use std::sync::Arc;

use serde_json::Value;

use super::Schema;
use super::builtin::object_meta;
use super::compile::{Resolve, add_embedded, compile};

/// A resolver for the schemas of CustomResourceDefinitions, which contain no references.
struct NoReferences;

impl Resolve for NoReferences {
    fn object_meta(&self) -> Arc<Schema> {
        object_meta()
    }
}

/// Compiles the schema of a custom resource. The schema of `metadata` is always the standard schema.
pub(crate) fn resource(schema: &Value) -> Option<Arc<Schema>> {
    let mut root = compile(schema, &mut NoReferences, "", 0)?;
    add_embedded(&mut root, &object_meta());
    Some(Arc::new(root))
}

/// Compiles the schema of a part of a custom resource.
pub(crate) fn part(schema: &Value) -> Option<Schema> {
    compile(schema, &mut NoReferences, "", 0)
}
