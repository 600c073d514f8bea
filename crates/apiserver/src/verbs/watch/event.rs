//! One event of a watch, as it goes over the wire.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use serde_json::{Value, json};

use crate::http::accept::Rendering;
use crate::registry::Resource;
use crate::store::Stored;
use crate::table::{self, Include};
use crate::verbs::view_bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// An object with another version.
pub(super) fn at_version(object: &Arc<Stored>, version: u64) -> Arc<Stored> {
    let mut value = object.value();
    value["metadata"]["resourceVersion"] = json!(version.to_string());
    let stored = Stored::new(object.key.clone(), version, &value);
    stored.map_or_else(|_| object.clone(), Arc::new)
}

/// Writes an event behind others.
pub(super) fn encode(
    out: &mut BytesMut,
    resource: &Resource,
    rendering: Rendering,
    include: Include,
    headers_sent: &mut bool,
    (kind, object): &(EventType, Arc<Stored>),
) {
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.name().as_bytes());
    out.put_slice(b"\",\"object\":");
    match rendering {
        Rendering::Full => out.put_slice(&view_bytes(object, resource)),
        Rendering::Partial => out.put_slice(table::partial(&object.value()).to_string().as_bytes()),
        Rendering::Table => {
            let columns = if *headers_sent {
                Value::Null
            } else {
                table::definitions(resource)
            };
            *headers_sent = true;
            let value = resource.read(object);
            let table = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns,
                "metadata": {"resourceVersion": object.version.to_string()},
                "rows": [table::row(resource, &value, include)],
            });
            out.put_slice(table.to_string().as_bytes());
        }
    }
    out.put_slice(b"}\n");
}
