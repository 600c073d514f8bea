//! Streaming of the response body of a list. Each part is rendered when the client reads, so that the text of a long
//! list is never completely in memory.

use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::Form;
use crate::http::accept::Rendering;
use crate::http::respond;
use crate::resource::Resource;
use crate::store::Stored;
use crate::table;
use crate::verbs::version_conversion;

/// Approximate size of a chunk in bytes.
const CHUNK: usize = 64 << 10;

/// The chunks of a list.
pub(super) struct ListChunks {
    /// The JSON text before the items. `None` after it is written.
    head: Option<String>,
    items: std::vec::IntoIter<Arc<Stored>>,
    is_first: bool,
    /// The beginning of the JSON text of a stored item: its kind and API version.
    item_type: String,
    resource: Arc<Resource>,
    form: Form,
    /// True if the end of the list is written.
    done: bool,
}

impl ListChunks {
    /// Returns the response with a list of objects.
    pub(super) fn response(
        resource: &Arc<Resource>,
        form: Form,
        items: Vec<Arc<Stored>>,
        meta: &Value,
    ) -> Response<Body> {
        let mut chunks = Self {
            head: Some(head(resource, form, meta)),
            items: items.into_iter(),
            is_first: true,
            item_type: format!(
                "{{\"kind\":{},\"apiVersion\":{},",
                json!(resource.kind),
                json!(resource.api_version())
            ),
            resource: resource.clone(),
            form,
            done: false,
        };
        let first = chunks.next().unwrap_or_default();
        if chunks.done {
            return respond::json_bytes(StatusCode::OK, first);
        }
        let rest = stream::unfold(chunks, |mut chunks| async move {
            // Lets other tasks run between two chunks.
            tokio::task::yield_now().await;
            chunks.next().map(|chunk| (chunk, chunks))
        });
        respond::json_chunks(stream::iter([first]).chain(rest))
    }

    fn put(&self, out: &mut BytesMut, object: &Stored) {
        match self.form.rendering {
            Rendering::Full => {
                let bytes = version_conversion::bytes(object, &self.resource);
                // In lists of built-in kinds, the items have no kind and API version. Stored bytes begin with these
                // fields, which are removed here.
                match bytes.strip_prefix(self.item_type.as_bytes()) {
                    Some(untyped) if !self.resource.is_custom() => {
                        out.put_u8(b'{');
                        out.put_slice(untyped);
                    }
                    _ => out.put_slice(&bytes),
                }
            }
            Rendering::Partial => {
                out.put_slice(table::partial(&object.value()).to_string().as_bytes());
            }
            Rendering::Table => {
                let value = self.resource.read(object);
                let row = table::row(&self.resource.columns, &value, self.form.include);
                out.put_slice(row.to_string().as_bytes());
            }
        }
    }
}

/// Returns the JSON text before the items.
fn head(resource: &Resource, form: Form, meta: &Value) -> String {
    let begin = |kind: &str, api_version: &str| {
        format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta}",
            json!(kind),
            json!(api_version)
        )
    };
    match form.rendering {
        Rendering::Full => begin(&resource.list_kind, &resource.api_version()) + ",\"items\":[",
        Rendering::Partial => begin("PartialObjectMetadataList", "meta.k8s.io/v1") + ",\"items\":[",
        Rendering::Table => format!(
            "{},\"columnDefinitions\":{},\"rows\":[",
            begin("Table", "meta.k8s.io/v1"),
            table::definitions(&resource.columns)
        ),
    }
}

impl Iterator for ListChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut out = BytesMut::with_capacity(CHUNK);
        if let Some(head) = self.head.take() {
            out.put_slice(head.as_bytes());
        }
        while out.len() < CHUNK {
            let Some(object) = self.items.next() else {
                out.put_slice(b"]}");
                self.done = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                out.put_u8(b',');
            }
            self.put(&mut out, &object);
        }
        Some(out.freeze())
    }
}
