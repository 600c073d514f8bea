//! Reads of objects in members: through the control plane's cluster proxy, with the rights of the user, and otherwise with
//! the credentials that the control plane has for the member.

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_controllers::member_client::{self, MemberClientError};
use kube::Client;
use kube::api::{GetParams, ListParams};
use kube::core::Request;
use serde::de::DeserializeOwned;

/// The time limit of a request to a member.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The reason why an object in a member cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MemberReadError {
    /// The member or the proxy refused the request, or did not answer.
    #[error("{}", api_error_message(.0))]
    Request(#[from] kube::Error),
    /// There is no client for the member.
    #[error(transparent)]
    Client(#[from] MemberClientError),
    /// The request is invalid.
    #[error("the request is invalid: {0}")]
    Invalid(#[from] kube::core::request::Error),
    /// There was no answer in time.
    #[error("no answer in {} s", TIMEOUT.as_secs())]
    Timeout,
}

impl MemberReadError {
    /// Reports whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Request(kube::Error::Api(status)) if status.code == 404)
    }
}

/// A reader of the objects in one member.
#[derive(Clone)]
pub struct MemberReader {
    client: Client,
    /// The path of the cluster proxy, or an empty path for a client of the member itself.
    prefix: String,
}

impl std::fmt::Debug for MemberReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberReader")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl MemberReader {
    /// Finds a way to a member.
    ///
    /// # Errors
    /// When neither the proxy nor the member itself answers.
    pub async fn connect(
        control_plane: &Client,
        cluster: &Cluster,
    ) -> Result<Self, MemberReadError> {
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let proxied = Self {
            client: control_plane.clone(),
            prefix: format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy"),
        };
        let Err(refusal) = proxied.version().await else {
            return Ok(proxied);
        };
        let direct = async {
            let client = member_client::connect(control_plane, cluster).await?;
            let direct = Self {
                client,
                prefix: String::new(),
            };
            direct.version().await.map(|()| direct)
        };
        // The proxy's refusal tells a user more than a Secret that may not be read.
        let direct = tokio::time::timeout(TIMEOUT, direct).await;
        direct.ok().and_then(Result::ok).ok_or(refusal)
    }

    async fn version(&self) -> Result<(), MemberReadError> {
        let request = http::Request::get(format!("{}/version", self.prefix));
        let request = request.body(Vec::new());
        let request = request.map_err(kube::core::request::Error::BuildRequest)?;
        let _: serde_json::Value = self.send(request).await?;
        Ok(())
    }

    /// Reads an object. `path` is the path of its resource, such as `/api/v1/namespaces/shop/pods`.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
    ) -> Result<T, MemberReadError> {
        let request = Request::new(format!("{}{path}", self.prefix));
        self.send(request.get(name, &GetParams::default())?).await
    }

    /// Lists objects. `path` is the path of their resource.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        parameters: &ListParams,
    ) -> Result<T, MemberReadError> {
        let request = Request::new(format!("{}{path}", self.prefix));
        self.send(request.list(parameters)?).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<T, MemberReadError> {
        let answer = tokio::time::timeout(TIMEOUT, self.client.request(request)).await;
        Ok(answer.map_err(|_| MemberReadError::Timeout)??)
    }
}
