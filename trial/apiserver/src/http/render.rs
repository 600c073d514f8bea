//! Rendering of the outcomes of verbs: status codes, tables, partial metadata and warnings.

mod list;
mod watch;

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::accept::Rendering;
use super::respond;
use crate::error::ApiError;
use crate::query::Query;
use crate::resource::Resource;
use crate::store::Stored;
use crate::table::{self, Include};
use crate::verbs::{Content, Outcome, version_conversion};
use list::ListChunks;
pub(super) use watch::watch;

/// The requested form of the objects of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) rendering: Rendering,
    /// The part of each object that a table row contains.
    pub(super) include: Include,
}

impl Form {
    /// Returns the form with complete objects.
    pub(super) fn full() -> Self {
        Self::of(Rendering::Full)
    }

    /// Returns the form with this rendering.
    pub(super) fn of(rendering: Rendering) -> Self {
        Self {
            rendering,
            include: Include::Metadata,
        }
    }

    /// Reads the query parameter `includeObject`, which is used only for tables.
    pub(super) fn with_include(self, query: &Query) -> Result<Self, ApiError> {
        let include = match query.get("includeObject") {
            _ if self.rendering != Rendering::Table => Include::Metadata,
            None | Some("Metadata") => Include::Metadata,
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be \
                     'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        Ok(Self { include, ..self })
    }
}

/// Renders the outcome of a verb.
pub(super) fn outcome(
    resource: &std::sync::Arc<Resource>,
    form: Form,
    outcome: Outcome,
) -> Response<Body> {
    let code = if outcome.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let response = match outcome.content {
        Content::Object(stored) => object(resource, form, code, &stored),
        Content::Scale(value) if form.rendering == Rendering::Table => {
            respond::json_value(code, &scale_table(&value))
        }
        Content::Scale(value) | Content::Value(value) => respond::json_value(code, &value),
        Content::List { items, meta } => ListChunks::response(resource, form, items, &meta),
    };
    respond::warn(response, &outcome.warnings)
}

/// Renders a stored object.
fn object(resource: &Resource, form: Form, code: StatusCode, stored: &Stored) -> Response<Body> {
    match form.rendering {
        Rendering::Full => respond::json_bytes(code, version_conversion::bytes(stored, resource)),
        Rendering::Partial => respond::json_value(code, &table::partial(&stored.value())),
        Rendering::Table => {
            let value = resource.read(stored);
            let table = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": value["metadata"]["resourceVersion"]},
                "columnDefinitions": table::definitions(&resource.columns),
                "rows": [table::row(&resource.columns, &value, form.include)],
            });
            respond::json_value(code, &table)
        }
    }
}

/// Renders a Scale object as a table.
fn scale_table(scale: &Value) -> Value {
    let column = |name: &str, kind: &str| json!({"name": name, "type": kind, "format": "", "description": "", "priority": 0});
    let replicas = |part: &Value| part["replicas"].as_i64().unwrap_or(0);
    let cells = json!([
        scale["metadata"]["name"],
        replicas(&scale["spec"]),
        replicas(&scale["status"]),
        table::age(scale)
    ]);
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": scale["metadata"]["resourceVersion"]},
        "columnDefinitions": [
            column("Name", "string"), column("Desired", "integer"),
            column("Available", "integer"), column("Age", "string"),
        ],
        "rows": [{"cells": cells, "object": table::partial(scale)}],
    })
}
