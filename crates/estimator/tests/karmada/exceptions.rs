//! The intended differences from karmada-scheduler-estimator. `docs/estimator.md` gives the reasons.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use crate::requests::Request;
use crate::{Answer, Scenario};

/// An intended difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exception {
    /// Karmada counts sidecars as init containers that end, and ignores the requests of whole pods.
    PodRequests,
    /// Karmada simulates the placement on nodes of alternating zones, and not in the order of names.
    NodeOrder,
    /// Karmada answers with a negative number if a quota is exceeded.
    ExceededQuota,
}

impl Exception {
    pub(crate) const ALL: [Self; 3] = [Self::PodRequests, Self::NodeOrder, Self::ExceededQuota];

    /// Returns the exception that applies to an answer of Karmada.
    pub(crate) fn of(scenario: &Scenario, request: &Request, expected: &Answer) -> Option<Self> {
        if let Answer::Answer(..0) = expected {
            return Some(Self::ExceededQuota);
        }
        if scenario.pods.iter().any(has_other_requests) {
            return Some(Self::PodRequests);
        }
        let is_simulated = match request {
            Request::Replicas(request) => scenario.gates.assumed && !request.assumed.is_empty(),
            Request::Components(_) => true,
            Request::Unschedulable(_) => false,
        };
        (is_simulated && scenario.zones() > 1).then_some(Self::NodeOrder)
    }
}

impl Scenario {
    /// Returns the number of zones.
    fn zones(&self) -> usize {
        let labels = self
            .nodes
            .iter()
            .filter_map(|node| node.metadata.labels.as_ref());
        let zones = labels.map(|labels| labels.get("topology.kubernetes.io/zone"));
        zones.collect::<BTreeSet<_>>().len()
    }
}

/// Reports whether a pod has sidecars, or requests of the whole pod.
fn has_other_requests(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    spec.is_some_and(|spec| {
        let mut init = spec.init_containers.iter().flatten();
        spec.resources.is_some() || init.any(|it| it.restart_policy.as_deref() == Some("Always"))
    })
}
