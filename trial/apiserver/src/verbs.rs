//! The verbs on resources, with one module for each verb. [`pipeline`] is the path of every create and update.
//!
//! A verb takes a [`Call`] and returns an [`Outcome`]. It must not know HTTP: status codes, tables and content types
//! belong to [`crate::http`].

pub(crate) mod auth_reviews;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_options;
pub(crate) mod eviction;
pub(crate) mod kubelet;
mod pipeline;
pub(crate) mod pod_binding;
pub(crate) mod read;
mod scale;
pub(crate) mod token_request;
pub(crate) mod update;
pub(crate) mod version_conversion;
pub(crate) mod watch;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::ApiError;
use crate::identity::Identity;
use crate::query::{FieldValidation, WriteOptions};
use crate::resource::{Resource, Subresource};
use crate::shared::Shared;
use crate::store::{Key, Stored};

pub(crate) use pipeline::{WriteKind, insert, modify, quota};

/// Field manager of the server's own writes.
const INTERNAL_MANAGER: &str = "berth-apiserver";
/// Timeout of the server's own requests.
const INTERNAL_TIMEOUT: Duration = Duration::from_mins(1);

/// The origin of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    /// A write of the server itself, for example by a background task.
    Server,
    /// A write that webhooks do not review: an initial object or CustomResourceDefinition that the server creates, or
    /// the deletion of an evicted pod.
    Unreviewed,
}

/// A request on a resource, without its body.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<Subresource>,
    pub(crate) options: WriteOptions,
    pub(crate) identity: Identity,
    pub(crate) origin: Origin,
    /// The time at which the client's timeout ends.
    pub(crate) deadline: Instant,
    /// Warnings of webhooks. The response contains them even if the request is refused.
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Call {
    /// Creates a call for a request of the server itself.
    pub(crate) fn internal(
        shared: &Arc<Shared>,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Self {
        Self {
            shared: shared.clone(),
            resource: resource.clone(),
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            name: Some(name.to_owned()),
            subresource: None,
            options: WriteOptions {
                dry_run: false,
                field_manager: INTERNAL_MANAGER.to_owned(),
                manager_named: true,
                field_validation: FieldValidation::Ignore,
                force: false,
            },
            identity: Identity::admin(),
            origin: Origin::Server,
            deadline: Instant::now() + INTERNAL_TIMEOUT,
            warnings: Mutex::default(),
        }
    }

    /// Returns the key of the object that the call names.
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

    /// Returns the stored object that the call names.
    pub(crate) fn find(&self) -> Result<Arc<Stored>, ApiError> {
        self.shared
            .store
            .get(&self.resource.table, &self.key())
            .ok_or_else(|| self.not_found())
    }
}

/// The result of a verb.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) content: Content,
    /// True if the verb created the object.
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

/// The content of a response.
#[derive(Debug)]
pub(crate) enum Content {
    /// A stored object.
    Object(Arc<Stored>),
    /// The `Scale` of an object.
    Scale(Value),
    /// An object that is not stored, such as a `Status` or a review.
    Value(Value),
    /// A list of stored objects, with the metadata of the list.
    List {
        items: Vec<Arc<Stored>>,
        meta: Value,
    },
}

impl Outcome {
    /// Returns an outcome with an existing object.
    pub(crate) fn found(content: Content) -> Self {
        Self {
            content,
            created: false,
            warnings: Vec::new(),
        }
    }

    /// Returns an outcome with a new object.
    pub(crate) fn created(content: Content) -> Self {
        Self {
            created: true,
            ..Self::found(content)
        }
    }

    /// Adds warnings to the response.
    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Adds the warning for a deprecated version of a resource.
    fn warn_deprecated(self, resource: &Resource) -> Self {
        self.warn(resource.deprecation.clone())
    }
}

/// Refuses the body of a subresource unless it contains the name of the object, and its namespace or no namespace.
fn check_body_metadata(body: &Value, key: &Key) -> Result<(), ApiError> {
    let [name, namespace] = ["name", "namespace"].map(|field| text(body, &["metadata", field]));
    if name != &*key.name || !["", &*key.namespace].contains(&namespace) {
        let message = "name and namespace in the URL do not match those of the object";
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

/// Sets a condition in a status. Replaces an existing condition of the same type.
fn set_condition(status: &mut Value, condition: Value) {
    let conditions = status["conditions"].as_array();
    let mut conditions = conditions.cloned().unwrap_or_default();
    conditions.retain(|other| other["type"] != condition["type"]);
    conditions.push(condition);
    status["conditions"] = Value::Array(conditions);
}

/// Returns an outcome with the `Status` of a successful create, without the created object.
fn created_status() -> Outcome {
    Outcome::created(Content::Value(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    })))
}

/// Returns the text at a path. The result is empty if there is no text.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    path.iter()
        .fold(value, |v, step| &v[*step])
        .as_str()
        .unwrap_or_default()
}
