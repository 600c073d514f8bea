//! A served resource: its names, scope, schema, printer columns and subresources.
//!
//! This module must not know which resources are served, or how requests for them are handled.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::admission::GroupResource;
use crate::schema::{self, Schema, normalize};
use crate::store::{Stored, TableName};
use crate::table::Columns;

/// The scope of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// The verbs of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// All verbs. The objects are stored.
    Stored,
    /// Only the verb `create`. No object is stored, for example for access reviews.
    Review,
}

/// The syntax of object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    /// An RFC 1035 label, which starts with a letter.
    Service,
    /// Any segment that a URL path may contain.
    PathSegment,
}

/// The conversion between the stored API version and the served API version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    None,
    /// Objects of `events.k8s.io/v1` are stored as events of core/v1.
    EventsV1,
    /// Objects of `autoscaling/v1` are stored as `autoscaling/v2`.
    AutoscalingV1,
}

/// Dotted paths of the fields that the scale subresource reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// The rules of PUT requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Put {
    /// True if PUT creates a missing object.
    pub(crate) creates: bool,
    /// True if PUT requires `metadata.resourceVersion`.
    pub(crate) needs_version: bool,
}

/// The source of a schema.
#[derive(Debug)]
pub(crate) enum Source {
    /// The schema of a built-in kind, which is compiled from this OpenAPI definition at the first use.
    Builtin {
        definition: String,
        compiled: OnceLock<Arc<Schema>>,
    },
    Custom {
        schema: Arc<Schema>,
        json: Value,
    },
}

/// One served resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) scope: Scope,
    pub(crate) style: Style,
    pub(crate) name_rule: NameRule,
    pub(crate) conversion: Conversion,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// True if the server maintains `metadata.generation`.
    pub(crate) generation: bool,
    pub(crate) put: Put,
    pub(crate) source: Source,
    pub(crate) columns: Columns,
    /// Paths of the fields by which custom resources can be selected.
    pub(crate) selectable: Vec<String>,
    pub(crate) table: TableName,
    pub(crate) deprecation: Option<String>,
    /// The resourceVersion of the CustomResourceDefinition from which this resource was compiled.
    pub(crate) defined_at: Option<u64>,
}

impl Resource {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom { .. })
    }

    /// Reports whether this is the resource with this group and plural.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource {
            group: &self.group,
            resource: &self.plural,
        }
    }

    /// Returns a stored object with the current defaults of its schema.
    pub(crate) fn read(&self, object: &Stored) -> Value {
        let mut value = object.value();
        if self.may_lack_defaults(object) {
            normalize::drop_nulls(&mut value, self.schema());
            normalize::default(&mut value, self.schema());
        }
        value
    }

    /// Reports whether a custom object is older than its definition. Its definition may have got new defaults since. A
    /// read adds these defaults, and the next write stores them.
    pub(crate) fn may_lack_defaults(&self, object: &Stored) -> bool {
        let defined_at = self.defined_at;
        defined_at.is_some_and(|version| object.version < version) && self.schema().has_defaults
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        match &self.source {
            Source::Builtin {
                definition,
                compiled,
            } => compiled.get_or_init(|| schema::builtin::compiled(definition)),
            Source::Custom { schema, .. } => schema,
        }
    }
}

/// A subresource that is stored with its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Scale,
    Finalize,
    Approval,
    /// The ephemeral containers of a pod.
    Ephemeral,
    /// The resources of the containers of a pod.
    Resize,
    /// The node of a pod, which the subresource `binding` sets. [`Self::parse`] never returns this variant.
    Binding,
}

impl Subresource {
    /// Returns the subresource with this name if the resource has the subresource.
    pub(crate) fn parse(name: &str, resource: &Resource) -> Option<Self> {
        match name {
            "status" if resource.status => Some(Self::Status),
            "scale" if resource.scale.is_some() => Some(Self::Scale),
            "finalize" if resource.is("", "namespaces") => Some(Self::Finalize),
            "ephemeralcontainers" if resource.is("", "pods") => Some(Self::Ephemeral),
            "resize" if resource.is("", "pods") => Some(Self::Resize),
            "approval" if resource.is("certificates.k8s.io", "certificatesigningrequests") => {
                Some(Self::Approval)
            }
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
