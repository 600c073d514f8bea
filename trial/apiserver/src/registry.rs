//! The registry of served resources. A snapshot of the registry is immutable. A change of a CustomResourceDefinition
//! replaces the current snapshot.

mod builtin_resources;
pub(crate) mod custom_resource_definition;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock};

use bytes::Bytes;
use parking_lot::RwLock;

use crate::connect::ConnectedSubresource;
use crate::resource::{Conversion, Resource, Style};
use crate::store::TableName;

/// The resources of one group and version.
pub(crate) type GroupVersion = BTreeMap<String, Arc<Resource>>;

/// All served resources at one moment.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// The versions of each group, with the preferred version first.
    pub(crate) groups: BTreeMap<String, Vec<(String, GroupVersion)>>,
    /// The resource of each table of the store, in a version that needs no conversion.
    pub(crate) by_table: HashMap<TableName, Arc<Resource>>,
    /// Subresources that a [`crate::Connect`] handles.
    pub(crate) connected: Arc<[ConnectedSubresource]>,
    pub(crate) documents: Documents,
}

/// The OpenAPI v2 documents of the snapshot, rendered at the first request.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// The ETag and the JSON document.
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
        if resource.style == Style::Stored && resource.conversion == Conversion::None {
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

/// Returns the sort key of a version. The order is v2 > v1 > v1beta2 > v1beta1 > v1alpha1 > others.
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

/// The built-in resources, which all servers of the process share.
static BUILTIN: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    builtin_resources::resources()
        .into_iter()
        .map(Arc::new)
        .collect()
});

static EVICTION: LazyLock<Arc<Resource>> =
    LazyLock::new(|| Arc::new(builtin_resources::eviction()));

/// Returns the resource for the bodies of pod evictions. Discovery does not list this resource.
pub(crate) fn eviction() -> &'static Arc<Resource> {
    &EVICTION
}

/// The registry, which contains the current snapshot of served resources.
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

    /// Replaces the custom resources in the current snapshot.
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
    fn versions_are_sorted_by_maturity() {
        let mut versions = vec!["v1alpha1", "v1", "v1beta1", "v2", "v1beta2", "foo"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_rank(v)));
        assert_eq!(
            versions,
            ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]
        );
    }
}
