//! Happenings for tests.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::happening::{Happening, Severity, Told};
use crate::source::Source;

/// What a kubelet without a host tells of the pod `web`.
pub(crate) fn told(reason: &'static str, message: &str) -> Told {
    Told {
        source: Source::new("kubelet"),
        happening: Happening {
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

impl Told {
    /// The same of another object.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.happening.object.name = Some(name.to_owned());
        self
    }

    /// The same as bad news.
    pub(crate) fn bad(mut self) -> Self {
        self.happening.severity = Severity::Warning;
        self
    }

    /// The same by another component.
    pub(crate) fn by(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// The same of a container of the pod.
    pub(crate) fn in_container(mut self, name: &str) -> Self {
        self.happening.object.field_path = Some(format!("spec.containers{{{name}}}"));
        self
    }

    /// The same at this time.
    pub(crate) fn at(mut self, at: Timestamp) -> Self {
        self.at = at;
        self
    }
}
