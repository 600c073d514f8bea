//! The PostFilter plugins behind extenders: a nomination of a plugin stands only if every extender with a preempt verb
//! permits every victim of the nomination.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::{Binding, BindingKey};
use berth_engine::{CycleState, PluginError};

use super::answer_cache::{AnswerCache, Lookup};
use super::answers::{Answer, Request};
use super::client::ExtenderClient;
use crate::framework::{Bindings, Nomination, PostFilter, PostFilterContext, Victim};

/// Maximum number of nominations that the wrapper requests from the plugin. If the extenders permit none of these
/// nominations completely, nothing is preempted.
const MAX_SEARCHES: usize = 16;

/// A PostFilter plugin whose victims need the permission of extenders. An extender spares a victim by omitting this
/// victim from its response. If a victim is spared, the wrapper discards the nomination, hides the spared victims from
/// the plugin, and calls the plugin again.
#[derive(Debug)]
pub(super) struct NarrowingPostFilter {
    pub(super) plugin: Arc<dyn PostFilter>,
    /// The extenders with a preempt verb, each with its index in the configuration.
    pub(super) clients: Vec<(usize, Arc<ExtenderClient>)>,
    pub(super) cache: AnswerCache,
}

impl NarrowingPostFilter {
    /// Returns the victims that all extenders permit, or `None` while an answer is pending. Each extender receives only
    /// the victims that the previous extender permitted.
    fn permitted(
        &self,
        binding: &Binding,
        nominated: &[Victim],
    ) -> Result<Option<BTreeSet<Victim>>, PluginError> {
        let resource = &binding.spec.resource;
        let mut permitted: BTreeSet<Victim> = nominated.iter().cloned().collect();
        for (index, client) in &self.clients {
            if permitted.is_empty() {
                break;
            }
            if !client.manages(&resource.api_version, &resource.kind) {
                continue;
            }
            let request = Request::Preempt(Arc::new(permitted.clone()));
            match self.cache.get(*index, request) {
                Lookup::Answer(Answer::Victims(victims)) => permitted.clone_from(&victims),
                Lookup::Answer(_) => {}
                Lookup::Failed(error) => {
                    let name = &client.plugin;
                    return Err(PluginError::failed(format!("{name}: {error}")));
                }
                Lookup::Pending => return Ok(None),
            }
        }
        Ok(Some(permitted))
    }
}

impl PostFilter for NarrowingPostFilter {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let mut spared: BTreeSet<Victim> = BTreeSet::new();
        for _ in 0..MAX_SEARCHES {
            let bindings = WithoutSpared {
                all: context.bindings,
                spared: &spared,
            };
            let mut narrowed = PostFilterContext {
                binding: context.binding,
                request: context.request,
                snapshot: context.snapshot,
                bindings: &bindings,
                attempt: &mut *context.attempt,
            };
            let Some(nomination) = self.plugin.post_filter(&mut narrowed, state)? else {
                return Ok(None);
            };
            if nomination
                .victims
                .iter()
                .any(|victim| spared.contains(victim))
            {
                return Ok(None);
            }
            let Some(permitted) = self.permitted(context.binding, &nomination.victims)? else {
                return Ok(None);
            };
            if nomination
                .victims
                .iter()
                .all(|victim| permitted.contains(victim))
            {
                return Ok(Some(nomination));
            }
            let victims = nomination.victims.into_iter();
            spared.extend(victims.filter(|victim| !permitted.contains(victim)));
        }
        Ok(None)
    }
}

/// A view of the bindings without the assignments that extenders spare.
struct WithoutSpared<'a> {
    all: &'a dyn Bindings,
    spared: &'a BTreeSet<Victim>,
}

impl WithoutSpared<'_> {
    fn hide_spared(&self, binding: Arc<Binding>) -> Arc<Binding> {
        let is_spared = |cluster: &str| {
            let mut spared = self.spared.iter();
            spared.any(|victim| victim.key == binding.key && victim.cluster == cluster)
        };
        let clusters = &binding.spec.clusters;
        if !clusters.iter().any(|target| is_spared(&target.name)) {
            return binding;
        }
        let kept = clusters.iter().filter(|target| !is_spared(&target.name));
        let kept = kept.cloned().collect();
        let mut visible = (*binding).clone();
        visible.spec.clusters = kept;
        Arc::new(visible)
    }
}

impl Bindings for WithoutSpared<'_> {
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        Some(self.hide_spared(self.all.get(key)?))
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_> {
        Box::new(self.all.iter().map(|binding| self.hide_spared(binding)))
    }
}
