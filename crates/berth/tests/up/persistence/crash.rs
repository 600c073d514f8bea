//! Tests that kill `berth up` during thousands of writes and start it again. Acknowledged writes must still exist, and
//! a resumed watch must report every change once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::api::{WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{Installation, TIMEOUT};

/// Number of writes after which the writers stop. The test kills the server earlier.
const WRITES: usize = 10_000;
/// Number of concurrent writers.
const WRITERS: usize = 8;
/// Number of object names for each writer.
const NAMES: u64 = 150;

/// A generator of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Version and content of an object. `None` if the object does not exist.
type State = Option<(u64, String)>;

/// A write that the server has not acknowledged. The server may have stored it or not.
#[derive(Debug)]
enum Attempt {
    Content(String),
    Deletion,
}

impl Attempt {
    /// Returns the content of the object if the server has stored the write. Returns `None` for a deletion.
    fn content(&self) -> Option<&str> {
        match self {
            Self::Content(content) => Some(content),
            Self::Deletion => None,
        }
    }
}

/// The responses that a writer received for one object.
#[derive(Default)]
struct Record {
    /// State of the object after the last acknowledged write.
    state: State,
    /// The write that has no response yet.
    attempted: Option<Attempt>,
    /// Versions of acknowledged creations and changes.
    versions: Vec<u64>,
    /// Number of acknowledged deletions.
    deletions: usize,
}

/// The events that a watch received.
#[derive(Default)]
struct Observed {
    /// State of each object in its last event.
    states: BTreeMap<String, State>,
    /// Versions of the changes, in order of arrival.
    versions: Vec<u64>,
    /// Number of deletions of each object.
    deletions: BTreeMap<String, usize>,
}

