//! Events for tests.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::event::Source;
use crate::event::{Event, Occurrence, Severity};

/// Returns an event of the pod `web` from a kubelet without a host.
pub(crate) fn occurrence(reason: &'static str, message: &str) -> Occurrence {
    Occurrence {
        source: Source::new("kubelet"),
        event: Event {
            object: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some("shop".to_owned()),
                name: Some("web".to_owned()),
                uid: Some("u1".to_owned()),
                ..ObjectReference::default()
            },
            severity: Severity::Normal,
            reason,
            message: message.to_owned(),
        },
        at: Timestamp::UNIX_EPOCH,
    }
}

impl Occurrence {
    /// Replaces the name of the object.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.event.object.name = Some(name.to_owned());
        self
    }

    /// Makes the event a warning.
    pub(crate) fn warning(mut self) -> Self {
        self.event.severity = Severity::Warning;
        self
    }

    /// Replaces the source.
    pub(crate) fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets the field path to a container of the pod.
    pub(crate) fn in_container(mut self, name: &str) -> Self {
        self.event.object.field_path = Some(format!("spec.containers{{{name}}}"));
        self
    }

    /// Replaces the time.
    pub(crate) fn at(mut self, at: Timestamp) -> Self {
        self.at = at;
        self
    }
}
