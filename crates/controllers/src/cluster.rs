//! The life of a Cluster on the control plane: its execution namespace, the taints that say how it is, what is said of
//! it when its agent is silent, and that nothing is left of it when it goes.
//!
//! One task owns what it has heard of each Cluster and which of them are due; it looks at one at a time, and a look that
//! finds all as it should be writes nothing. Which taints a Cluster should have is decided in [`taints`], and when an
//! agent has been silent for too long, in [`heartbeat`].

pub mod heartbeat;
mod keeper;
pub mod taints;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use berth_api::Cluster;
use berth_events::EventRecorder;
use futures::TryStreamExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use heartbeat::HeartbeatOptions;
use heartbeat::{Heartbeats, Now, is_pulled};
use keeper::{Keeper, Outcome};

/// Who records events.
const COMPONENT: &str = "cluster-controller";
/// How soon something that failed, or is not finished, is looked at again.
const AGAIN: Duration = Duration::from_secs(1);

/// Looks after all Clusters until the token is cancelled.
pub async fn run(client: Client, options: HeartbeatOptions, shutdown: CancellationToken) {
    let (events, writer) = EventRecorder::new(client.clone(), COMPONENT);
    let telling = writer.run(shutdown.clone());
    let keeping = keep(client, events, options);
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = async { tokio::join!(telling, keeping); } => {}
    }
}

async fn keep(client: Client, events: EventRecorder, options: HeartbeatOptions) {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let stream = watcher(clusters, watcher::Config::default().any_semantic()).default_backoff();
    let mut stream = std::pin::pin!(stream);
    let keeper = Keeper::new(client, events);
    let mut known: HashMap<String, Cluster> = HashMap::new();
    let mut due = BTreeSet::new();
    let mut later = BTreeSet::new();
    let mut heartbeats = Heartbeats::new(options);
    // Intervals, because a sleep would begin anew with everything that happens.
    let mut again = tokio::time::interval(AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut monitor = tokio::time::interval(options.monitor_period);
    monitor.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
            _ = again.tick(), if !later.is_empty() => due.append(&mut later),
            _ = monitor.tick() => listen(&keeper, &known, &mut heartbeats).await,
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

/// Looks for clusters whose agents are silent.
async fn listen(keeper: &Keeper, known: &HashMap<String, Cluster>, heartbeats: &mut Heartbeats) {
    let pulled: Vec<&Cluster> = known
        .values()
        .filter(|cluster| is_pulled(cluster))
        .collect();
    let names: HashSet<&str> = pulled
        .iter()
        .filter_map(|cluster| cluster.metadata.name.as_deref())
        .collect();
    heartbeats.keep(&names);
    if pulled.is_empty() {
        return;
    }
    let renewals = match keeper.renewals().await {
        Ok(renewals) => renewals,
        Err(error) => {
            // Nobody is called silent because it is we who hear nothing.
            tracing::warn!(%error, "cannot read the leases of clusters; trying again");
            return;
        }
    };
    let now = Now {
        instant: tokio::time::Instant::now(),
        clock: jiff::Timestamp::now(),
    };
    for cluster in pulled {
        let renewed = renewals.get(&cluster.name_any()).copied();
        let Some(condition) = heartbeats.look(cluster, renewed, now) else {
            continue;
        };
        if let Err(error) = keeper.doubt(cluster, condition).await {
            let name = cluster.name_any();
            tracing::warn!(cluster = name, %error, "cannot say that a cluster is silent; trying again");
        }
    }
}