impl Observed {
    fn add(&mut self, map: &ConfigMap, exists: bool) {
        let name = map.name_any();
        self.versions.push(version(map));
        if !exists {
            *self.deletions.entry(name.clone()).or_default() += 1;
        }
        let state = if exists { state(map) } else { None };
        self.states.insert(name, state);
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the state of an existing object")]
fn state(map: &ConfigMap) -> State {
    let content = map.data.clone().unwrap_or_default().remove("content");
    Some((version(map), content.unwrap_or_default()))
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// Creates, changes and deletes the objects of one writer until the server does not respond. Returns the responses for
/// each object.
async fn write(
    client: Client,
    writer: usize,
    seed: u64,
    done: Arc<AtomicUsize>,
) -> BTreeMap<String, Record> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut numbers = Numbers(seed * 1000 + u64::try_from(writer).unwrap());
    let mut records: BTreeMap<String, Record> = BTreeMap::new();
    while done.load(Ordering::Relaxed) < WRITES {
        let name = format!("w{writer}-{}", numbers.below(NAMES));
        let length = usize::try_from(numbers.below(4000)).unwrap();
        let content = format!("{}-{}", numbers.below(1 << 30), "x".repeat(length));
        let entry = records.entry(name.clone()).or_default();
        let outcome = if entry.state.is_none() {
            entry.attempted = Some(Attempt::Content(content.clone()));
            let object = json!({"metadata": {"name": name}, "data": {"content": content}});
            let object = serde_json::from_value(object).unwrap();
            let created = maps.create(&PostParams::default(), &object).await;
            created.map(|map| state(&map))
        } else if numbers.below(5) == 0 {
            entry.attempted = Some(Attempt::Deletion);
            let deleted = maps.delete(&name, &DeleteParams::default()).await;
            deleted.map(|_| None)
        } else {
            entry.attempted = Some(Attempt::Content(content.clone()));
            let change = Patch::Merge(json!({"data": {"content": content}}));
            let changed = maps.patch(&name, &PatchParams::default(), &change).await;
            changed.map(|map| state(&map))
        };
        match outcome {
            Ok(state) => {
                match &state {
                    Some((version, _)) => entry.versions.push(*version),
                    None => entry.deletions += 1,
                }
                (entry.state, entry.attempted) = (state, None);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(kube::Error::Api(status)) => panic!("{name}: {status:?}"),
            // The server does not respond, because the test has killed it.
            Err(_) => break,
        }
    }
    records
}

/// Watches after the version `from`, and records the events until the watch ends. Returns the version of the last event
/// and the reason for the end.
async fn follow(client: Client, mut from: String, observed: &mut Observed) -> (String, Ended) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let Ok(stream) = maps.watch(&WatchParams::default().timeout(5), &from).await else {
        return (from, Ended::Aborted);
    };
    let mut stream = stream.boxed();
    loop {
        match stream.try_next().await {
            Ok(Some(WatchEvent::Added(map) | WatchEvent::Modified(map))) => {
                from = map.resource_version().unwrap();
                observed.add(&map, true);
            }
            Ok(Some(WatchEvent::Deleted(map))) => {
                from = map.resource_version().unwrap();
                observed.add(&map, false);
            }
            Ok(Some(WatchEvent::Bookmark(mark))) => from = mark.metadata.resource_version,
            Ok(Some(WatchEvent::Error(status))) => panic!("{status:?}"),
            Ok(None) => return (from, Ended::Closed),
            Err(_) => return (from, Ended::Aborted),
        }
    }
}

/// Reason for the end of a watch.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The server closed the watch after the timeout of the request.
    Closed,
    /// The connection failed.
    Aborted,
}

async fn list_states(client: &Client) -> (u64, BTreeMap<String, State>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap().parse().unwrap();
    let states = list.items.iter().map(|map| (map.name_any(), state(map)));
    let ours = states.filter(|(name, _)| name.starts_with('w'));
    (version, ours.collect())
}

/// Kills `berth up` during the writes, starts it again, and compares the stored objects with the responses and events.
#[expect(clippy::too_many_lines, reason = "one scenario")]
async fn kill_during_writes(seed: u64, flags: &[&str]) {
    let installation = Installation::new(flags);
    let mut up = installation.start();
    let client = installation.client().await;
    let kubeconfig = std::fs::read_to_string(up.kubeconfig()).unwrap();
    let (start, _) = list_states(&client).await;
    let watching = tokio::spawn({
        let client = client.clone();
        async move {
            let mut observed = Observed::default();
            let mut from = start.to_string();
            loop {
                let (upto, ended) = follow(client.clone(), from, &mut observed).await;
                from = upto;
                if ended != Ended::Closed {
                    return (from, observed);
                }
            }
        }
    });
    let done = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        // Each writer has its own connection.
        let client = installation.client().await;
        writers.push(tokio::spawn(write(client, writer, seed, done.clone())));
    }
    let enough = 1500 + usize::try_from(Numbers(seed).below(2500)).unwrap();
    let waiting = async {
        while done.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap();
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let mut records = BTreeMap::new();
    for writer in writers {
        records.extend(writer.await.unwrap());
    }
    let (from, mut observed) = watching.await.unwrap();
    assert!(
        done.load(Ordering::Relaxed) < WRITES,
        "all writes ended before the kill"
    );

    let again = installation.start();
    assert_eq!(
        std::fs::read_to_string(again.kubeconfig()).unwrap(),
        kubeconfig,
        "the kubeconfig has changed"
    );
    let (version_now, now) = list_states(&client).await;
    let mut unanswered = 0;
    for (name, record) in &records {
        let found = now.get(name).cloned().flatten();
        let content = found.as_ref().map(|(_, content)| content.clone());
        let attempted = record
            .attempted
            .as_ref()
            .is_some_and(|a| a.content() == content.as_deref());
        unanswered += usize::from(record.attempted.is_some());
        assert!(
            found == record.state || attempted,
            "{name}: acknowledged {:?}, unanswered {:?}, found {found:?}",
            record.state,
            record.attempted
        );
    }
    assert!(
        now.keys().all(|name| records.contains_key(name)),
        "objects exist that no writer has created"
    );
    assert!(unanswered <= WRITERS);
    // No object has an older state than in the last event that the watch received.
    for (name, observed) in &observed.states {
        let found = now.get(name).cloned().flatten();
        match (observed, &found) {
            (Some((observed, _)), Some((version, _))) => assert!(version >= observed, "{name}"),
            (Some(_), None) => {
                let record = &records[name];
                assert!(
                    record.state.is_none() || matches!(record.attempted, Some(Attempt::Deletion)),
                    "{name}"
                );
            }
            (None, Some((version, _))) => assert!(*version > start, "{name}"),
            (None, None) => {}
        }
    }
    let highest = records
        .values()
        .filter_map(|k| k.state.as_ref())
        .map(|(v, _)| *v);
    let highest = highest.max().unwrap();
    assert!(version_now >= highest, "{version_now} < {highest}");

    // New versions are higher than all old versions, and the resumed watch reports every change once.
    let object = serde_json::from_value(json!({"metadata": {"name": "w-new"}})).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let new = maps.create(&PostParams::default(), &object).await.unwrap();
    assert!(version(&new) > version_now);
    let (_, ended) = follow(client.clone(), from, &mut observed).await;
    assert_eq!(ended, Ended::Closed);
    assert!(
        observed.versions.is_sorted_by(|a, b| a < b),
        "events are out of order or repeated"
    );
    for (name, record) in &records {
        let missed = record
            .versions
            .iter()
            .find(|version| observed.versions.binary_search(version).is_err());
        assert_eq!(missed, None, "{name}");
        let gone = observed.deletions.get(name).copied().unwrap_or_default();
        let unanswered_deletion = usize::from(matches!(record.attempted, Some(Attempt::Deletion)));
        assert!(
            (record.deletions..=record.deletions + unanswered_deletion).contains(&gone),
            "{name} was deleted {} times, and the watch reports {gone}",
            record.deletions
        );
    }
    observed.states.retain(|_, state| state.is_some());
    assert_eq!(observed.states, list_states(&client).await.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_kill() {
    for seed in [1, 2] {
        kill_during_writes(seed, &["--members=0"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_kill_with_fsync() {
    kill_during_writes(3, &["--members=0", "--fsync"]).await;
}
