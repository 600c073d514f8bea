//! The commands `berth get clusters`, `berth cordon`, `berth uncordon` and `berth taint`, which manage registered
//! members. The module `join` registers members.

pub mod cordon;
pub mod list;
pub mod taint;
mod taint_change;

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_apimachinery::conflict_retry::CONFLICT_ATTEMPTS;
use berth_component_base::kube_client::ConnectError;
use k8s_openapi::api::core::v1::Taint;
use kube::api::{Api, ApiResource, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::control_plane::ControlPlaneArgs;

/// Pause between two attempts.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// An error of a command that manages members.
#[derive(Debug, thiserror::Error)]
pub enum ClustersError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The control plane has no member with this name.
    #[error("there is no member named {0}")]
    NotFound(String),
    /// A request to the control plane failed.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// The attempted action, such as `list the members`.
        doing: String,
        /// The error of the request.
        source: Box<kube::Error>,
    },
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The changes do not fit the existing taints.
    #[error("{0}")]
    Taints(String),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[from] std::io::Error),
}

impl ClustersError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    fn refused(doing: impl Into<String>, source: kube::Error) -> Self {
        Self::Refused {
            doing: doing.into(),
            source: Box::new(source),
        }
    }
}

/// Creates a client for a control plane that serves Clusters.
async fn client(control_plane: &ControlPlaneArgs) -> Result<Client, ConnectError> {
    let resources = [ApiResource::erase::<Cluster>(&())];
    control_plane.client(&resources).await
}

/// Reads the Cluster of a member.
async fn get(clusters: &Api<Cluster>, name: &str) -> Result<Cluster, ClustersError> {
    let found = clusters.get_opt(name).await;
    found
        .map_err(|error| ClustersError::refused(format!("read the member {name}"), error))?
        .ok_or_else(|| ClustersError::NotFound(name.to_owned()))
}

/// Changes the taints of a member. After a conflict, reads the Cluster and calls `change` again.
///
/// `change` receives the existing taints. It returns the new taints (`None` if the taints stay the same) and a result
/// for the caller. With `dry_run`, nothing is written.
async fn change_taints<T>(
    clusters: &Api<Cluster>,
    name: &str,
    dry_run: bool,
    change: impl Fn(&[Taint]) -> Result<(Option<Vec<Taint>>, T), ClustersError>,
) -> Result<T, ClustersError> {
    let mut attempts = CONFLICT_ATTEMPTS;
    loop {
        let cluster = get(clusters, name).await?;
        let (taints, result) = change(&cluster.spec.taints)?;
        let Some(taints) = taints.filter(|_| !dry_run) else {
            return Ok(result);
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": cluster.resource_version() },
            "spec": { "taints": if taints.is_empty() { None } else { Some(taints) } },
        }));
        let patched = clusters.patch(name, &PatchParams::default(), &patch).await;
        attempts -= 1;
        match patched {
            Ok(_) => return Ok(result),
            Err(kube::Error::Api(status)) if status.code == 409 && attempts > 0 => {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            Err(error) => {
                return Err(ClustersError::refused(
                    format!("change the member {name}"),
                    error,
                ));
            }
        }
    }
}
