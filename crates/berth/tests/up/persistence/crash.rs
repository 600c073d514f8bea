//! Killed in the middle of thousands of writes: what was acknowledged is there, what a watch was told is true, and
//! everything goes on from there, the watch too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::api::{WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::{PATIENCE, Place};

/// So many writes would be made.
const WRITES: usize = 10_000;
const WRITERS: usize = 8;
const NAMES: u64 = 150;

/// Numbers that look random, the same for the same seed.
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

/// The state of an object: its version and its content, or that it is not there.
type State = Option<(u64, String)>;

/// What a write would make of an object.
#[derive(Debug)]
enum Attempt {
    Content(String),
    Deletion,
}

impl Attempt {
    /// The content afterwards.
    fn content(&self) -> Option<&str> {
        match self {
            Self::Content(content) => Some(content),
            Self::Deletion => None,
        }
    }
}

/// What a writer knows of an object.
#[derive(Default)]
struct Known {
    /// As acknowledged last.
    state: State,
    /// The write that nobody answered.
    attempted: Option<Attempt>,
    /// The versions of acknowledged writes that left it there.
    versions: Vec<u64>,
    /// How many deletions were acknowledged.
    deletions: usize,
}

/// What a watch was told.
#[derive(Default)]
struct Told {
    /// The latest state of each object.
    states: BTreeMap<String, State>,
    /// The version of each change, in the order in which they came.
    versions: Vec<u64>,
    /// How often each object went.
    deletions: BTreeMap<String, usize>,
}

impl Told {
    fn of(&mut self, map: &ConfigMap, is_there: bool) {
        let name = map.name_any();
        self.versions.push(version(map));
        if !is_there {
            *self.deletions.entry(name.clone()).or_default() += 1;
        }
        let state = if is_there { state(map) } else { None };
        self.states.insert(name, state);
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the state of an object that is there"
)]
fn state(map: &ConfigMap) -> State {
    let content = map.data.clone().unwrap_or_default().remove("content");
    Some((version(map), content.unwrap_or_default()))
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

/// Creates, changes and deletes objects of its own until the server is gone.
async fn write(
    client: Client,
    writer: usize,
    seed: u64,
    done: Arc<AtomicUsize>,
) -> BTreeMap<String, Known> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut numbers = Numbers(seed * 1000 + u64::try_from(writer).unwrap());
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    while done.load(Ordering::Relaxed) < WRITES {
        let name = format!("w{writer}-{}", numbers.below(NAMES));
        let length = usize::try_from(numbers.below(4000)).unwrap();
        let content = format!("{}-{}", numbers.below(1 << 30), "x".repeat(length));
        let entry = known.entry(name.clone()).or_default();
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
            // The server is gone.
            Err(_) => break,
        }
    }
    known
}

/// Notes what a watch tells of, from the version after `from`, until it ends.
async fn follow(client: Client, mut from: String, told: &mut Told) -> (String, Ended) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let Ok(stream) = maps.watch(&WatchParams::default().timeout(5), &from).await else {
        return (from, Ended::Cut);
    };
    let mut stream = stream.boxed();
    loop {
        match stream.try_next().await {
            Ok(Some(WatchEvent::Added(map) | WatchEvent::Modified(map))) => {
                from = map.resource_version().unwrap();
                told.of(&map, true);
            }
            Ok(Some(WatchEvent::Deleted(map))) => {
                from = map.resource_version().unwrap();
                told.of(&map, false);
            }
            Ok(Some(WatchEvent::Bookmark(mark))) => from = mark.metadata.resource_version,
            Ok(Some(WatchEvent::Error(status))) => panic!("{status:?}"),
            Ok(None) => return (from, Ended::Quietly),
            Err(_) => return (from, Ended::Cut),
        }
    }
}

/// How a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Quietly,
    Cut,
}

async fn everything(client: &Client) -> (u64, BTreeMap<String, State>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let list = maps.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap().parse().unwrap();
    let states = list.items.iter().map(|map| (map.name_any(), state(map)));
    let ours = states.filter(|(name, _)| name.starts_with('w'));
    (version, ours.collect())
}

