//! The class of a failed application in a member, from the member's own words.

use crate::finding::Reason;

/// A failed application, classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyFailure {
    /// An object that another owner manages is in the way.
    Conflict,
    /// The control plane lacks rights in the member.
    Forbidden,
    /// The member cannot be reached.
    Unreachable,
    /// The member does not serve the kind.
    KindNotServed,
    /// The member's namespace is missing or is being deleted.
    Namespace,
    /// A quota in the member is used up.
    Quota,
    /// The member's validation or an admission webhook refuses the object.
    Refused,
    /// Any other failure.
    Other,
}

/// Parts of messages of Kubernetes' API servers, of Karmada's and of Berth's controllers, in the order in which they are
/// looked for. A message of a quota also says "forbidden".
const WORDS: [(&str, ApplyFailure); 22] = [
    ("not managed by", ApplyFailure::Conflict),
    ("is managed by", ApplyFailure::Conflict),
    ("no connection to cluster", ApplyFailure::Unreachable),
    ("connection refused", ApplyFailure::Unreachable),
    ("no route to host", ApplyFailure::Unreachable),
    ("timed out", ApplyFailure::Unreachable),
    ("deadline exceeded", ApplyFailure::Unreachable),
    ("has no apiEndpoint", ApplyFailure::Unreachable),
    ("Unauthorized", ApplyFailure::Forbidden),
    ("exceeded quota", ApplyFailure::Quota),
    ("being terminated", ApplyFailure::Namespace),
    ("namespaces \"", ApplyFailure::Namespace),
    ("no matches for kind", ApplyFailure::KindNotServed),
    ("does not serve", ApplyFailure::KindNotServed),
    ("not serve the kind", ApplyFailure::KindNotServed),
    (
        "could not find the requested resource",
        ApplyFailure::KindNotServed,
    ),
    ("denied the request", ApplyFailure::Refused),
    ("is invalid", ApplyFailure::Refused),
    ("field is immutable", ApplyFailure::Refused),
    ("admission webhook", ApplyFailure::Refused),
    ("violates PodSecurity", ApplyFailure::Refused),
    ("is forbidden", ApplyFailure::Forbidden),
];

/// The start of the message of a Work that is not applied.
const FRAME: &str = "Failed to apply all manifests";

impl ApplyFailure {
    /// Classifies the message of a failed application.
    pub fn of(message: &str) -> Self {
        let found = WORDS.iter().find(|(words, _)| message.contains(words));
        found.map_or(Self::Other, |(_, class)| *class)
    }

    /// Returns the reason of the finding.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Conflict => Reason::Conflict,
            Self::Forbidden => Reason::Forbidden,
            Self::Unreachable => Reason::Unreachable,
            Self::KindNotServed => Reason::KindNotServed,
            Self::Quota | Self::Refused => Reason::Refused,
            Self::Namespace | Self::Other => Reason::ApplyFailed,
        }
    }

    /// Returns what went wrong, for a sentence that begins with the cluster.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Conflict => "has this object already, from another owner",
            Self::Forbidden => "does not allow the control plane to write the object",
            Self::Unreachable => "cannot be reached",
            Self::KindNotServed => "does not serve the kind",
            Self::Namespace => "cannot take the object into its namespace",
            Self::Quota => "has no quota left for the object",
            Self::Refused => "refuses the object",
            Self::Other => "could not apply the object",
        }
    }

    /// Returns the cause in the words of the member, without the frame of the message and without advice.
    pub fn cause(self, message: &str) -> &str {
        let cause = match message.strip_prefix(FRAME) {
            Some(rest) => rest.split_once(": ").map_or(rest, |(_, cause)| cause),
            None => message,
        };
        match self {
            Self::Conflict => cause.split("; ").next().unwrap_or(cause),
            _ => cause,
        }
    }

    /// Returns the next action.
    pub fn fix(self, cluster: &str) -> String {
        match self {
            Self::Conflict => format!(
                "look at the object in {cluster}; then delete it there, or replace it with conflictResolution: Overwrite in the policy"
            ),
            Self::Forbidden => format!(
                "give the control plane's account in {cluster} the missing rights, or join the cluster again with `berth join`"
            ),
            Self::Unreachable => format!(
                "look at `kubectl get cluster {cluster}` and at the network between the control plane and {cluster}"
            ),
            Self::KindNotServed => format!(
                "install the CustomResourceDefinition in {cluster}, propagate it with a policy, or exclude {cluster} in the placement"
            ),
            Self::Namespace => format!(
                "look at the namespace in {cluster}: it must exist and must not be under deletion"
            ),
            Self::Quota => {
                format!("raise the ResourceQuota in {cluster}, or request less")
            }
            Self::Refused => format!(
                "correct the template, or what an override policy changes for {cluster}, as the message says"
            ),
            Self::Other => {
                "correct the cause in the message; the control plane tries again by itself"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_the_words_of_the_member() {
        let conflict = "Failed to apply all manifests (0/1): resource(kind=Deployment, web) already exists; to take it over, …";
        for (class, message, cause) in [
            (
                ApplyFailure::Conflict,
                conflict,
                "resource(kind=Deployment, web) already exists",
            ),
            (
                ApplyFailure::Refused,
                "web is invalid: spec: no; nor this",
                "web is invalid: spec: no; nor this",
            ),
        ] {
            assert_eq!(class.cause(message), cause);
        }
    }

    #[test]
    fn the_words_of_members_are_classified() {
        for (message, expected) in [
            (
                "Failed to apply all manifests (0/1): resource(kind=Deployment, shop/web) already exists in the cluster m2 and is not managed by this control plane; to take it over, …",
                ApplyFailure::Conflict,
            ),
            (
                "Failed to apply all manifests (0/1): resource(kind=Deployment, default/web) already exist in the cluster m2 but not managed by karmada",
                ApplyFailure::Conflict,
            ),
            (
                "resource(kind=Deployment, web) in the cluster m1 is managed by the control plane whose namespace kube-system has the UID 1",
                ApplyFailure::Conflict,
            ),
            (
                "deployments.apps is forbidden: User \"system:serviceaccount:karmada-cluster:m1\" cannot create resource",
                ApplyFailure::Forbidden,
            ),
            (
                "pods \"web\" is forbidden: exceeded quota: team, requested: pods=1, used: pods=1, limited: pods=1",
                ApplyFailure::Quota,
            ),
            (
                "no connection to cluster m1: Connection refused (os error 111)",
                ApplyFailure::Unreachable,
            ),
            (
                "no matches for kind \"Widget\" in version \"example.io/v1\"",
                ApplyFailure::KindNotServed,
            ),
            (
                "admission webhook \"policy.example.io\" denied the request: no latest tags",
                ApplyFailure::Refused,
            ),
            (
                "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: field is immutable",
                ApplyFailure::Refused,
            ),
            ("namespaces \"shop\" not found", ApplyFailure::Namespace),
            ("etcdserver: no leader", ApplyFailure::Other),
        ] {
            assert_eq!(ApplyFailure::of(message), expected, "{message}");
        }
    }
}
