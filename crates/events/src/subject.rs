//! What happenings have in common, from what they are about to what makes them the same.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::happening::{Severity, Told};
use crate::source::Source;

/// How many subjects, topics and series are remembered, of each; what was of use longest ago is forgotten first.
pub(crate) const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// Who tells good, or bad, news of which object. What may be written of a subject is limited.
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

/// What is told of a subject, whatever the words. Too many words on a topic are combined.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) subject: Arc<Subject>,
    reason: &'static str,
}

/// What happenings of one event have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SeriesKey {
    /// The same words, about the same part of an object.
    Same {
        topic: Topic,
        field_path: Option<String>,
        message: String,
    },
    /// All else that is told on a topic.
    Combined(Topic),
}

impl Topic {
    pub(crate) fn of(told: &Told) -> Self {
        let happening = &told.happening;
        let object = &happening.object;
        let subject = Subject {
            source: told.source.clone(),
            severity: happening.severity,
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
        };
        Self {
            subject: Arc::new(subject),
            reason: happening.reason,
        }
    }
}

impl SeriesKey {
    pub(crate) fn of(topic: Topic, told: &Told) -> Self {
        Self::Same {
            topic,
            field_path: told.happening.object.field_path.clone(),
            message: told.happening.message.clone(),
        }
    }

    pub(crate) fn subject(&self) -> &Arc<Subject> {
        let (Self::Same { topic, .. } | Self::Combined(topic)) = self;
        &topic.subject
    }
}
