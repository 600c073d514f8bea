//! What can be asked of a resource, one file a verb. [`pipeline`] is the way every write takes.

pub(crate) mod binding;
pub(crate) mod container;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod eviction;
mod pipeline;
pub(crate) mod read;
pub(crate) mod reviews;
mod scale;
pub(crate) mod token;
pub(crate) mod update;
mod view;
pub(crate) mod watch;

use std::sync::Arc;

use axum::body::Body;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::builtin::signing_request;
use crate::error::ApiError;
use crate::http::accept::Rendering;
use crate::http::query::WriteOptions;
use crate::http::respond;
use crate::registry::Resource;
use crate::shared::{Identity, Shared};
use crate::store::{Key, Stored};
use crate::table::{self, Include};

pub(crate) use pipeline::{Write, insert, modify};
pub(crate) use view::bytes as view_bytes;

/// A part of an object with an endpoint of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Scale,
    Finalize,
    Approval,
    /// Containers that are added to a pod to look into it.
    Ephemeral,
    /// The resources of a pod.
    Resize,
    /// What a scheduler does to a pod; never part of a URL that [`Self::parse`] reads.
    Binding,
}

impl Subresource {
    /// The subresource called `name`, if `resource` has it.
    pub(crate) fn parse(name: &str, resource: &Resource) -> Option<Self> {
        match name {
            "status" if resource.status => Some(Self::Status),
            "scale" if resource.scale.is_some() => Some(Self::Scale),
            "finalize" if resource.is("", "namespaces") => Some(Self::Finalize),
            "ephemeralcontainers" if resource.is("", "pods") => Some(Self::Ephemeral),
            "resize" if resource.is("", "pods") => Some(Self::Resize),
            "approval" if signing_request::is_one(resource) => Some(Self::Approval),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::Ephemeral => "ephemeralcontainers",
            Self::Resize => "resize",
            Self::Binding => "binding",
        }
    }
}

/// Where a call comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    /// A task of the server.
    Task,
    /// A step of something else, which webhooks have seen as a whole.
    Step,
}

/// A request, as far as its URL and headers tell.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) options: WriteOptions,
    pub(crate) identity: Identity,
    pub(crate) rendering: Rendering,
    pub(crate) origin: Origin,
    /// When the client does not wait any longer.
    pub(crate) deadline: Instant,
    /// Warnings of webhooks, for refused requests, too.
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Call {
    /// The place of the object the URL names.
    pub(crate) fn key(&self) -> Key {
        Key::new(
            self.namespace.as_deref().unwrap_or_default(),
            self.name.as_deref().unwrap_or_default(),
        )
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(
            &self.resource.group,
            &self.resource.plural,
            self.name.as_deref().unwrap_or_default(),
        )
    }

    pub(crate) fn find(&self) -> Result<Arc<Stored>, ApiError> {
        self.shared
            .store
            .get(&self.resource.table, &self.key())
            .ok_or_else(|| self.not_found())
    }

    /// Adds the warnings of webhooks to a response.
    pub(crate) fn warned(
        &self,
        response: Result<Response<Body>, ApiError>,
    ) -> Result<Response<Body>, ApiError> {
        let warnings = std::mem::take(&mut *self.warnings.lock());
        if warnings.is_empty() {
            return response;
        }
        let response = response.unwrap_or_else(|error| respond::error(&error));
        Ok(respond::warn(response, &warnings))
    }

    /// The answer for one object, in the form asked for.
    pub(crate) fn answer(&self, code: StatusCode, object: &Stored) -> Response<Body> {
        self.answer_with(code, object, Include::Metadata)
    }

    /// The same, with so much of it in a row of a table.
    pub(crate) fn answer_with(
        &self,
        code: StatusCode,
        object: &Stored,
        include: Include,
    ) -> Response<Body> {
        match self.rendering {
            Rendering::Full => respond::json_bytes(code, view_bytes(object, &self.resource)),
            Rendering::Partial => respond::json_value(code, &table::partial(&object.value())),
            Rendering::Table => {
                let value = self.resource.read(object);
                let table = serde_json::json!({
                    "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": value["metadata"]["resourceVersion"]},
                    "columnDefinitions": table::definitions(&self.resource),
                    "rows": [table::row(&self.resource, &value, include)],
                });
                respond::json_value(code, &table)
            }
        }
    }
}

/// The text at a path of steps, empty if it is not there.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter()
        .fold(value, |v, step| &v[*step])
        .as_str()
        .unwrap_or_default()
}
