//! The inputs of the controllers: watches, and the interval of the recalculations.

use std::time::Duration;

use berth_api::well_known::{QUOTA_NAME, QUOTA_NAMESPACE};
use berth_api::{Cluster, FederatedResourceQuota, ResourceBinding, Work};
use kube::core::ApiResource;
use tokio_util::sync::CancellationToken;

use crate::reconciler::Inputs;
use crate::reconciler::informer::WatchEvent;

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    Quotas,
    Clusters,
    /// The Works of quotas.
    Works,
    /// The bindings, whose deletions free their usage. They are watched while there are quotas.
    Bindings,
}

/// A message for the controllers.
pub(super) enum Input {
    Watch(Source, WatchEvent),
    /// All quotas are due for a recalculation.
    Period,
}

impl Source {
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::Quotas => ApiResource::erase::<FederatedResourceQuota>(&()),
            Self::Clusters => ApiResource::erase::<Cluster>(&()),
            Self::Works => ApiResource::erase::<Work>(&()),
            Self::Bindings => ApiResource::erase::<ResourceBinding>(&()),
        }
    }
}

/// Starts the watch of a source. Returns the token that stops it.
pub(super) fn watch(inputs: &mut Inputs<Input>, source: Source) -> CancellationToken {
    let labels = (source == Source::Works).then(|| format!("{QUOTA_NAMESPACE},{QUOTA_NAME}"));
    inputs.watch_labelled(&source.resource(), labels, move |event| {
        Input::Watch(source, event)
    })
}

/// Sends [`Input::Period`] after each interval.
pub(super) fn repeat(inputs: &mut Inputs<Input>, interval: Duration) {
    inputs.spawn(move |sender, stop| async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            if sender.send(Input::Period).await.is_err() {
                return;
            }
        }
    });
}
