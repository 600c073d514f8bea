//! Removal of nulls after a server-side apply. A manager that sets a field to null owns the field, but the null is not
//! stored.

use std::collections::HashMap;

use serde_json::Value;

use super::fields::{self, Shape, field_schema, item_step};
use crate::schema::Schema;

/// Removes the nulls that the merge of `config` has added.
pub(super) fn remove_nulls(merged: &mut Value, config: &Value, schema: Option<&Schema>) {
    match fields::shape(config, schema) {
        Shape::Object(wanted) => {
            let Some(object) = merged.as_object_mut() else {
                return;
            };
            let of = schema;
            for (name, value) in wanted {
                let schema = field_schema(of, name);
                let is_field = of.is_none_or(|s| s.properties.contains_key(name));
                // A null entry of a map is kept, and later becomes the zero value of its type.
                if value.is_null()
                    && is_field
                    && object.get(name).is_some_and(Value::is_null)
                    && !schema.is_some_and(|s| s.nullable)
                {
                    object.remove(name);
                } else if let Some(inner) = object.get_mut(name) {
                    remove_nulls(inner, value, schema);
                }
            }
        }
        Shape::Keyed(wanted, keys) => {
            let of_item = schema.and_then(|s| s.items.as_deref());
            let wanted: HashMap<String, &Value> = wanted
                .iter()
                .map(|value| (item_step(value, keys, of_item), value))
                .collect();
            for item in merged.as_array_mut().into_iter().flatten() {
                if let Some(value) = wanted.get(&item_step(item, keys, of_item)) {
                    remove_nulls(item, value, of_item);
                }
            }
        }
        Shape::Set(_) | Shape::Leaf => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::builtin;
    use serde_json::json;

    #[test]
    fn applied_nulls_are_removed() {
        let config = json!({"spec": {"replicas": null, "template": {"spec": {"containers": [
            {"name": "c", "args": null}]}}}});
        let schema = builtin::compiled("io.k8s.api.apps.v1.Deployment");
        let mut merged = config.clone();
        remove_nulls(&mut merged, &config, Some(&schema));
        let expected = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
        assert_eq!(merged, expected);
    }
}
