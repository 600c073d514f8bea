//! The decision about a template: which policy claims the template, and whether the claim and the binding are written.
//! [`decide`] is a pure function of the observed objects.

use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;

use super::claim::{Claim, PolicyKey, PolicyKind};
use super::index::Index;
use super::policy::{Policy, PolicyState};
use super::template::Template;
use crate::reconciler::work_queue::Reason;

/// The reasons for examining a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// True if the template or its policy is new or changed. With a lazy policy, only a new template or a user's change
    /// of the template counts, because a lazy policy updates the binding for this reason only.
    pub by_user: bool,
    /// True if the policy of the template changed. A template that this policy no longer selects is then released.
    pub policy_changed: bool,
    /// Policies that may preempt the policy of the template.
    pub challengers: Vec<PolicyKey>,
}

impl Cause {
    /// Returns the cause for a new template, or for a template that a user changed.
    pub fn user() -> Self {
        Self {
            by_user: true,
            ..Self::default()
        }
    }
}

impl Reason for Cause {
    fn merge(&mut self, other: Self) {
        self.by_user |= other.by_user;
        self.policy_changed |= other.policy_changed;
        for challenger in other.challengers {
            if !self.challengers.contains(&challenger) {
                self.challengers.push(challenger);
            }
        }
    }
}

/// The decision about a template.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Do nothing until a watched object changes.
    None,
    /// Wait for a policy that selects the template.
    AwaitPolicy,
    /// Wait for the override policies that the policy depends on.
    AwaitOverrides,
    /// Remove the claim, first from the binding and then from the template.
    Release(Claim),
    /// Apply a policy.
    Apply(Application),
}

/// The application of a policy to a template.
#[derive(Clone, Debug)]
pub struct Application {
    /// The policy.
    pub policy: Arc<Policy>,
    /// True if the policy must claim the template.
    pub claim: bool,
    /// True if the binding must be written.
    pub bind: bool,
    /// The former policy of the template, if the new policy preempts it.
    pub preempted: Option<PolicyKey>,
}

/// Decides what to do about a template.
pub fn decide(template: &Template, index: &Index, cause: &Cause, gates: FeatureGates) -> Plan {
    if template.is_reserved() {
        return Plan::None;
    }
    let Some(claim) = &template.claim else {
        return match index.best_policy(template) {
            Some(policy) => apply(template, index, policy, cause, None),
            None => Plan::AwaitPolicy,
        };
    };
    let owner = index.policy(&claim.policy);
    if gates.controllers.policy_preemption
        && let Some(challenger) = strongest_challenger(template, index, cause)
    {
        return apply(template, index, challenger, cause, Some(&claim.policy));
    }
    match owner.map(|record| &record.state) {
        None | Some(PolicyState::Terminating) => Plan::Release(claim.clone()),
        Some(PolicyState::Ready(policy)) if policy.selects(template) => {
            apply(template, index, policy, cause, None)
        }
        // As in Karmada, only a change of the policy releases the templates that the policy no longer selects. A claim
        // with another id belongs to a former policy of the same name, or was written by a user.
        Some(PolicyState::Ready(policy))
            if cause.policy_changed || claim.id != policy.claim().id =>
        {
            Plan::Release(claim.clone())
        }
        Some(PolicyState::Ready(_) | PolicyState::Incomplete(_) | PolicyState::Invalid(_)) => {
            Plan::None
        }
    }
}

fn apply(
    template: &Template,
    index: &Index,
    policy: &Arc<Policy>,
    cause: &Cause,
    preempted: Option<&PolicyKey>,
) -> Plan {
    // A preempting policy claims its template at once. The binding waits for the override policies.
    if preempted.is_none() && !index.has_overrides_of(policy) {
        return Plan::AwaitOverrides;
    }
    let claim = needs_claim(template, policy);
    let bind = (cause.by_user || !policy.is_lazy()) && index.has_overrides_of(policy);
    if !claim && !bind {
        return Plan::None;
    }
    Plan::Apply(Application {
        policy: Arc::clone(policy),
        claim,
        bind,
        preempted: preempted.cloned(),
    })
}

fn needs_claim(template: &Template, policy: &Policy) -> bool {
    let own = policy.claim();
    let has_other_claim = template.has_cluster_claim
        && template
            .claim
            .as_ref()
            .is_some_and(|claim| claim.policy.kind == PolicyKind::Namespaced);
    template.claim.as_ref() != Some(&own) || has_other_claim
}

fn strongest_challenger<'a>(
    template: &Template,
    index: &'a Index,
    cause: &Cause,
) -> Option<&'a Arc<Policy>> {
    let claim = template.claim.as_ref()?;
    if template.deleting {
        return None;
    }
    let owner = index.policy(&claim.policy)?.ready()?;
    cause
        .challengers
        .iter()
        .filter(|key| **key != claim.policy)
        .filter_map(|key| index.policy(key)?.ready())
        .filter(|policy| policy.preempts() && policy.selects(template))
        .filter(|policy| may_preempt(rank(policy), rank(owner)))
        .max_by_key(|policy| (std::cmp::Reverse(policy.key.kind), policy.priority()))
}

/// The kind and the explicit priority of a policy.
type Rank = (PolicyKind, i32);

fn rank(policy: &Policy) -> Rank {
    (policy.key.kind, policy.priority())
}

/// Reports whether a policy may preempt the policy that owns a template. A PropagationPolicy preempts any
/// ClusterPropagationPolicy. Between two policies of one kind, the policy with the strictly higher priority preempts.
fn may_preempt(challenger: Rank, owner: Rank) -> bool {
    match (challenger.0, owner.0) {
        (PolicyKind::Namespaced, PolicyKind::Cluster) => true,
        (PolicyKind::Cluster, PolicyKind::Namespaced) => false,
        _ => challenger.1 > owner.1,
    }
}

#[cfg(test)]
mod tests;
