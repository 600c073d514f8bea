//! Extenders with a preempt verb: what a PostFilter plugin wants to preempt is what they leave of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_core::{CycleState, PluginError};

use super::answers::{Answer, Question};
use super::desk::{Desk, Found};
use super::one::Extender;
use crate::binding::{Binding, BindingKey};
use crate::framework::{Bindings, Nomination, PostFilter, PostFilterContext, Victim};

/// How often the plugin may look for other victims; after that nothing is preempted.
const SEARCHES: usize = 16;

/// A PostFilter plugin whose nominations extenders narrow.
#[derive(Debug)]
pub(super) struct Narrowed {
    pub(super) plugin: Arc<dyn PostFilter>,
    /// The extenders with a preempt verb, with their places in the configuration.
    pub(super) extenders: Vec<(usize, Arc<Extender>)>,
    pub(super) desk: Desk,
}

impl Narrowed {
    /// What the extenders leave, each of what the one before it left; None while an answer is still to come.
    fn left(
        &self,
        binding: &Binding,
        nominated: &[Victim],
    ) -> Result<Option<BTreeSet<Victim>>, PluginError> {
        let resource = &binding.spec.resource;
        let mut left: BTreeSet<Victim> = nominated.iter().cloned().collect();
        for (index, extender) in &self.extenders {
            if left.is_empty() {
                break;
            }
            if !extender.concerns(&resource.api_version, &resource.kind) {
                continue;
            }
            let question = Question::Preempt(Arc::new(left.clone()));
            match self.desk.look(*index, question) {
                Found::Answer(Answer::Victims(victims)) => left.clone_from(&victims),
                Found::Answer(_) => {}
                Found::Failed(error) => {
                    let name = &extender.plugin;
                    return Err(PluginError::failed(format!("{name}: {error}")));
                }
                Found::Pending => return Ok(None),
            }
        }
        Ok(Some(left))
    }
}

impl PostFilter for Narrowed {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        state: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        let mut spared: BTreeSet<Victim> = BTreeSet::new();
        for _ in 0..SEARCHES {
            let bindings = Sparing {
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
            let Some(left) = self.left(context.binding, &nomination.victims)? else {
                return Ok(None);
            };
            if nomination
                .victims
                .iter()
                .all(|victim| left.contains(victim))
            {
                return Ok(Some(nomination));
            }
            let refused = nomination.victims.into_iter();
            spared.extend(refused.filter(|victim| !left.contains(victim)));
        }
        Ok(None)
    }
}

/// The bindings, without the assignments that extenders spare: nobody finds them to preempt them.
struct Sparing<'a> {
    all: &'a dyn Bindings,
    spared: &'a BTreeSet<Victim>,
}

impl Sparing<'_> {
    fn without_spared(&self, binding: Arc<Binding>) -> Arc<Binding> {
        let spares = |cluster: &str| {
            let mut spared = self.spared.iter();
            spared.any(|victim| victim.key == binding.key && victim.cluster == cluster)
        };
        let clusters = &binding.spec.clusters;
        if !clusters.iter().any(|target| spares(&target.name)) {
            return binding;
        }
        let kept = clusters.iter().filter(|target| !spares(&target.name));
        let kept = kept.cloned().collect();
        let mut visible = (*binding).clone();
        visible.spec.clusters = kept;
        Arc::new(visible)
    }
}

impl Bindings for Sparing<'_> {
    fn get(&self, key: &BindingKey) -> Option<Arc<Binding>> {
        Some(self.without_spared(self.all.get(key)?))
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Arc<Binding>> + '_> {
        Box::new(self.all.iter().map(|binding| self.without_spared(binding)))
    }
}
