//! The keys that group events, from the widest to the narrowest: [`Subject`], [`Topic`] and [`SeriesKey`].

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::event::Source;
use crate::event::{Occurrence, Severity};

/// The capacity of each cache. A full cache evicts its least recently used entry.
pub(crate) const CACHE_SIZE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// The source, type and object of events. The spam filter limits the writes for each subject.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    source: Source,
    severity: Severity,
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

/// The subject and reason of events. The aggregator combines events of the same topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) subject: Arc<Subject>,
    reason: &'static str,
}

/// The key of a series. All events of a series share one event object on the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SeriesKey {
    /// Events of a topic with the same field path and message.
    Same {
        topic: Topic,
        field_path: Option<String>,
        message: String,
    },
    /// Events of a topic that the aggregator combined.
    Combined(Topic),
}

impl Topic {
    pub(crate) fn of(occurrence: &Occurrence) -> Self {
        let event = &occurrence.event;
        let object = &event.object;
        let subject = Subject {
            source: occurrence.source.clone(),
            severity: event.severity,
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        };
        Self {
            subject: Arc::new(subject),
            reason: event.reason,
        }
    }
}

impl SeriesKey {
    pub(crate) fn of(topic: Topic, occurrence: &Occurrence) -> Self {
        Self::Same {
            topic,
            field_path: occurrence.event.object.field_path.clone(),
            message: occurrence.event.message.clone(),
        }
    }

    pub(crate) fn subject(&self) -> &Arc<Subject> {
        let (Self::Same { topic, .. } | Self::Combined(topic)) = self;
        &topic.subject
    }
}
