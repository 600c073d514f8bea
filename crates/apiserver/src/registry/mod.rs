//! Which resources are served. A snapshot is immutable; installing a CRD replaces it as a whole.

mod builtin;
mod conversion;
pub(crate) mod custom;
pub(crate) mod definition;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;
use serde_json::Value;

use crate::admission::GroupResource;
use crate::connect::ConnectedSubresource;
use crate::schema::{self, Schema, shape};
use crate::store::{Stored, TableName};
use crate::table::Columns;

/// Where objects of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// What can be done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Stored objects, all verbs.
    Stored,
    /// Answered on the spot, create only (access reviews).
    Review,
}

/// What a valid name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameRule {
    Subdomain,
    Label,
    /// RFC 1035: starts with a letter.
    Service,
    /// Anything that fits in a URL path.
    PathSegment,
}

/// A resource may be a view of another's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Plain,
    /// `events.k8s.io/v1` over core events.
    NewEvent,
    /// `autoscaling/v1` over `autoscaling/v2`.
    OldAutoscaler,
}

/// Where the replica counts are, as dotted paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// What it takes to replace an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Put {
    /// One that is not there is created.
    pub(crate) creates: bool,
    /// The version that is replaced must be named.
    pub(crate) needs_version: bool,
}

/// Where the schema comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Name of an OpenAPI definition.
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
    pub(crate) view: View,
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// True if `metadata.generation` is maintained.
    pub(crate) generation: bool,
    pub(crate) put: Put,
    pub(crate) source: Source,
    pub(crate) columns: Columns,
    /// The fields that a definition declares as selectable.
    pub(crate) selectable: Vec<String>,
    pub(crate) table: TableName,
    pub(crate) deprecation: Option<String>,
    /// The version of the definition that a custom resource was compiled from.
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

    /// Group and plural, `deployments.apps`.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource {
            group: &self.group,
            resource: &self.plural,
        }
    }

    /// The stored object as a tree, with the defaults of now.
    pub(crate) fn read(&self, object: &Stored) -> Value {
        let mut value = object.value();
        if self.may_lack_defaults(object) {
            shape::drop_nulls(&mut value, self.schema());
            shape::default(&mut value, self.schema());
        }
        value
    }

    /// Whether a custom object was written before its definition. Defaults that the schema gained since are filled in
    /// when it is read, and stored when it is next written.
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

/// The resources of one group and version.
pub(crate) type GroupVersion = BTreeMap<String, Arc<Resource>>;

/// Everything served at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// Group to versions in order of preference.
    pub(crate) groups: BTreeMap<String, Vec<(String, GroupVersion)>>,
    /// The preferred version of each table, for garbage collection and namespace deletion.
    pub(crate) by_table: HashMap<TableName, Arc<Resource>>,
    /// Subresources that are answered by the program around the server.
    pub(crate) connected: Arc<[ConnectedSubresource]>,
    pub(crate) documents: Documents,
}

/// Large documents about all that is served, made when they are first asked for.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// With the name of its contents.
    pub(crate) openapi_v2: OnceLock<(String, Bytes)>,
    pub(crate) openapi_v2_protobuf: OnceLock<Bytes>,
}

impl Snapshot {
    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.groups
            .get(group)?
            .iter()
            .find(|(v, _)| v == version)
            .map(|(_, r)| r)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flatten().flat_map(|(_, r)| r.values())
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let versions = self.groups.entry(resource.group.clone()).or_default();
        let index = versions
            .iter()
            .position(|(v, _)| *v == resource.version)
            .unwrap_or_else(|| {
                versions.push((resource.version.clone(), GroupVersion::new()));
                versions.len() - 1
            });
        if resource.style == Style::Stored && resource.view == View::Plain {
            self.by_table
                .entry(resource.table.clone())
                .or_insert_with(|| resource.clone());
        }
        versions[index].1.insert(resource.plural.clone(), resource);
    }

    fn sort(&mut self) {
        for versions in self.groups.values_mut() {
            versions.sort_by_key(|(version, _)| std::cmp::Reverse(version_rank(version)));
        }
    }
}

/// Kubernetes' order of versions: v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > others.
pub(crate) fn version_rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else {
        return (0, 0, 0);
    };
    let minor = |prefix: &str| {
        rest[digits..]
            .strip_prefix(prefix)
            .and_then(|m| m.parse().ok())
    };
    match &rest[digits..] {
        "" => (3, major, 0),
        _ => match (minor("beta"), minor("alpha")) {
            (Some(m), _) => (2, major, m),
            (_, Some(m)) => (1, major, m),
            _ => (0, 0, 0),
        },
    }
}

/// The built-in resources, shared by every server of the process.
static BUILTIN: LazyLock<Vec<Arc<Resource>>> =
    LazyLock::new(|| builtin::resources().into_iter().map(Arc::new).collect());

static EVICTION: LazyLock<Arc<Resource>> = LazyLock::new(|| Arc::new(builtin::eviction()));

/// What is sent to evict a pod: of a kind, but nowhere listed.
pub(crate) fn eviction() -> &'static Arc<Resource> {
    &EVICTION
}

/// The current snapshot.
#[derive(Debug)]
pub(crate) struct Registry {
    current: RwLock<Arc<Snapshot>>,
}

impl Registry {
    pub(crate) fn new(connected: Vec<ConnectedSubresource>) -> Self {
        let registry = Self {
            current: RwLock::new(Arc::new(Snapshot {
                connected: connected.into(),
                ..Snapshot::default()
            })),
        };
        registry.install(Vec::new());
        registry
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().clone()
    }

    /// Serves the built-in resources and exactly these custom ones.
    pub(crate) fn install(&self, custom: Vec<Arc<Resource>>) {
        let mut next = Snapshot {
            connected: self.snapshot().connected.clone(),
            ..Snapshot::default()
        };
        for resource in BUILTIN.iter().cloned().chain(custom) {
            next.add(resource);
        }
        next.sort();
        *self.current.write() = Arc::new(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_maturity() {
        let mut versions = vec!["v1alpha1", "v1", "v1beta1", "v2", "v1beta2", "foo"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
        );
    }
}
