//! Watches the objects of one kind, for as long as it is asked to.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What was observed.
#[derive(Clone, Debug)]
pub(crate) enum Observation {
    /// An object is there: new, changed, or listed anew.
    Applied(Box<DynamicObject>),
    /// An object is gone.
    Deleted(Box<DynamicObject>),
    /// All objects were listed, each of them applied before this: what is not among them is gone.
    Listed(Listing),
    /// The server does not serve the kind, or not any more. Said again each time it is asked and answers so.
    Unserved,
}

/// The names of the objects that were listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// By namespace, empty for cluster-scoped objects.
    names: HashMap<String, HashSet<String>>,
}

impl Listing {
    /// Whether an object was listed.
    pub(crate) fn contains(&self, namespace: &str, name: &str) -> bool {
        let names = self.names.get(namespace);
        names.is_some_and(|names| names.contains(name))
    }

    fn add(&mut self, object: &DynamicObject) {
        let namespace = object.namespace().unwrap_or_default();
        let names = self.names.entry(namespace).or_default();
        names.insert(object.name_any());
    }
}

#[cfg(test)]
impl<'a> FromIterator<&'a DynamicObject> for Listing {
    fn from_iter<I: IntoIterator<Item = &'a DynamicObject>>(objects: I) -> Self {
        let mut listing = Self::default();
        objects.into_iter().for_each(|object| listing.add(object));
        listing
    }
}

/// How a watch goes on after the server could not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterOutage {
    /// At the version that was seen last.
    Resume,
    /// With a list: the server may have been replaced by one with other objects and lower versions.
    List,
}

/// Watches objects of a member, as [`inform`] does, and lists them after each outage. A member may come back emptied,
/// or from a backup, at the same address: watched from the last version, it would report nothing.
pub(crate) async fn inform_of_member<M: Send>(
    api: Api<DynamicObject>,
    config: watcher::Config,
    message: impl Fn(Observation) -> M + Send,
    sender: mpsc::Sender<M>,
    shutdown: CancellationToken,
) {
    watch(api, config, AfterOutage::List, message, sender, shutdown).await;
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
    watch(api, config, AfterOutage::Resume, message, sender, shutdown).await;
}

async fn watch<M: Send>(
    api: Api<DynamicObject>,
    config: watcher::Config,
    after_outage: AfterOutage,
    message: impl Fn(Observation) -> M + Send,
    sender: mpsc::Sender<M>,
    shutdown: CancellationToken,
) {
    let watching = async {
        let url = api.resource_url().to_owned();
        let start = || watcher(api.clone(), config.clone().any_semantic()).default_backoff();
        let mut stream = std::pin::pin!(start());
        let mut listing = Listing::default();
        loop {
            let event = match stream.try_next().await {
                Ok(Some(event)) => Some(event),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(url, %error, "watch failed, trying again");
                    if after_outage == AfterOutage::List && is_outage(&error) {
                        stream.set(start());
                    }
                    if !says_unserved(&error) {
                        continue;
                    }
                    None
                }
            };
            let observation = match event {
                Some(watcher::Event::Init) => {
                    listing = Listing::default();
                    continue;
                }
                Some(watcher::Event::InitApply(object)) => {
                    listing.add(&object);
                    Observation::Applied(lean(object))
                }
                Some(watcher::Event::InitDone) => Observation::Listed(std::mem::take(&mut listing)),
                Some(watcher::Event::Apply(object)) => Observation::Applied(lean(object)),
                Some(watcher::Event::Delete(object)) => Observation::Deleted(lean(object)),
                None => Observation::Unserved,
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

/// Whether the server answered that it has nothing to list or to watch.
fn says_unserved(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// Whether a watch broke, or could not go on, without an answer of the server. A list that fails is tried again anyway.
fn is_outage(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            !matches!(error, kube::Error::Api(_))
        }
        _ => false,
    }
}

/// Managed fields are most of an object's memory, and nobody here reads them.
fn lean(mut object: DynamicObject) -> Box<DynamicObject> {
    object.metadata.managed_fields = None;
    Box::new(object)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::{Value, json};

    use super::*;

    fn config_map(name: &str) -> Value {
        json!({ "metadata": { "name": name, "namespace": "n", "resourceVersion": "1" } })
    }

    /// A server that gives these answers, and none to those who ask on.
    fn server(answers: Vec<String>) -> Client {
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        let service = tower::service_fn(move |_: Request<Body>| {
            let answer = answers.lock().unwrap().next();
            async move {
                match answer {
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
    async fn after_a_gap_the_new_list_says_what_is_gone() {
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
        let (sender, mut seen) = mpsc::channel(16);
        let shutdown = CancellationToken::new();
        let config = watcher::Config::default();
        let informer = tokio::spawn(inform(api, config, |seen| seen, sender, shutdown.clone()));
        let mut story = Vec::new();
        let mut listings = 0;
        while listings < 2 {
            match seen.recv().await.unwrap() {
                Observation::Applied(object) => story.push(object.name_any()),
                Observation::Deleted(object) => panic!("{} was not deleted", object.name_any()),
                Observation::Listed(listing) => {
                    listings += 1;
                    let names = ["a", "b", "c"].into_iter();
                    let listed: String = names.filter(|name| listing.contains("n", name)).collect();
                    assert!(!listing.contains("other", "b"));
                    story.push(format!("all: {listed}"));
                }
                Observation::Unserved => panic!("config maps are served"),
            }
        }
        assert_eq!(story, ["a", "b", "all: ab", "c", "b", "all: b"]);
        shutdown.cancel();
        informer.await.unwrap();
    }
}
