//! Watches the objects of one kind, for as long as it is asked to.

use futures::TryStreamExt;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::observation::{Message, Observation, Source};

/// Watches all objects of a kind and sends what it sees. Errors of the server are waited out; a slow
/// receiver slows the watch down, and nothing is lost.
pub(super) async fn inform(
    client: kube::Client,
    resource: ApiResource,
    source: Source,
    sender: mpsc::Sender<Message>,
    shutdown: CancellationToken,
) {
    let watching = async {
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        let stream = watcher(api, watcher::Config::default().any_semantic()).default_backoff();
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = match stream.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(kind = resource.kind, %error, "watch failed, trying again");
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
            let message = Message::Observed(source.clone(), observation);
            if sender.send(message).await.is_err() {
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
