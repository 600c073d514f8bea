//! When a policy may take a template from the policy that holds it.

use super::claim::PolicyKind;

/// Who contends: the kind of policy and its explicit priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The kind of policy.
    pub kind: PolicyKind,
    /// Its explicit priority.
    pub priority: i32,
}

/// Whether `challenger` takes a template that `owner` holds: PropagationPolicies come before
/// ClusterPropagationPolicies, and among equals the strictly higher priority wins.
pub fn may_take(challenger: Contender, owner: Contender) -> bool {
    match (challenger.kind, owner.kind) {
        (PolicyKind::Namespaced, PolicyKind::Cluster) => true,
        (PolicyKind::Cluster, PolicyKind::Namespaced) => false,
        _ => challenger.priority > owner.priority,
    }
}

#[cfg(test)]
mod tests {
    use super::PolicyKind::{Cluster, Namespaced};
    use super::*;

    #[test]
    fn who_takes_from_whom() {
        for (challenger, owner, taken) in [
            ((Namespaced, 2), (Namespaced, 1), true),
            ((Namespaced, 1), (Namespaced, 1), false),
            ((Namespaced, -1), (Cluster, 9), true),
            ((Cluster, 9), (Namespaced, -1), false),
            ((Cluster, 2), (Cluster, 1), true),
            ((Cluster, 1), (Cluster, 2), false),
        ] {
            let contender = |(kind, priority)| Contender { kind, priority };
            assert_eq!(
                may_take(contender(challenger), contender(owner)),
                taken,
                "{challenger:?} {owner:?}"
            );
        }
    }
}
