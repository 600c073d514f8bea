//! Resource types that a server serves, and keys of resource templates.

use std::fmt;
use std::sync::Arc;

use berth_api::BindingKey;
use berth_api::names::binding_name;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;

use crate::resource_selector::is_same_kind;

/// A resource type with the API names and the scope that the server reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType {
    /// The group, version, kind and plural name.
    pub api: ApiResource,
    /// True if objects of this type are namespaced.
    pub namespaced: bool,
}

impl ResourceType {
    /// Returns the API for the objects of this type in a namespace, or in all namespaces if `namespace` is empty.
    pub fn api(&self, client: kube::Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client, namespace, &self.api)
        } else {
            Api::all_with(client, &self.api)
        }
    }

    /// Reports whether this type is the given kind, in the given version or in another version of its group.
    pub fn is_version_of(&self, api_version: &str, kind: &str) -> bool {
        is_same_kind((&self.api.api_version, &self.api.kind), (api_version, kind))
    }

    /// Returns the key of an object of this type.
    pub fn key(self: &Arc<Self>, namespace: &str, name: &str) -> TemplateKey {
        TemplateKey {
            resource: Arc::clone(self),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

#[cfg(test)]
impl ResourceType {
    /// Returns the type of Deployments, for tests.
    pub(crate) fn deployments() -> Arc<Self> {
        let kind = kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment");
        Arc::new(Self {
            api: ApiResource::from_gvk(&kind),
            namespaced: true,
        })
    }
}

/// The key of a resource template.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TemplateKey {
    /// The resource type.
    pub resource: Arc<ResourceType>,
    /// The namespace, empty for cluster-scoped resources.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl TemplateKey {
    /// Returns the API version, for example `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.resource.api.api_version
    }

    /// Returns the kind of the template.
    pub fn kind(&self) -> &str {
        &self.resource.api.kind
    }

    /// Returns the key of the template's binding.
    pub fn binding(&self) -> BindingKey {
        let name = binding_name(self.kind(), &self.name);
        BindingKey::new(&self.namespace, &name)
    }
}

impl fmt::Display for TemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.api_version(), self.kind())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl fmt::Debug for TemplateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}
