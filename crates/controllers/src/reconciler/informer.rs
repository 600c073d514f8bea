//! Informers. An informer watches the objects of one resource and sends its events through a bounded channel.

use berth_component_base::list_watch::{self, Config, Error, Listing, ObjectEvent};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{Api, DynamicObject};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::lean_object::LeanObject;

/// An event of a watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchEvent {
    /// An object was created or changed, or a list contains it.
    Applied(Box<DynamicObject>),
    /// An object was deleted.
    Deleted(Box<DynamicObject>),
    /// A list is complete. Each listed object was sent as [`Self::Applied`] before, and an unlisted object does not
    /// exist.
    Listed(Listing),
    /// The server does not serve the resource. Each failed attempt sends this event.
    Unserved,
}

/// Watches objects until the token is cancelled, and sends each event as a message. A slow receiver slows down the watch,
/// and no event is lost. Returns an error if the objects exceed the limits of the server. Other errors are retried.
pub(crate) async fn inform<M: Send>(
    api: Api<LeanObject>,
    config: Config,
    message: impl Fn(WatchEvent) -> M + Send,
    sender: mpsc::Sender<M>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let watching = async {
        let mut informer = Informer::new(api, config);
        while let Some(event) = informer.next().await? {
            if sender.send(message(event)).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        ended = watching => ended,
    }
}

/// The watch of one resource. The type is not generic, so that it compiles once for all controllers.
struct Informer {
    events: BoxStream<'static, Result<ObjectEvent<LeanObject>, Error>>,
}

impl Informer {
    fn new(api: Api<LeanObject>, config: Config) -> Self {
        Self {
            events: list_watch::objects(api, config),
        }
    }

    /// Returns the next event, or `None` when the watch has ended.
    async fn next(&mut self) -> Result<Option<WatchEvent>, Error> {
        loop {
            return Ok(match self.events.next().await {
                None => None,
                Some(Ok(ObjectEvent::Applied(LeanObject(object)))) => {
                    Some(WatchEvent::Applied(Box::new(object)))
                }
                Some(Ok(ObjectEvent::Deleted(LeanObject(object)))) => {
                    Some(WatchEvent::Deleted(Box::new(object)))
                }
                Some(Ok(ObjectEvent::Listed(listing))) => Some(WatchEvent::Listed(listing)),
                Some(Err(error @ Error::Limit(_))) => return Err(error),
                Some(Err(error)) if error.is_unserved() => Some(WatchEvent::Unserved),
                Some(Err(_)) => continue,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::ResourceExt as _;
    use kube::client::Body;
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::{Value, json};

    use super::*;

    fn config_map(name: &str) -> Value {
        json!({ "metadata": { "name": name, "namespace": "n", "resourceVersion": "1" } })
    }

    /// Returns a client of a server that sends these responses, and never responds to further requests.
    fn server(responses: Vec<String>) -> Client {
        let responses = Arc::new(Mutex::new(responses.into_iter()));
        let service = tower::service_fn(move |_: Request<Body>| {
            let response = responses.lock().unwrap().next();
            async move {
                match response {
                    Some(text) => {
                        Ok::<_, std::io::Error>(Response::new(Body::from(text.into_bytes())))
                    }
                    None => std::future::pending().await,
                }
            }
        });
        Client::new(service, "n")
    }

    fn list(names: &[&str]) -> String {
        let items: Vec<Value> = names.iter().map(|name| config_map(name)).collect();
        json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "1" }, "items": items })
            .to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn the_list_after_a_gap_names_the_remaining_objects() {
        let event =
            |kind: &str, object: Value| format!("{}\n", json!({ "type": kind, "object": object }));
        let gone = json!({ "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "" });
        let client = server(vec![
            list(&["a", "b"]),
            event("ADDED", config_map("c")) + &event("ERROR", gone),
            list(&["b"]),
        ]);
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let api = Api::namespaced_with(client, "n", &kind);
        let (sender, mut events) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let informer = tokio::spawn(inform(
            api,
            Config::default(),
            |event| event,
            sender,
            shutdown.clone(),
        ));
        let mut seen = Vec::new();
        let mut listings = 0;
        while listings < 2 {
            match events.recv().await.unwrap() {
                WatchEvent::Applied(object) => seen.push(object.name_any()),
                WatchEvent::Deleted(object) => panic!("{} was not deleted", object.name_any()),
                WatchEvent::Listed(listing) => {
                    listings += 1;
                    let names = ["a", "b", "c"].into_iter();
                    let listed: String = names.filter(|name| listing.contains("n", name)).collect();
                    assert!(!listing.contains("other", "b"));
                    seen.push(format!("all: {listed}"));
                }
                WatchEvent::Unserved => panic!("config maps are served"),
            }
        }
        assert_eq!(seen, ["a", "b", "all: ab", "c", "b", "all: b"]);
        shutdown.cancel();
        informer.await.unwrap().unwrap();
    }
}
