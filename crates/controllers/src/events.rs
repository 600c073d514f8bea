//! Records Kubernetes events, apart from everything else: an event never delays the work it tells of.
//!
//! Repetitions become one Event with a count, as client-go's recorder does it. Events about cluster-scoped
//! objects live in the namespace `default`. Events are told as well as possible: when the backlog is full
//! or the server refuses, the log says so and the event is gone.

use std::collections::{HashMap, VecDeque};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many events may wait before new ones are dropped.
const BACKLOG: usize = 10_000;
/// How many series are remembered in order to count repetitions.
const REMEMBERED: usize = 4096;

/// Good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Good news.
    Normal,
    /// Bad news.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// The object.
    pub object: ObjectReference,
    /// Good or bad news.
    pub severity: Severity,
    /// One CamelCase word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The sending half of a recorder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    sender: mpsc::Sender<Happening>,
}

impl EventRecorder {
    /// A recorder and the writer behind it, which is to be run as a task.
    pub fn new(client: kube::Client, component: &str) -> (Self, EventWriter) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let writer = EventWriter {
            client,
            component: component.to_owned(),
            receiver,
            series: Series::default(),
        };
        (Self { sender }, writer)
    }

    /// Tells of a happening, without waiting.
    pub fn record(&self, happening: Happening) {
        if let Err(error) = self.sender.try_send(happening) {
            tracing::warn!(%error, "dropped an event");
        }
    }
}

/// Writes what recorders send.
pub struct EventWriter {
    client: kube::Client,
    component: String,
    receiver: mpsc::Receiver<Happening>,
    series: Series,
}

impl std::fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter")
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}

impl EventWriter {
    /// Writes events until all recorders are gone or the token is cancelled.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let happening = tokio::select! {
                () = shutdown.cancelled() => return,
                happening = self.receiver.recv() => happening,
            };
            let Some(happening) = happening else { return };
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.write(happening) => {}
            }
        }
    }

    async fn write(&mut self, happening: Happening) {
        let namespace = happening.object.namespace.as_deref();
        let namespace = namespace.filter(|n| !n.is_empty()).unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let now = Time(jiff::Timestamp::now());
        let key = SeriesKey::of(&happening);
        if let Some((name, count)) = self.series.repeat(&key) {
            let patch = json!({ "count": count, "lastTimestamp": now });
            let patched = api
                .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            match patched {
                Ok(_) => return,
                // The event has expired meanwhile: a new one begins.
                Err(kube::Error::Api(status)) if status.code == 404 => self.series.forget(&key),
                Err(error) => {
                    tracing::warn!(%error, "failed to count an event");
                    return;
                }
            }
        }
        let event = self.event(&happening, namespace, &now);
        match api.create(&PostParams::default(), &event).await {
            Ok(created) => {
                let name = created.metadata.name.unwrap_or_default();
                self.series.remember(key, name);
            }
            Err(error) => {
                tracing::warn!(%error, reason = happening.reason, "failed to record an event");
            }
        }
    }

    fn event(&self, happening: &Happening, namespace: &str, now: &Time) -> Event {
        let name = happening.object.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:x}", now.0.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: happening.object.clone(),
            type_: Some(happening.severity.as_str().to_owned()),
            reason: Some(happening.reason.to_owned()),
            message: Some(happening.message.clone()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(String::new()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now.clone()),
            ..Event::default()
        }
    }
}

/// What makes two happenings the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeriesKey {
    object: [String; 4],
    severity: Severity,
    reason: &'static str,
    message: String,
}

impl SeriesKey {
    fn of(happening: &Happening) -> Self {
        let object = &happening.object;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            object: [
                text(&object.kind),
                text(&object.namespace),
                text(&object.name),
                text(&object.uid),
            ],
            severity: happening.severity,
            reason: happening.reason,
            message: happening.message.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(message: &str) -> SeriesKey {
        SeriesKey::of(&Happening {
            object: ObjectReference::default(),
            severity: Severity::Normal,
            reason: "Test",
            message: message.to_owned(),
        })
    }

    #[test]
    fn repetitions_count_up_until_the_event_is_gone() {
        let mut series = Series::default();
        assert_eq!(series.repeat(&key("a")), None);
        series.remember(key("a"), "a.1".to_owned());
        assert_eq!(series.repeat(&key("a")), Some(("a.1".to_owned(), 2)));
        assert_eq!(series.repeat(&key("b")), None);
        assert_eq!(series.repeat(&key("a")), Some(("a.1".to_owned(), 3)));
        series.forget(&key("a"));
        assert_eq!(series.repeat(&key("a")), None);
    }

    #[test]
    fn the_oldest_series_is_forgotten_first() {
        let mut series = Series::default();
        for index in 0..=REMEMBERED {
            series.remember(key(&index.to_string()), index.to_string());
        }
        assert_eq!(series.repeat(&key("0")), None);
        assert!(series.repeat(&key("1")).is_some());
        assert_eq!(series.known.len(), REMEMBERED);
    }
}
