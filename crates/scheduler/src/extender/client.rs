//! The client of one extender, which encodes requests, sends them, and decodes the responses.

use std::sync::Arc;

use berth_api::Binding;
use berth_engine::Snapshot;
use berth_https_client::tls::TlsError;
use http::Uri;

use super::answers::{Answer, CallError, Request};
use super::config::{ManagedResource, Validated, Verb};
use super::http::{Call, HttpClient};
use super::messages::{self, RequestBody};
use super::metrics::ExtenderCounters;

/// The client of one extender.
#[derive(Debug)]
pub(super) struct ExtenderClient {
    /// The name of the extender, which is its URL prefix. If an earlier extender has the same prefix, the name also
    /// contains the index of this extender.
    pub(super) name: Arc<str>,
    /// The name of the extender's plugin in messages and explanations.
    pub(super) plugin: String,
    pub(super) filter: Option<Uri>,
    pub(super) prioritize: Option<Uri>,
    pub(super) preempt: Option<Uri>,
    pub(super) bind: Option<Uri>,
    pub(super) ignorable: bool,
    pub(super) names_only: bool,
    pub(super) http: HttpClient,
    weight: i64,
    managed: Vec<ManagedResource>,
}

impl ExtenderClient {
    pub(super) fn new(
        name: Arc<str>,
        config: Validated,
        extenders: usize,
        counters: Arc<ExtenderCounters>,
    ) -> Result<Self, TlsError> {
        Ok(Self {
            plugin: format!("extender {name}"),
            name,
            filter: config.filter,
            prioritize: config.prioritize,
            preempt: config.preempt,
            bind: config.bind,
            ignorable: config.ignorable,
            names_only: config.names_only,
            http: HttpClient::new(config.tls, config.timeout, extenders, counters)?,
            weight: config.weight,
            managed: config.managed,
        })
    }

    /// Reports whether the extender handles bindings of this resource.
    pub(super) fn manages(&self, api_version: &str, kind: &str) -> bool {
        let mut managed = self.managed.iter();
        self.managed.is_empty()
            || managed.any(|resource| resource.api_version == api_version && resource.kind == kind)
    }

    /// Reports whether requests contain Cluster objects.
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

    /// Sends a request and returns the answer. If the call of an ignorable extender fails, the answer is
    /// [`Answer::Ignored`].
    pub(super) async fn call(
        &self,
        binding: &Binding,
        snapshot: &Snapshot,
        request: &Request,
    ) -> Result<Answer, CallError> {
        let verb = request.verb();
        let Some(url) = self.url(verb) else {
            return Ok(Answer::Ignored);
        };
        let body = RequestBody {
            binding,
            objects: (!self.names_only).then_some(snapshot),
        };
        let encode = || body.encode(request);
        let (sent, weight, names_only) = (request.clone(), self.weight, self.names_only);
        let decode = move |response: &[u8]| messages::decode(&sent, weight, names_only, response);
        let names = request.names();
        match self
            .http
            .post(Call { verb, url, names }, encode, decode)
            .await
        {
            Err(error) if self.ignorable => {
                let (extender, verb) = (&self.name, verb.name());
                tracing::warn!(binding = %binding.key, %extender, verb, %error, "the call failed; deciding without the extender because it is ignorable");
                Ok(Answer::Ignored)
            }
            answer => answer,
        }
    }
}
