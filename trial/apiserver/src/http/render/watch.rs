//! Rendering of watches as a stream of JSON events.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http::Response;
use serde_json::{Value, json};

use super::Form;
use crate::http::accept::Rendering;
use crate::http::respond;
use crate::http::stalled_body::WatchResponse;
use crate::resource::Resource;
use crate::store::Stored;
use crate::table::{self, Include};
use crate::verbs::version_conversion;
use crate::verbs::watch::{WatchEvent, Watcher};

/// Renders a watch.
pub(in crate::http) fn watch(
    resource: &Arc<Resource>,
    form: Form,
    watcher: Watcher,
) -> Response<Body> {
    let encoder = Encoder {
        resource: resource.clone(),
        form,
        columns_sent: false,
    };
    let chunks = stream::unfold(
        (watcher, encoder),
        |(mut watcher, mut encoder)| async move {
            let chunk = encoder.chunk(watcher.next().await?);
            Some((Ok::<_, Infallible>(chunk), (watcher, encoder)))
        },
    );
    let mut response = respond::bytes_as("application/json", Body::from_stream(chunks));
    response.extensions_mut().insert(WatchResponse);
    respond::warn(response, resource.deprecation.as_slice())
}

/// The encoder of the events of one watch.
struct Encoder {
    resource: Arc<Resource>,
    form: Form,
    /// True if an earlier event contained the column definitions.
    columns_sent: bool,
}

impl Encoder {
    fn chunk(&mut self, events: Vec<WatchEvent>) -> Bytes {
        let mut out = BytesMut::new();
        for event in events {
            match event {
                WatchEvent::Added(object) => self.object(&mut out, "ADDED", &object),
                WatchEvent::Modified(object) => self.object(&mut out, "MODIFIED", &object),
                WatchEvent::Deleted(object) => self.object(&mut out, "DELETED", &object),
                WatchEvent::Bookmark {
                    version,
                    end_of_initial,
                } => put_line(
                    &mut out,
                    "BOOKMARK",
                    &self.bookmark(version, end_of_initial),
                ),
                WatchEvent::Error(error) => put_line(&mut out, "ERROR", &error.status()),
            }
        }
        out.freeze()
    }

    /// Writes an event. Parses the object only if the form of the response requires this.
    fn object(&mut self, out: &mut BytesMut, kind: &str, object: &Stored) {
        out.put_slice(b"{\"type\":\"");
        out.put_slice(kind.as_bytes());
        out.put_slice(b"\",\"object\":");
        let resource = &*self.resource;
        match self.form.rendering {
            Rendering::Full => out.put_slice(&version_conversion::bytes(object, resource)),
            Rendering::Partial => {
                out.put_slice(table::partial(&object.value()).to_string().as_bytes());
            }
            Rendering::Table => {
                let columns = if std::mem::replace(&mut self.columns_sent, true) {
                    Value::Null
                } else {
                    table::definitions(&resource.columns)
                };
                let value = resource.read(object);
                let table = json!({
                    "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns,
                    "metadata": {"resourceVersion": object.version.to_string()},
                    "rows": [table::row(&resource.columns, &value, self.form.include)],
                });
                out.put_slice(table.to_string().as_bytes());
            }
        }
        out.put_slice(b"}\n");
    }

    /// Returns the object of a bookmark event.
    fn bookmark(&self, version: u64, end_of_initial: bool) -> Value {
        let version = version.to_string();
        let mut meta = json!({"resourceVersion": version});
        if end_of_initial {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &*self.resource;
        match self.form.rendering {
            Rendering::Full => {
                json!({"kind": resource.kind, "apiVersion": resource.api_version(), "metadata": meta})
            }
            Rendering::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
            }
            Rendering::Table => {
                let empty = json!({"metadata": meta});
                let mut row = table::row(&resource.columns, &empty, Include::Metadata);
                if row["cells"][0].is_null() {
                    row["cells"][0] = json!("");
                }
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null,
                    "metadata": {"resourceVersion": version}, "rows": [row]})
            }
        }
    }
}

fn put_line(out: &mut BytesMut, kind: &str, object: &Value) {
    let line = json!({"type": kind, "object": object});
    out.put_slice(line.to_string().as_bytes());
    out.put_u8(b'\n');
}
