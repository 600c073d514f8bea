//! Watches one kind and hands every change to the owner of the state.

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

use crate::guard::Guarded;

/// The first pause after a watch broke; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What a watch saw.
#[derive(Debug)]
pub enum Seen<T> {
    /// A new list begins: what it does not name until [`Seen::ListEnds`] is gone.
    ListBegins,
    /// An object is there, in this state.
    Present(Box<Guarded<T>>),
    /// An object is gone; only what names it is said.
    Gone(Box<ObjectMeta>),
    /// The list is complete.
    ListEnds,
}

/// Watches until the token is cancelled or the owner is gone. A broken watch is begun again after a short
/// pause, and one that is silent for longer than it may last counts as broken; a version that the server no
/// longer has leads to a new list.
pub async fn run<K, M>(
    api: Api<Guarded<K>>,
    sender: mpsc::Sender<M>,
    wrap: fn(Seen<K>) -> M,
    lasts: Duration,
    cancel: CancellationToken,
) where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + 'static,
    M: Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    let seconds = u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX);
    let config = watcher::Config::default().any_semantic().timeout(seconds);
    let mut stream = watcher(api, config).boxed();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.next() => event,
        };
        let seen = match event {
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
                    watcher::Event::Init => Seen::ListBegins,
                    watcher::Event::InitDone => Seen::ListEnds,
                    watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                        Seen::Present(Box::new(object))
                    }
                    watcher::Event::Delete(object) => {
                        Seen::Gone(Box::new(object.metadata().clone()))
                    }
                }
            }
        };
        if sender.send(wrap(seen)).await.is_err() {
            return;
        }
    }
}
