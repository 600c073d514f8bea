//! Extenders at the extension points: each is a plugin of its own, after those of the profile.

use std::sync::Arc;

use berth_core::{
    BindingContext, BindingFilter, Bits, ClusterView, PluginError, Score, Scores, Snapshot,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::answers::{Answer, Names, Question, Reason, ScoresByName};
use super::config::Verb;
use super::desk::{Desk, Found};
use super::one::Extender;
use super::wire::{BindingArgs, BindingResult};
use super::{answers::CallError, call};
use crate::framework::{Bind, Bound, Decided};

/// One extender, as the engine and the service call it.
#[derive(Debug)]
pub(super) struct AtPoints {
    pub(super) index: usize,
    pub(super) extender: Arc<Extender>,
    pub(super) desk: Desk,
}

/// What the engine is told where an answer is still to come. Nobody reads it: the decision is thrown away.
fn pending() -> PluginError {
    PluginError::failed("the answer is still to come")
}

fn names(snapshot: &Snapshot, ordinals: impl Iterator<Item = usize>) -> Names {
    ordinals
        .filter_map(|ordinal| snapshot.name(ordinal).cloned())
        .collect()
}

impl AtPoints {
    fn concerns(&self, context: &BindingContext<'_>) -> bool {
        let (api_version, kind) = context.request().resource();
        self.extender.concerns(api_version, kind)
    }

    /// The answer to a question; None while it is still to come.
    fn answer(&self, question: Question) -> Result<Option<Answer>, PluginError> {
        match self.desk.look(self.index, question) {
            Found::Answer(answer) => Ok(Some(answer)),
            Found::Failed(error) => Err(PluginError::failed(error.to_string())),
            Found::Pending => Ok(None),
        }
    }

    fn scores(
        &self,
        context: &BindingContext<'_>,
        ordinals: impl Iterator<Item = usize>,
    ) -> Result<Option<ScoresByName>, PluginError> {
        if !self.concerns(context) {
            return Ok(None);
        }
        let names = names(context.snapshot(), ordinals);
        // Where the scores are still to come, the other plugins are asked all the same: they may have
        // questions of their own, which are asked at the same time.
        Ok(match self.answer(Question::Prioritize(names))? {
            Some(Answer::Scores(scores)) => Some(scores),
            _ => None,
        })
    }
}

impl BindingFilter for AtPoints {
    fn name(&self) -> &str {
        &self.extender.plugin
    }

    fn check(
        &self,
        _context: &BindingContext<'_>,
        cluster: &ClusterView<'_>,
    ) -> Result<(), Reason> {
        match self.desk.reason(self.index, cluster.name()) {
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    fn restrict(
        &self,
        context: &BindingContext<'_>,
        _prior: &Bits,
        candidates: &mut Bits,
    ) -> Result<(), PluginError> {
        self.desk.refuses(self.index, None);
        if candidates.is_empty() || !self.concerns(context) {
            return Ok(());
        }
        let snapshot = context.snapshot();
        let names = names(snapshot, candidates.iter());
        let answer = self.answer(Question::Filter(names))?;
        if let Answer::Refused(refused) = answer.ok_or_else(pending)? {
            for name in refused.keys() {
                if let Some(ordinal) = snapshot.ordinal(name) {
                    candidates.set(ordinal, false);
                }
            }
            self.desk.refuses(self.index, Some(refused));
        }
        Ok(())
    }
}

impl Score for AtPoints {
    fn name(&self) -> &str {
        &self.extender.plugin
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
        let Some(given) = self.scores(context, ordinals)? else {
            return Ok(());
        };
        for (name, score) in given.iter() {
            let ordinal = context.snapshot().ordinal(name);
            if let Some(place) = ordinal.and_then(|ordinal| scores.place_of(ordinal)) {
                scores.add(place, *score);
            }
        }
        Ok(())
    }
}

impl Bind for AtPoints {
    fn bind<'a>(
        &'a self,
        decided: &'a Decided,
        _state: &'a mut berth_core::CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>> {
        async move {
            let resource = &decided.binding.spec.resource;
            let url = match &self.extender.bind {
                Some(url) if self.extender.concerns(&resource.api_version, &resource.kind) => url,
                _ => return Ok(Bound::Skip),
            };
            let key = &decided.binding.key;
            let arguments = BindingArgs {
                binding_name: key.name.to_string(),
                binding_namespace: key.namespace.as_deref().unwrap_or_default().to_owned(),
                binding_uid: decided.binding.metadata.uid.clone().unwrap_or_default(),
                clusters: decided.targets.to_vec(),
            };
            let read = |answer: &[u8]| {
                let answer: BindingResult = call::parse_object(answer)?;
                match answer.error.filter(|error| !error.is_empty()) {
                    Some(error) => Err(CallError::Refused(error)),
                    None => Ok(()),
                }
            };
            let body = || call::json(&arguments);
            match self.extender.http.post(Verb::Bind, url, body, read).await {
                Ok(()) => Ok(Bound::Stored),
                Err(error) if self.extender.ignorable => {
                    let extender = &self.extender.name;
                    tracing::warn!(binding = %key, %extender, %error, "stored without the extender, which is ignorable");
                    Ok(Bound::Skip)
                }
                Err(error) => Err(PluginError::failed(error.to_string())),
            }
        }
        .boxed()
    }
}
