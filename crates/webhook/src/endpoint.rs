//! The paths of the webhooks, and the resources that each webhook reviews. Except for the webhooks of Clusters, the
//! paths are the same as in karmada-webhook.

use berth_api::admission::GuardedKind;

/// A webhook of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Sets ids, finalizers and defaults of a kind.
    Mutate(GuardedKind),
    /// Rejects invalid objects of a kind.
    Validate(GuardedKind),
    /// Rejects the deletion of protected objects of any kind.
    DeletionProtection,
}

/// The paths and their webhooks. karmada-webhook has no webhooks for Clusters, because Karmada's aggregated API server
/// checks Clusters.
const ENDPOINTS: &[(&str, Endpoint)] = &[
    ("/mutate-cluster", Endpoint::Mutate(GuardedKind::Cluster)),
    (
        "/mutate-propagationpolicy",
        Endpoint::Mutate(GuardedKind::PropagationPolicy),
    ),
    (
        "/mutate-clusterpropagationpolicy",
        Endpoint::Mutate(GuardedKind::ClusterPropagationPolicy),
    ),
    (
        "/mutate-overridepolicy",
        Endpoint::Mutate(GuardedKind::OverridePolicy),
    ),
    (
        "/mutate-resourcebinding",
        Endpoint::Mutate(GuardedKind::ResourceBinding),
    ),
    (
        "/mutate-clusterresourcebinding",
        Endpoint::Mutate(GuardedKind::ClusterResourceBinding),
    ),
    ("/mutate-work", Endpoint::Mutate(GuardedKind::Work)),
    (
        "/validate-cluster",
        Endpoint::Validate(GuardedKind::Cluster),
    ),
    (
        "/validate-propagationpolicy",
        Endpoint::Validate(GuardedKind::PropagationPolicy),
    ),
    (
        "/validate-clusterpropagationpolicy",
        Endpoint::Validate(GuardedKind::ClusterPropagationPolicy),
    ),
    (
        "/validate-overridepolicy",
        Endpoint::Validate(GuardedKind::OverridePolicy),
    ),
    (
        "/validate-clusteroverridepolicy",
        Endpoint::Validate(GuardedKind::ClusterOverridePolicy),
    ),
    (
        "/validate-clustertaintpolicy",
        Endpoint::Validate(GuardedKind::ClusterTaintPolicy),
    ),
    (
        "/validate-federatedresourcequota",
        Endpoint::Validate(GuardedKind::FederatedResourceQuota),
    ),
    (
        "/validate-resourcebinding",
        Endpoint::Validate(GuardedKind::ResourceBinding),
    ),
    (
        "/validate-resourceinterpretercustomization",
        Endpoint::Validate(GuardedKind::ResourceInterpreterCustomization),
    ),
    (
        "/validate-resourceinterpreterwebhookconfiguration",
        Endpoint::Validate(GuardedKind::ResourceInterpreterWebhookConfiguration),
    ),
    (
        "/validate-resourcedeletionprotection",
        Endpoint::DeletionProtection,
    ),
];

/// Paths that karmada-webhook serves for kinds without rules in Berth.
const WITHOUT_RULES: &[&str] = &[
    "/convert",
    "/mutate-federatedhpa",
    "/mutate-multiclusterservice",
    "/validate-cronfederatedhpa",
    "/validate-federatedhpa",
    "/validate-multiclusteringress",
    "/validate-multiclusterservice",
];

impl Endpoint {
    /// Returns all webhooks.
    pub fn all() -> impl Iterator<Item = Self> {
        ENDPOINTS.iter().map(|(_, endpoint)| *endpoint)
    }

    /// Returns the webhook at a path.
    pub fn find(path: &str) -> Option<Self> {
        ENDPOINTS
            .iter()
            .find_map(|(known, endpoint)| (*known == path).then_some(*endpoint))
    }

    /// Returns the path of the webhook, or `None` if its kind has no rules for this phase.
    pub fn path(self) -> Option<&'static str> {
        ENDPOINTS
            .iter()
            .find_map(|(path, endpoint)| (*endpoint == self).then_some(*path))
    }

    /// Reports whether karmada-webhook serves a path for which Berth has no rules.
    pub(crate) fn is_without_rules(path: &str) -> bool {
        WITHOUT_RULES.contains(&path)
    }

    /// Reports whether the webhook reviews objects of a resource.
    pub(crate) fn reviews(self, group: &str, resource: &str) -> bool {
        match self {
            Self::Mutate(kind) | Self::Validate(kind) => {
                GuardedKind::find(group, resource) == Some(kind)
            }
            Self::DeletionProtection => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_path_leads_to_one_webhook() {
        let paths: BTreeSet<&str> = ENDPOINTS.iter().map(|(path, _)| *path).collect();
        assert_eq!(paths.len(), ENDPOINTS.len());
        for (path, endpoint) in ENDPOINTS {
            assert_eq!(Endpoint::find(path), Some(*endpoint));
            assert_eq!(endpoint.path(), Some(*path));
            assert!(!Endpoint::is_without_rules(path), "{path}");
        }
    }
}
