//! How a server serves a kind of resource: asked once for each kind, and remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};

use crate::resource_type::ResourceType;

/// A kind that a server does not serve, or that it could not be asked about.
#[derive(Debug, thiserror::Error)]
#[error("cannot find out how {api_version} {kind} is served: {source}")]
pub(crate) struct KindError {
    api_version: String,
    kind: String,
    pub(crate) source: Box<kube::Error>,
}

/// By `apiVersion` and `kind`.
type Known = HashMap<(String, String), Arc<ResourceType>>;

/// The kinds of one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Kinds {
    client: kube::Client,
    known: Arc<Mutex<Known>>,
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kinds").finish_non_exhaustive()
    }
}

impl Kinds {
    /// The kinds of the server behind a client.
    pub(crate) fn new(client: kube::Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// The client.
    pub(crate) fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// How a kind is served.
    pub(crate) async fn find(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Arc<ResourceType>, KindError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.known().get(&key) {
            return Ok(Arc::clone(known));
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = GroupVersionKind::gvk(group, version, kind);
        let (api, capabilities) =
            pinned_kind(&self.client, &wanted)
                .await
                .map_err(|source| KindError {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    source: Box::new(source),
                })?;
        let found = Arc::new(ResourceType {
            api,
            namespaced: capabilities.scope == Scope::Namespaced,
        });
        self.known().insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// A handle on objects of a kind.
    pub(crate) async fn api(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, KindError> {
        let found = self.find(api_version, kind).await?;
        Ok(found.api(self.client.clone(), namespace))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
