//! What is to be done about one template: a pure function of what is known.

use std::sync::Arc;

use super::claim::{Claim, PolicyKey};
use super::index::Index;
use super::options::Gates;
use super::policy::{Policy, Standing};
use super::preemption::{Contender, may_take};
use super::template::Template;

/// Why a template is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// It is new or a user changed it. Under a lazy policy only that brings changes of the policy to the
    /// binding.
    pub by_user: bool,
    /// The policy that holds it changed: where it selects the template no longer, it lets it go.
    pub policy_changed: bool,
    /// Policies that want to take it from its owner.
    pub challengers: Vec<PolicyKey>,
}

impl Cause {
    /// The template is new or was changed by a user.
    pub fn user() -> Self {
        Self {
            by_user: true,
            ..Self::default()
        }
    }

    /// Both causes.
    pub fn merge(&mut self, other: Self) {
        self.by_user |= other.by_user;
        self.policy_changed |= other.policy_changed;
        for challenger in other.challengers {
            if !self.challengers.contains(&challenger) {
                self.challengers.push(challenger);
            }
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Nothing, until something changes that would be told.
    Leave,
    /// Nothing, until a policy comes that selects the template.
    Wait,
    /// Nothing, until the overrides exist on which the policy depends.
    AwaitOverrides,
    /// The claim comes off: from the binding first, then from the template.
    Release(Claim),
    /// A policy is applied.
    Apply(Application),
}

/// How a policy is applied.
#[derive(Clone, Debug)]
pub struct Application {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Whether the template has to be marked first.
    pub claim: bool,
    /// Whether the binding is brought up to date.
    pub bind: bool,
    /// The policy from which the template is taken.
    pub taken_from: Option<PolicyKey>,
}

/// Decides.
pub fn decide(template: &Template, index: &Index, cause: &Cause, gates: Gates) -> Plan {
    if template.is_taken() {
        return Plan::Leave;
    }
    let Some(claim) = &template.claim else {
        return match index.best_policy(template) {
            Some(policy) => apply(template, index, policy, cause, None),
            None => Plan::Wait,
        };
    };
    let owner = index.policy(&claim.policy);
    if gates.policy_preemption
        && let Some(challenger) = strongest_challenger(template, index, cause)
    {
        return apply(template, index, challenger, cause, Some(&claim.policy));
    }
    match owner.map(|record| &record.standing) {
        None | Some(Standing::Leaving) => Plan::Release(claim.clone()),
        Some(Standing::Ready(policy)) if policy.selects(template) => {
            apply(template, index, policy, cause, None)
        }
        // A template that changes away from its policy stays bound, as in Karmada; a policy that changes
        // away from its templates lets them go.
        Some(Standing::Ready(_)) if cause.policy_changed => Plan::Release(claim.clone()),
        Some(Standing::Ready(_) | Standing::Incomplete(_) | Standing::Refused(_)) => Plan::Leave,
    }
}

fn apply(
    template: &Template,
    index: &Index,
    policy: &Arc<Policy>,
    cause: &Cause,
    taken_from: Option<&PolicyKey>,
) -> Plan {
    // A policy that preempts takes its template at once; it is the next step that waits for overrides.
    if taken_from.is_none() && !index.has_overrides_of(policy) {
        return Plan::AwaitOverrides;
    }
    let claim = needs_claim(template, policy);
    let bind = (cause.by_user || !policy.is_lazy()) && index.has_overrides_of(policy);
    if !claim && !bind {
        return Plan::Leave;
    }
    Plan::Apply(Application {
        policy: Arc::clone(policy),
        claim,
        bind,
        taken_from: taken_from.cloned(),
    })
}

fn needs_claim(template: &Template, policy: &Policy) -> bool {
    let own = policy.claim();
    let stray = template.has_cluster_claim
        && template
            .claim
            .as_ref()
            .is_some_and(|claim| claim.policy.kind == super::claim::PolicyKind::Namespaced);
    template.claim.as_ref() != Some(&own) || stray
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
    let contender = |policy: &Policy| Contender {
        kind: policy.key.kind,
        priority: policy.priority(),
    };
    cause
        .challengers
        .iter()
        .filter(|key| **key != claim.policy)
        .filter_map(|key| index.policy(key)?.ready())
        .filter(|policy| policy.preempts() && policy.selects(template))
        .filter(|policy| may_take(contender(policy), contender(owner)))
        .max_by_key(|policy| (std::cmp::Reverse(policy.key.kind), policy.priority()))
}
