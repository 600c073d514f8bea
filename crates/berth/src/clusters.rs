//! The members as a person manages them: listed, cordoned, tainted.

pub mod cordon;
pub mod list;
pub mod taint;
mod taints;

use std::time::Duration;

use berth_api::Cluster;
use berth_apimachinery::api_error::api_error_message;
use berth_scheduler::connect::ConnectError;
use k8s_openapi::api::core::v1::Taint;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// How often a change is tried again when somebody else writes at the same time.
const TRIES: usize = 5;
/// The pause before the next try.
const PAUSE: Duration = Duration::from_millis(50);

/// Why a command about members did not work out.
#[derive(Debug, thiserror::Error)]
pub enum ClustersError {
    /// The control plane cannot be addressed.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// There is no such member.
    #[error("there is no member named {0}")]
    Nobody(String),
    /// The control plane refuses.
    #[error("cannot {doing}: {}", api_error_message(.source))]
    Refused {
        /// What.
        doing: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The taints do not fit to what is there.
    #[error("{0}")]
    Taints(String),
    /// Nobody reads what is said.
    #[error("cannot write the answer: {0}")]
    Write(#[from] std::io::Error),
}

impl ClustersError {
    /// Whether the command line has to change.
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

/// One member.
async fn get(clusters: &Api<Cluster>, name: &str) -> Result<Cluster, ClustersError> {
    let found = clusters.get_opt(name).await;
    found
        .map_err(|error| ClustersError::refused(format!("read the member {name}"), error))?
        .ok_or_else(|| ClustersError::Nobody(name.to_owned()))
}

/// Changes the taints of a member, on the newest state of it. `change` says None where nothing is to be written.
async fn change_taints<T>(
    clusters: &Api<Cluster>,
    name: &str,
    dry_run: bool,
    change: impl Fn(&[Taint]) -> Result<(Option<Vec<Taint>>, T), ClustersError>,
) -> Result<T, ClustersError> {
    let mut left = TRIES;
    loop {
        let cluster = get(clusters, name).await?;
        let (taints, told) = change(&cluster.spec.taints)?;
        let Some(taints) = taints.filter(|_| !dry_run) else {
            return Ok(told);
        };
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": cluster.resource_version() },
            "spec": { "taints": if taints.is_empty() { None } else { Some(taints) } },
        }));
        let patched = clusters.patch(name, &PatchParams::default(), &patch).await;
        left -= 1;
        match patched {
            Ok(_) => return Ok(told),
            Err(kube::Error::Api(status)) if status.code == 409 && left > 0 => {
                tokio::time::sleep(PAUSE).await;
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
