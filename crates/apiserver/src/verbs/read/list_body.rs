//! A list as it goes over the wire: written while the client reads it, so that a long list is nowhere there as a
//! whole, however many ask for it and however slowly they read.

use std::sync::Arc;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::items::put_untyped;
use crate::http::accept::Rendering;
use crate::http::respond;
use crate::registry::Resource;
use crate::store::Stored;
use crate::table::{self, Include};
use crate::verbs::{Call, view_bytes};

/// About so much is written at once.
const CHUNK: usize = 64 << 10;

/// The answer for a list of these objects, in the form asked for.
pub(in crate::verbs) fn render(
    call: &Call,
    items: Vec<Arc<Stored>>,
    meta: &Value,
    include: Include,
) -> Response<Body> {
    let mut chunks = Chunks {
        head: Some(head(call, meta)),
        items: items.into_iter(),
        is_first: true,
        resource: call.resource.clone(),
        rendering: call.rendering,
        include,
        done: false,
    };
    let first = chunks.next().unwrap_or_default();
    if chunks.done {
        return respond::json_bytes(StatusCode::OK, first);
    }
    let rest = stream::unfold(chunks, |mut chunks| async move {
        // Others have their turn between two chunks.
        tokio::task::yield_now().await;
        chunks.next().map(|chunk| (chunk, chunks))
    });
    respond::json_chunks(stream::iter([first]).chain(rest))
}

/// Everything before the items.
fn head(call: &Call, meta: &Value) -> String {
    let resource = &call.resource;
    let begin = |kind: &str, api_version: &str| {
        format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{meta}",
            json!(kind),
            json!(api_version)
        )
    };
    match call.rendering {
        Rendering::Full => begin(&resource.list_kind, &resource.api_version()) + ",\"items\":[",
        Rendering::Partial => begin("PartialObjectMetadataList", "meta.k8s.io/v1") + ",\"items\":[",
        Rendering::Table => format!(
            "{},\"columnDefinitions\":{},\"rows\":[",
            begin("Table", "meta.k8s.io/v1"),
            table::definitions(resource)
        ),
    }
}

/// The chunks of a list.
struct Chunks {
    /// What comes before the items, until it is written.
    head: Option<String>,
    items: std::vec::IntoIter<Arc<Stored>>,
    is_first: bool,
    resource: Arc<Resource>,
    rendering: Rendering,
    include: Include,
    /// Whether the end is written.
    done: bool,
}

impl Chunks {
    fn put(&self, out: &mut BytesMut, object: &Stored) {
        match self.rendering {
            Rendering::Full => {
                let bytes = view_bytes(object, &self.resource);
                if self.resource.is_custom() {
                    out.put_slice(&bytes);
                } else {
                    put_untyped(out, &bytes);
                }
            }
            Rendering::Partial => {
                out.put_slice(table::partial(&object.value()).to_string().as_bytes());
            }
            Rendering::Table => {
                let row = table::row(&self.resource, &self.resource.read(object), self.include);
                out.put_slice(row.to_string().as_bytes());
            }
        }
    }
}

impl Iterator for Chunks {
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
