//! The kinds of resource that are looked at, and the keys of their objects.

use std::fmt;
use std::sync::Arc;

use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;

use crate::binding_key::BindingKey;

/// A kind of resource as the server serves it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceType {
    /// Group, version, kind and plural.
    pub api: ApiResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ResourceType {
    /// A handle on the objects of one namespace, or on cluster-scoped ones.
    pub fn api(&self, client: kube::Client, namespace: &str) -> Api<DynamicObject> {
        if self.namespaced && !namespace.is_empty() {
            Api::namespaced_with(client, namespace, &self.api)
        } else {
            Api::all_with(client, &self.api)
        }
    }

    /// The key of an object of this kind.
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
    /// Deployments, as tests need them.
    pub(crate) fn deployments() -> Arc<Self> {
        let kind = kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment");
        Arc::new(Self {
            api: ApiResource::from_gvk(&kind),
            namespaced: true,
        })
    }
}

/// Names a resource template.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TemplateKey {
    /// What kind of resource it is.
    pub resource: Arc<ResourceType>,
    /// Its namespace, empty for cluster-scoped resources.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl TemplateKey {
    /// For example `apps/v1`.
    pub fn api_version(&self) -> &str {
        &self.resource.api.api_version
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.resource.api.kind
    }

    /// The binding that a template of this key has.
    pub fn binding(&self) -> BindingKey {
        BindingKey {
            namespace: self.namespace.clone(),
            name: berth_api::names::binding_name(self.kind(), &self.name),
        }
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
