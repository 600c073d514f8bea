//! Watches the objects of one kind, for as long as it is asked to.

use futures::TryStreamExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What was observed.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// All objects are about to be listed.
    ListStarted,
    /// One of them.
    Listed(Box<DynamicObject>),
    /// That was all: what was not listed is gone.
    ListDone,
    /// An object is new or changed.
    Applied(Box<DynamicObject>),
    /// An object is gone.
    Deleted(Box<DynamicObject>),
}

/// Watches objects and sends what it sees, made into messages. Errors of the server are waited out; a slow
/// receiver slows the watch down, and nothing is lost.
pub(crate) async fn inform<M: Send>(
    api: Api<DynamicObject>,
    config: watcher::Config,
    message: impl Fn(Observation) -> M + Send,
    sender: mpsc::Sender<M>,
    shutdown: CancellationToken,
) {
    let watching = async {
        let url = api.resource_url().to_owned();
        let stream = watcher(api, config.any_semantic()).default_backoff();
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = match stream.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(url, %error, "watch failed, trying again");
                    continue;
                }
            };
            let observation = match event {
                watcher::Event::Init => Observation::ListStarted,
                watcher::Event::InitApply(object) => Observation::Listed(lean(object)),
                watcher::Event::InitDone => Observation::ListDone,
                watcher::Event::Apply(object) => Observation::Applied(lean(object)),
                watcher::Event::Delete(object) => Observation::Deleted(lean(object)),
            };
            if sender.send(message(observation)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = watching => {}
    }
}

/// Managed fields are most of an object's memory, and nobody here reads them.
fn lean(mut object: DynamicObject) -> Box<DynamicObject> {
    object.metadata.managed_fields = None;
    Box::new(object)
}
