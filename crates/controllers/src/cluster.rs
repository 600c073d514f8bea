//! The life of a Cluster on the control plane: its execution namespace, the taints that say how it is, and that nothing
//! is left of it when it goes.
//!
//! One task owns what it has heard of each Cluster and which of them are due; it looks at one at a time, and a look that
//! finds all as it should be writes nothing. Which taints a Cluster should have is decided in [`taints`].

mod keeper;
pub mod taints;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use berth_api::Cluster;
use futures::TryStreamExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tokio_util::sync::CancellationToken;

use crate::events::EventRecorder;
use keeper::{Keeper, Outcome};

/// Who records events.
const COMPONENT: &str = "cluster-controller";
/// How soon something that failed, or is not finished, is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Looks after all Clusters until the token is cancelled.
pub async fn run(client: Client, shutdown: CancellationToken) {
    let (events, writer) = EventRecorder::new(client.clone(), COMPONENT);
    let telling = writer.run(shutdown.clone());
    let keeping = keep(client, events);
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = async { tokio::join!(telling, keeping); } => {}
    }
}

async fn keep(client: Client, events: EventRecorder) {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let stream = watcher(clusters, watcher::Config::default().any_semantic()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let keeper = Keeper::new(client, events);
    let mut known: HashMap<String, Cluster> = HashMap::new();
    let mut due = BTreeSet::new();
    let mut later = BTreeSet::new();
    loop {
        tokio::select! {
            event = stream.try_next() => match event {
                Ok(Some(watcher::Event::Init)) => known.clear(),
                Ok(Some(watcher::Event::InitApply(cluster) | watcher::Event::Apply(cluster))) => {
                    due.insert(cluster.name_any());
                    known.insert(cluster.name_any(), cluster);
                }
                Ok(Some(watcher::Event::Delete(cluster))) => {
                    known.remove(&cluster.name_any());
                }
                Ok(Some(watcher::Event::InitDone)) => {}
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, "the watch of clusters broke; trying again"),
            },
            () = tokio::time::sleep(AGAIN), if !later.is_empty() => due.append(&mut later),
        }
        while let Some(name) = due.pop_first() {
            let Some(cluster) = known.get(&name) else {
                continue;
            };
            match keeper.look(cluster).await {
                Ok(Outcome::Done) => {}
                Ok(Outcome::Unfinished) => {
                    later.insert(name);
                }
                Err(error) => {
                    tracing::warn!(cluster = name, %error, "cannot look after a cluster; trying again");
                    later.insert(name);
                }
            }
        }
    }
}
