//! A watch of the objects of one kind, which sends every event to a channel.

pub(crate) mod list_progress;

use std::fmt::Debug;
use std::time::Duration;

use berth_component_base::list_watch::{self, Config, Listing, ObjectEvent, Start};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::lazy_object::LazyObject;

/// Maximum pause after a failure. A scheduler that waits longer would take over late after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A watch event.
#[derive(Debug)]
pub(crate) enum WatchEvent<T> {
    /// An object in its current state: listed, added or changed.
    Applied(Box<LazyObject<T>>),
    /// The metadata of a deleted object.
    Deleted(Box<ObjectMeta>),
    /// A list is complete. An object that it does not contain has been deleted.
    Listed(Listing),
}

/// Watches the objects of `api` until the token is cancelled or the receiver is dropped. Restarts a broken watch after
/// a short pause. The API server ends each watch request after `timeout`, and the next request continues the watch. An
/// expired resourceVersion leads to a new list.
pub(crate) async fn run<K, M>(
    api: Api<LazyObject<K>>,
    sender: mpsc::Sender<M>,
    wrap: fn(WatchEvent<K>) -> M,
    timeout: Duration,
    cancel: CancellationToken,
) where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
    M: Send + 'static,
{
    let config = Config {
        start: Start::Stream,
        watch: timeout,
        longest_pause: LONGEST_PAUSE,
        ..Config::default()
    };
    let mut events = list_watch::objects(api, config);
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = events.next() => event,
        };
        let event = match event {
            None => return,
            Some(Err(_)) => continue,
            Some(Ok(event)) => match event {
                ObjectEvent::Applied(object) => WatchEvent::Applied(Box::new(object)),
                ObjectEvent::Deleted(object) => {
                    WatchEvent::Deleted(Box::new(object.metadata().clone()))
                }
                ObjectEvent::Listed(listing) => WatchEvent::Listed(listing),
            },
        };
        if sender.send(wrap(event)).await.is_err() {
            return;
        }
    }
}
