//! Records Kubernetes events, apart from everything else: an event never delays a placement.
//!
//! Notes about the same object with the same type, reason and message become one Event with a count, as
//! client-go's recorder does it. Each says which profile's it is. Events of cluster-scoped objects live in the namespace `default`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::rate_limit::RateLimit;
use crate::writer::in_time;

/// How many notes may wait before new ones are dropped and counted.
const BACKLOG: usize = 100_000;
/// With more notes than this waiting, placements are not left way any more.
const YIELDING_BACKLOG: usize = BACKLOG / 2;
/// How long placements are left way before each event.
const LONGEST_YIELD: Duration = Duration::from_millis(20);
/// How many series are remembered in order to count repetitions.
const REMEMBERED: usize = 4096;
/// How long the recorder goes on after the end was asked for, to write what waits.
const DRAIN: Duration = Duration::from_secs(2);
/// How often an event is sent before it is given up, as client-go does it.
const TRIES: usize = 12;
/// The pause after the first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether an event is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoteType {
    /// Good news.
    Normal,
    /// Bad news.
    Warning,
}

impl NoteType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Good or bad news.
    pub note_type: NoteType,
    /// The reason, one CamelCase word.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

#[derive(Debug)]
struct Entry {
    component: Arc<str>,
    object: ObjectReference,
    note: Note,
}

/// The sending half of a recorder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    sender: mpsc::Sender<Entry>,
    busy: Arc<watch::Sender<bool>>,
}

impl Recorder {
    /// The same recorder, in the name of another component.
    #[must_use]
    pub fn of(&self, component: &str) -> Self {
        Self {
            component: component.into(),
            ..self.clone()
        }
    }

    /// Tells whether placements are under way: events then leave the API server to them for a while.
    pub fn set_busy(&self, busy: bool) {
        self.busy
            .send_if_modified(|known| std::mem::replace(known, busy) != busy);
    }

    /// Records a note about an object. A full backlog drops the note and says so in the log.
    pub fn record(&self, object: &ObjectReference, note: Note) {
        if let Err(error) = self.sender.try_send(Entry {
            component: Arc::clone(&self.component),
            object: object.clone(),
            note,
        }) {
            tracing::warn!(%error, object = object.name, "dropped an event");
        }
    }
}

/// Starts a recorder that speaks for this component; the task ends after the token is cancelled.
pub fn start(
    client: kube::Client,
    component: &str,
    limit: Arc<RateLimit>,
    patience: Duration,
    cancel: CancellationToken,
) -> (Recorder, tokio::task::JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let busy = Arc::new(watch::Sender::new(false));
    let worker = Worker {
        client,
        limit,
        patience,
        busy: busy.subscribe(),
        series: Series::default(),
    };
    let task = tokio::spawn(worker.run(receiver, cancel));
    let recorder = Recorder {
        component: component.into(),
        sender,
        busy,
    };
    (recorder, task)
}

struct Worker {
    client: kube::Client,
    limit: Arc<RateLimit>,
    patience: Duration,
    busy: watch::Receiver<bool>,
    series: Series,
}

impl Worker {
    async fn run(mut self, mut receiver: mpsc::Receiver<Entry>, cancel: CancellationToken) {
        loop {
            let entry = tokio::select! {
                entry = receiver.recv() => entry,
                () = cancel.cancelled() => break,
            };
            let Some(entry) = entry else { return };
            if receiver.len() < YIELDING_BACKLOG {
                tokio::select! {
                    () = self.leave_way() => {}
                    () = cancel.cancelled() => {}
                }
            }
            self.write(entry).await;
        }
        receiver.close();
        let drain = async {
            while let Some(entry) = receiver.recv().await {
                self.write(entry).await;
            }
        };
        if tokio::time::timeout(DRAIN, drain).await.is_err() {
            tracing::warn!("stopped before all events were written");
        }
    }

    /// Waits while placements are under way, but not for long.
    async fn leave_way(&mut self) {
        let quiet = self.busy.wait_for(|busy| !busy);
        let _ = tokio::time::timeout(LONGEST_YIELD, quiet).await;
    }

    async fn write(&mut self, entry: Entry) {
        self.limit.acquire().await;
        let namespace = entry
            .object
            .namespace
            .clone()
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let now = Time(jiff::Timestamp::now());
        let key = SeriesKey::of(&entry);
        if let Some((name, count)) = self.series.repeat(&key) {
            let patch = json!({ "count": count, "lastTimestamp": now });
            let parameters = PatchParams::default();
            let patch = Patch::Merge(patch);
            let send = || api.patch(&name, &parameters, &patch);
            match self.persistently(send).await {
                Ok(_) => return,
                // The event has expired meanwhile: a new one begins.
                Err(error) if is_not_found(&error) => self.series.forget(&key),
                Err(error) => {
                    tracing::warn!(%error, "cannot update an event");
                    return;
                }
            }
        }
        let event = Self::event(entry, &namespace, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        let parameters = PostParams::default();
        let send = || api.create(&parameters, &event);
        match self.persistently(send).await {
            Ok(_) => self.series.remember(key, name),
            // An earlier try has come through, and only its answer was lost.
            Err(error) if is_conflict(&error) => self.series.remember(key, name),
            Err(error) => tracing::warn!(%error, reason = event.reason, "cannot record an event"),
        }
    }

    /// Sends a request again while the server cannot be reached or is not well.
    async fn persistently<T, F>(&self, mut send: impl FnMut() -> F) -> Result<T, kube::Error>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            match in_time(self.patience, send()).await {
                Err(error) if may_pass(&error) => tracing::debug!(%error, "an event has to wait"),
                answer => return answer,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        in_time(self.patience, send()).await
    }

    fn event(entry: Entry, namespace: &str, now: Time) -> Event {
        let name = entry.object.name.clone().unwrap_or_default();
        let component = entry.component.to_string();
        Event {
            metadata: ObjectMeta {
                // As client-go names events: unique enough, and no counter of the server is needed.
                name: Some(format!("{name}.{:x}", now.0.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: entry.object,
            type_: Some(entry.note.note_type.as_str().to_owned()),
            reason: Some(entry.note.reason.to_owned()),
            message: Some(entry.note.message),
            source: Some(EventSource {
                component: Some(component.clone()),
                host: None,
            }),
            reporting_component: Some(component),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            ..Event::default()
        }
    }
}

/// Whether the same request may succeed later.
fn may_pass(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code >= 500 || status.code == 429,
        _ => true,
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    component: Arc<str>,
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    note: Note,
}

impl SeriesKey {
    fn of(entry: &Entry) -> Self {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            component: Arc::clone(&entry.component),
            kind: text(&entry.object.kind),
            namespace: text(&entry.object.namespace),
            name: text(&entry.object.name),
            uid: text(&entry.object.uid),
            note: entry.note.clone(),
        }
    }
}

/// The events written lately; the oldest is forgotten first.
#[derive(Debug, Default)]
struct Series {
    known: HashMap<SeriesKey, (String, i32)>,
    order: VecDeque<SeriesKey>,
}

impl Series {
    /// The name of the event of this series and its new count, where there is one.
    fn repeat(&mut self, key: &SeriesKey) -> Option<(String, i32)> {
        let (name, count) = self.known.get_mut(key)?;
        *count = count.saturating_add(1);
        Some((name.clone(), *count))
    }

    fn remember(&mut self, key: SeriesKey, name: String) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.known.insert(key, (name, 1));
    }

    fn forget(&mut self, key: &SeriesKey) {
        self.known.remove(key);
        self.order.retain(|known| known != key);
    }
}