#[expect(clippy::too_many_lines, reason = "one story")]
async fn killed_in_the_middle(seed: u64, flags: &[&str]) {
    let place = Place::new(flags);
    let mut up = place.start();
    let client = place.client().await;
    let kubeconfig = std::fs::read_to_string(up.kubeconfig()).unwrap();
    let (start, _) = everything(&client).await;
    let watching = tokio::spawn({
        let client = client.clone();
        async move {
            let mut told = Told::default();
            let mut from = start.to_string();
            loop {
                let (upto, ended) = follow(client.clone(), from, &mut told).await;
                from = upto;
                if ended != Ended::Quietly {
                    return (from, told);
                }
            }
        }
    });
    let done = Arc::new(AtomicUsize::new(0));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        // Connections of their own.
        let client = place.client().await;
        writers.push(tokio::spawn(write(client, writer, seed, done.clone())));
    }
    let enough = 1500 + usize::try_from(Numbers(seed).below(2500)).unwrap();
    let waiting = async {
        while done.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let mut known = BTreeMap::new();
    for writer in writers {
        known.extend(writer.await.unwrap());
    }
    let (from, mut told) = watching.await.unwrap();
    assert!(done.load(Ordering::Relaxed) < WRITES, "killed too late");

    let again = place.start();
    assert_eq!(
        std::fs::read_to_string(again.kubeconfig()).unwrap(),
        kubeconfig,
        "the kubeconfig stays valid"
    );
    let (version_now, now) = everything(&client).await;
    let mut unanswered = 0;
    for (name, known) in &known {
        let found = now.get(name).cloned().flatten();
        let content = found.as_ref().map(|(_, content)| content.clone());
        let attempted = known
            .attempted
            .as_ref()
            .is_some_and(|a| a.content() == content.as_deref());
        unanswered += usize::from(known.attempted.is_some());
        assert!(
            found == known.state || attempted,
            "{name}: acknowledged {:?}, unanswered {:?}, found {found:?}",
            known.state,
            known.attempted
        );
    }
    assert!(
        now.keys().all(|name| known.contains_key(name)),
        "nothing else is there"
    );
    assert!(unanswered <= WRITERS);
    // What the watch was told has happened: nothing has gone back to an earlier state.
    for (name, told) in &told.states {
        let found = now.get(name).cloned().flatten();
        match (told, &found) {
            (Some((told, _)), Some((version, _))) => assert!(version >= told, "{name}"),
            (Some(_), None) => {
                let known = &known[name];
                assert!(
                    known.state.is_none() || matches!(known.attempted, Some(Attempt::Deletion)),
                    "{name}"
                );
            }
            (None, Some((version, _))) => assert!(*version > start, "{name}"),
            (None, None) => {}
        }
    }
    let highest = known
        .values()
        .filter_map(|k| k.state.as_ref())
        .map(|(v, _)| *v);
    let highest = highest.max().unwrap();
    assert!(version_now >= highest, "{version_now} is before {highest}");

    // Versions go on, and the watch goes on where it was: it is told of everything that happened, once.
    let object = serde_json::from_value(json!({"metadata": {"name": "w-new"}})).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let new = maps.create(&PostParams::default(), &object).await.unwrap();
    assert!(version(&new) > version_now);
    let (_, ended) = follow(client.clone(), from, &mut told).await;
    assert_eq!(ended, Ended::Quietly);
    assert!(
        told.versions.is_sorted_by(|a, b| a < b),
        "in order, and nothing twice"
    );
    for (name, known) in &known {
        let missed = known
            .versions
            .iter()
            .find(|version| told.versions.binary_search(version).is_err());
        assert_eq!(missed, None, "{name}");
        let gone = told.deletions.get(name).copied().unwrap_or_default();
        let perhaps = usize::from(matches!(known.attempted, Some(Attempt::Deletion)));
        assert!(
            (known.deletions..=known.deletions + perhaps).contains(&gone),
            "{name} went {} times, and the watch tells of {gone}",
            known.deletions
        );
    }
    told.states.retain(|_, state| state.is_some());
    assert_eq!(told.states, everything(&client).await.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_kill() {
    for seed in [1, 2] {
        killed_in_the_middle(seed, &["--members=0"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_where_each_write_waits_for_the_disk() {
    killed_in_the_middle(3, &["--members=0", "--fsync"]).await;
}
