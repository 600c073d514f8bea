//! How a server serves a kind of resource: asked once for each kind, and remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_apimachinery::api_error::api_error_message;
use kube::api::{Api, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::error::DiscoveryError;

use crate::resource_type::ResourceType;

/// A kind that a server does not serve, or that it could not be asked about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KindError {
    /// The server says that it has no such kind.
    #[error(
        "the server could not find the requested resource: it does not serve {kind} in {api_version}"
    )]
    Unserved {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// The server does not say.
    #[error(
        "cannot find out how {kind} in {api_version} is served: {}",
        api_error_message(source)
    )]
    Unknown {
        /// The group and version.
        api_version: String,
        /// The kind.
        kind: String,
        /// Why not.
        source: Box<kube::Error>,
    },
}

impl KindError {
    /// What an answer to the question about a kind means.
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

    /// Whether the server has no such kind: then it has no objects of it either.
    pub(crate) fn is_unserved(&self) -> bool {
        matches!(self, Self::Unserved { .. })
    }
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

    /// A kind turned out not to be served any more, or not as it was: it is asked for again.
    pub(crate) fn forget(&self, api_version: &str, kind: &str) -> KindError {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        self.known().remove(&(api_version.clone(), kind.clone()));
        KindError::Unserved { api_version, kind }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
