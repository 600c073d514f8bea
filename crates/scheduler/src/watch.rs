//! A watch of the objects of one kind, which sends every event to a channel.

pub(crate) mod list_progress;

use std::fmt::Debug;
use std::time::Duration;

use berth_apimachinery::api_error::has_code;
use berth_component_base::list_watch::{self, Config, Listing, ObjectEvent, Start};
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::lazy_object::LazyObject;

/// Maximum pause after a failure. A scheduler that waits longer would take over late after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Interval between requests whether a kind is served.
const UNSERVED_PAUSE: Duration = Duration::from_secs(30);

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

/// Watches the objects of a kind like [`run`], as soon as the API server serves this kind. Until then, the list of objects
/// is empty.
pub(crate) async fn run_when_served<K, M>(
    api: Api<LazyObject<K>>,
    sender: mpsc::Sender<M>,
    wrap: fn(WatchEvent<K>) -> M,
    timeout: Duration,
    cancel: CancellationToken,
) where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
    M: Send + 'static,
{
    let mut is_known = false;
    while is_unserved(&api).await {
        if !is_known {
            is_known = true;
            let kind = K::kind(&());
            tracing::info!(%kind, "the API server does not serve this kind; it is watched when it is served");
            let empty = WatchEvent::Listed(Listing::default());
            if sender.send(wrap(empty)).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(UNSERVED_PAUSE) => {}
        }
    }
    run(api, sender, wrap, timeout, cancel).await;
}

/// Reports whether the API server answers that it does not serve a kind. The watch handles other errors.
async fn is_unserved<K>(api: &Api<LazyObject<K>>) -> bool
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    let first = ListParams::default().limit(1);
    match api.list_metadata(&first).await {
        Err(error) => has_code(&error, 404),
        Ok(_) => false,
    }
}
