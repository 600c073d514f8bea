//! A watch of the objects of one kind, which sends every event to a channel.

pub(crate) mod list_progress;

use std::fmt::Debug;
use std::time::Duration;

use berth_apimachinery::api_error::is_unreachable;
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::runtime::watcher::{self, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::lazy_object::LazyObject;

/// Pause after the first failure of a watch. Each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A watch event.
#[derive(Debug)]
pub(crate) enum WatchEvent<T> {
    /// A new list begins. An object that the complete list does not contain has been deleted.
    ListStarted,
    /// An object in its current state: listed, added or changed.
    Applied(Box<LazyObject<T>>),
    /// The metadata of a deleted object.
    Deleted(Box<ObjectMeta>),
    /// The new list is complete.
    ListCompleted,
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
    let mut pause = FIRST_PAUSE;
    let seconds = u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX);
    let config = watcher::Config::default().any_semantic().timeout(seconds);
    let mut stream = watcher(api, config).boxed();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.next() => event,
        };
        let event = match event {
            None => return,
            Some(Err(error)) => {
                let kind = K::kind(&());
                if is_unreachable(&error) {
                    tracing::debug!(%kind, %error, "the watch broke; trying again");
                } else {
                    tracing::warn!(%kind, %error, "the watch broke; trying again");
                }
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
            Some(Ok(event)) => {
                pause = FIRST_PAUSE;
                match event {
                    watcher::Event::Init => WatchEvent::ListStarted,
                    watcher::Event::InitDone => WatchEvent::ListCompleted,
                    watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                        WatchEvent::Applied(Box::new(object))
                    }
                    watcher::Event::Delete(object) => {
                        WatchEvent::Deleted(Box::new(object.metadata().clone()))
                    }
                }
            }
        };
        if sender.send(wrap(event)).await.is_err() {
            return;
        }
    }
}
