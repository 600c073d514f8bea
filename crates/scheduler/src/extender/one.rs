//! One extender: what it does, whom it concerns, and how it is asked.

use std::sync::Arc;

use berth_core::Snapshot;
use http::Uri;

use super::answers::{Answer, CallError, Question};
use super::call::{self, Outgoing};
use super::config::{Checked, ManagedResource, Verb};
use super::http::Connections;
use super::metrics::OfExtender;
use super::tls::TlsError;
use crate::binding::Binding;

/// One extender.
#[derive(Debug)]
pub(super) struct Extender {
    /// Its URL, with a number where several share one.
    pub(super) name: Arc<str>,
    /// How messages and explanations name it.
    pub(super) plugin: String,
    pub(super) filter: Option<Uri>,
    pub(super) prioritize: Option<Uri>,
    pub(super) preempt: Option<Uri>,
    pub(super) bind: Option<Uri>,
    pub(super) ignorable: bool,
    pub(super) names_only: bool,
    pub(super) http: Connections,
    weight: i64,
    managed: Vec<ManagedResource>,
}

impl Extender {
    pub(super) fn new(
        name: Arc<str>,
        checked: Checked,
        metrics: Arc<OfExtender>,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            plugin: format!("extender {name}"),
            name,
            filter: checked.filter,
            prioritize: checked.prioritize,
            preempt: checked.preempt,
            bind: checked.bind,
            ignorable: checked.ignorable,
            names_only: checked.names_only,
            http: Connections::new(checked.tls, checked.timeout, metrics)?,
            weight: checked.weight,
            managed: checked.managed,
        })
    }

    /// Whether it is asked about bindings of this resource.
    pub(super) fn concerns(&self, api_version: &str, kind: &str) -> bool {
        let mut managed = self.managed.iter();
        self.managed.is_empty()
            || managed.any(|one| one.api_version == api_version && one.kind == kind)
    }

    /// Whether it has to be sent the objects of clusters.
    pub(super) fn reads_objects(&self) -> bool {
        !self.names_only && (self.filter.is_some() || self.prioritize.is_some())
    }

    fn url(&self, verb: Verb) -> Option<&Uri> {
        match verb {
            Verb::Filter => self.filter.as_ref(),
            Verb::Prioritize => self.prioritize.as_ref(),
            Verb::Preempt => self.preempt.as_ref(),
            Verb::Bind => self.bind.as_ref(),
        }
    }

    /// Asks a question. The failure of an ignorable extender is an answer, too.
    pub(super) async fn ask(
        &self,
        binding: &Binding,
        snapshot: &Snapshot,
        question: &Question,
    ) -> Result<Answer, CallError> {
        let verb = question.verb();
        let Some(url) = self.url(verb) else {
            return Ok(Answer::Ignored);
        };
        let outgoing = Outgoing {
            binding,
            objects: (!self.names_only).then_some(snapshot),
        };
        let body = || outgoing.body(question);
        let read = |answer: &[u8]| call::read(question, self.weight, self.names_only, answer);
        match self.http.post(verb, url, body, read).await {
            Err(error) if self.ignorable => {
                let (extender, verb) = (&self.name, verb.name());
                tracing::warn!(binding = %binding.key, %extender, verb, %error, "decided without the extender, which is ignorable");
                Ok(Answer::Ignored)
            }
            answer => answer,
        }
    }
}
