//! A REST mapper: finds the resource of an API version and kind, with one discovery request for each kind.

use berth_apimachinery::api_error::api_error_message;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::error::DiscoveryError;

use crate::resource_type::ResourceType;

/// An error of finding the resource of a kind.
#[derive(Debug, thiserror::Error)]
pub enum KindError {
    /// The server does not serve the kind.
    #[error(
        "the server could not find the requested resource: it does not serve {kind} in {api_version}"
    )]
    Unserved {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The discovery request failed.
    #[error(
        "cannot discover {kind} in {api_version}: {}",
        api_error_message(source)
    )]
    Unknown {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
}

impl KindError {
    /// Classifies the error of a discovery request.
    fn new(api_version: &str, kind: &str, source: kube::Error) -> Self {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        let unserved = match &source {
            kube::Error::Api(status) => status.code == 404,
            kube::Error::Discovery(error) => matches!(
                error,
                DiscoveryError::MissingKind(_)
                    | DiscoveryError::MissingApiGroup(_)
                    | DiscoveryError::MissingResource(_)
            ),
            _ => false,
        };
        if unserved {
            Self::Unserved { api_version, kind }
        } else {
            Self::Unknown {
                api_version,
                kind,
                source: Box::new(source),
            }
        }
    }

    /// Reports whether the server does not serve the kind. The server then has no objects of this kind.
    pub(crate) fn is_unserved(&self) -> bool {
        matches!(self, Self::Unserved { .. })
    }
}

/// The resources discovered so far, by `apiVersion` and `kind`.
type Known = HashMap<(String, String), Arc<ResourceType>>;

/// The REST mapper of one server. Clones are cheap.
#[derive(Clone)]
pub struct RestMapper {
    client: kube::Client,
    known: Arc<Mutex<Known>>,
}

impl std::fmt::Debug for RestMapper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestMapper").finish_non_exhaustive()
    }
}

impl RestMapper {
    /// Creates a REST mapper for the server that `client` connects to.
    pub fn new(client: kube::Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// Returns the client of the server.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns the resource of a kind.
    ///
    /// # Errors
    /// When the server does not serve the kind, or the discovery request fails.
    pub async fn find(
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
        let (api, capabilities) = pinned_kind(&self.client, &wanted)
            .await
            .map_err(|source| KindError::new(api_version, kind, source))?;
        let found = Arc::new(ResourceType {
            api,
            namespaced: capabilities.scope == Scope::Namespaced,
        });
        self.known().insert(key, Arc::clone(&found));
        Ok(found)
    }

    /// Returns the API for the objects of a kind in a namespace.
    pub(crate) async fn api(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Result<Api<DynamicObject>, KindError> {
        let found = self.find(api_version, kind).await?;
        Ok(found.api(self.client.clone(), namespace))
    }

    /// Removes a kind from the cache because the server stopped serving it or serves it differently. The next lookup
    /// discovers the kind again. Returns the error for a kind that is not served.
    pub(crate) fn forget(&self, api_version: &str, kind: &str) -> KindError {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        self.known().remove(&(api_version.clone(), kind.clone()));
        KindError::Unserved { api_version, kind }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
