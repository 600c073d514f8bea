//! Watch of one kind that sends every change to a channel.

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

/// Pause after the first failure of a watch; doubled after each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A watch event.
#[derive(Debug)]
pub(crate) enum WatchEvent<T> {
    /// A new list begins. Objects that it does not contain are gone at [`WatchEvent::ListCompleted`].
    ListStarted,
    /// An object exists in this state.
    Applied(Box<LazyObject<T>>),
    /// An object was deleted. Only its identity is known.
    Deleted(Box<ObjectMeta>),
    /// The list is complete.
    ListCompleted,
}

/// Watches until the token is cancelled or the receiver is dropped. A broken watch is restarted after a short
/// pause; a watch without events for longer than its timeout counts as broken. An expired resourceVersion leads
/// to a new list.
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
