//! Extenders as plugins at the extension points Filter, Score and Bind.

use std::sync::Arc;

use berth_engine::{
    BindingContext, BindingFilter, Bits, ClusterView, PluginError, Score, Scores, Snapshot,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::answer_cache::{AnswerCache, Lookup};
use super::answers::{Answer, CallError, Names, Reason, Request, ScoresByName, shorten};
use super::client::ExtenderClient;
use super::config::Verb;
use super::http::Call;
use super::messages;
use super::wire::{BindingArgs, BindingResult};
use crate::framework::{Bind, Bound, Decided};

/// The plugin that calls one extender.
#[derive(Debug)]
pub(super) struct ExtenderPlugin {
    /// The index of the extender in the configuration.
    pub(super) index: usize,
    pub(super) client: Arc<ExtenderClient>,
    pub(super) cache: AnswerCache,
}

/// Returns the error for a pending answer. Users never see this error, because the decision is discarded.
fn pending() -> PluginError {
    PluginError::failed("the answer is pending")
}

fn names(snapshot: &Snapshot, ordinals: impl Iterator<Item = usize>) -> Names {
    ordinals
        .filter_map(|ordinal| snapshot.name(ordinal).cloned())
        .collect()
}

impl ExtenderPlugin {
    fn manages(&self, context: &BindingContext<'_>) -> bool {
        let (api_version, kind) = context.request().resource();
        self.client.manages(api_version, kind)
    }

    /// Returns the answer to a request, or `None` while the answer is pending.
    fn answer(&self, request: Request) -> Result<Option<Answer>, PluginError> {
        match self.cache.get(self.index, request) {
            Lookup::Answer(answer) => Ok(Some(answer)),
            Lookup::Failed(error) => Err(PluginError::failed(error.to_string())),
            Lookup::Pending => Ok(None),
        }
    }

    fn scores(
        &self,
        context: &BindingContext<'_>,
        ordinals: impl Iterator<Item = usize>,
    ) -> Result<Option<ScoresByName>, PluginError> {
        if !self.manages(context) {
            return Ok(None);
        }
        let names = names(context.snapshot(), ordinals);
        // A pending answer is not an error. An error would stop the engine before the prioritize requests to the other
        // extenders are recorded.
        Ok(match self.answer(Request::Prioritize(names))? {
            Some(Answer::Scores(scores)) => Some(scores),
            _ => None,
        })
    }
}

impl BindingFilter for ExtenderPlugin {
    fn name(&self) -> &str {
        &self.client.plugin
    }

    fn check(
        &self,
        _context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        match self.cache.rejection(self.index, cluster.name()) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _current: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        self.cache.set_rejected(self.index, None);
        if candidates.is_empty() || !self.manages(context) {
            return Ok(());
        }
        let snapshot = context.snapshot();
        let names = names(snapshot, candidates.iter());
        let answer = self.answer(Request::Filter(names))?;
        if let Answer::Rejected(rejected) = answer.ok_or_else(pending)? {
            for name in rejected.keys() {
                if let Some(ordinal) = snapshot.ordinal(name) {
                    candidates.remove(ordinal);
                }
            }
            self.cache.set_rejected(self.index, Some(rejected));
        }
        Ok(())
    }
}

impl Score for ExtenderPlugin {
    fn name(&self) -> &str {
        &self.client.plugin
    }

    fn score(
        &self,
        context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<i64, PluginError> {
        let scores = self.scores(context, std::iter::once(cluster.ordinal()))?;
        Ok(scores.map_or(0, |scores| scores.get(cluster.name()).copied().unwrap_or(0)))
    }

    fn score_fleet(
        &self,
        context: &BindingContext<'_>,
        scores: &mut Scores<'_>,
    ) -> Result<(), PluginError> {
        let ordinals = scores
            .candidates()
            .iter()
            .map(|candidate| candidate.ordinal);
        let Some(by_name) = self.scores(context, ordinals)? else {
            return Ok(());
        };
        for (name, score) in by_name.iter() {
            let ordinal = context.snapshot().ordinal(name);
            if let Some(place) = ordinal.and_then(|ordinal| scores.place_of(ordinal)) {
                scores.add(place, *score);
            }
        }
        Ok(())
    }
}

impl Bind for ExtenderPlugin {
    fn bind<'a>(
        &'a self,
        decided: &'a Decided,
        _state: &'a mut berth_engine::CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>> {
        async move {
            let resource = &decided.binding.spec.resource;
            let url = match &self.client.bind {
                Some(url) if self.client.manages(&resource.api_version, &resource.kind) => url,
                _ => return Ok(Bound::Skip),
            };
            let key = &decided.binding.key;
            let arguments = BindingArgs {
                binding_name: key.name.to_string(),
                binding_namespace: key.namespace_or_empty().to_owned(),
                binding_uid: decided.binding.metadata.uid.clone().unwrap_or_default(),
                clusters: decided.targets.to_vec(),
            };
            let decode = |response: &[u8]| {
                let result: BindingResult = messages::parse_object(response)?;
                match result.error.filter(|error| !error.is_empty()) {
                    Some(error) => Err(CallError::Refused(shorten(&error))),
                    None => Ok(()),
                }
            };
            let encode = || messages::json(&arguments);
            let call = Call {
                verb: Verb::Bind,
                url,
                names: arguments.clusters.len(),
            };
            match self.client.http.post(call, encode, decode).await {
                Ok(()) => Ok(Bound::Stored),
                Err(error) if self.client.ignorable => {
                    let extender = &self.client.name;
                    tracing::warn!(binding = %key, %extender, %error, "the call failed; storing the decision without the extender because it is ignorable");
                    Ok(Bound::Skip)
                }
                Err(error) => Err(PluginError::failed(error.to_string())),
            }
        }
        .boxed()
    }
}
