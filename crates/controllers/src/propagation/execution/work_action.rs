//! The decision which action a Work needs. It depends on the Work and on the state of its cluster.

use berth_api::cluster::SyncMode;
use berth_api::well_known::{CONDITION_READY, EXECUTION_FINALIZER};
use berth_api::{Cluster, Work, condition};

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterState {
    /// The Cluster does not exist.
    Deleted,
    /// An agent in the member applies the Works.
    Pull,
    /// The Cluster has no API endpoint, so no request was ever sent to the member.
    NoEndpoint,
    /// The member is ready.
    Ready,
    /// The member is ready, and its Cluster is being deleted.
    Leaving,
    /// The member is not ready.
    NotReady,
    /// The member is not ready, and its Cluster is being deleted.
    Terminating,
}

impl ClusterState {
    /// Returns the state of a cluster.
    pub(crate) fn of(cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster else {
            return Self::Deleted;
        };
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
        let endpoint = cluster.spec.api_endpoint.as_deref();
        if cluster.spec.sync_mode == SyncMode::Pull {
            Self::Pull
        } else if endpoint.is_none_or(str::is_empty) {
            Self::NoEndpoint
        } else if conditions
            .is_some_and(|conditions| condition::is_true(conditions, CONDITION_READY))
        {
            match cluster.metadata.deletion_timestamp {
                Some(_) => Self::Leaving,
                None => Self::Ready,
            }
        } else if cluster.metadata.deletion_timestamp.is_some() {
            Self::Terminating
        } else {
            Self::NotReady
        }
    }

    /// Reports whether the member is ready.
    pub(crate) fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::Leaving)
    }
}

/// The action for a Work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkAction {
    /// Do nothing.
    None,
    /// Apply the manifests to the member, and report the status of the objects.
    Apply,
    /// Report that dispatching is suspended, and report the status of the objects in the member.
    Observe,
    /// Report that dispatching is suspended, and report the status of the cached objects.
    Suspend,
    /// Wait until the member is ready, and report the status of the cached objects.
    AwaitMember,
    /// Report that the cluster has no API endpoint.
    ReportNoEndpoint,
    /// Delete or release the objects in the member, and remove the finalizer when the objects are gone.
    Delete,
    /// Request the deletion of the objects in the member or release the objects, and remove the finalizer. The deletion
    /// of a Cluster must not depend on finalizers of objects in its member.
    RequestDeletion,
    /// Remove the finalizer without a request to the member.
    RemoveFinalizer,
}

impl WorkAction {
    /// Reports whether the action sends requests to the member.
    pub(crate) fn needs_member(self) -> bool {
        self.writes_member() || self == Self::Observe
    }

    /// Reports whether the action writes to the member.
    pub(crate) fn writes_member(self) -> bool {
        matches!(self, Self::Apply | Self::Delete | Self::RequestDeletion)
    }
}

/// Decides the action for a Work.
pub(crate) fn action_for(work: &Work, cluster: ClusterState) -> WorkAction {
    let meta = &work.metadata;
    if cluster == ClusterState::Pull {
        return WorkAction::None;
    }
    if meta.deletion_timestamp.is_some() {
        let finalizers = meta.finalizers.iter().flatten();
        if !finalizers.clone().any(|name| name == EXECUTION_FINALIZER) {
            return WorkAction::None;
        }
        return match cluster {
            ClusterState::Ready => WorkAction::Delete,
            ClusterState::Leaving => WorkAction::RequestDeletion,
            ClusterState::Deleted | ClusterState::NoEndpoint | ClusterState::Terminating => {
                WorkAction::RemoveFinalizer
            }
            ClusterState::NotReady | ClusterState::Pull => WorkAction::None,
        };
    }
    if work.spec.suspend_dispatching == Some(true) {
        return if cluster.is_ready() {
            WorkAction::Observe
        } else {
            WorkAction::Suspend
        };
    }
    match cluster {
        ClusterState::Ready | ClusterState::Leaving => WorkAction::Apply,
        ClusterState::NotReady | ClusterState::Terminating => WorkAction::AwaitMember,
        ClusterState::NoEndpoint => WorkAction::ReportNoEndpoint,
        ClusterState::Deleted | ClusterState::Pull => WorkAction::None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: Value, ready: &str, deleting: bool) -> Cluster {
        let mut cluster = json!({"metadata": {"name": "m"}, "spec": spec, "status": {"conditions": [
            {"type": "Ready", "status": ready, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        if deleting {
            cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn the_state_of_a_cluster_follows_from_its_spec_and_status() {
        let push = json!({"syncMode": "Push", "apiEndpoint": "https://a"});
        for (spec, ready, deleting, expected) in [
            (push.clone(), "True", false, ClusterState::Ready),
            (push.clone(), "True", true, ClusterState::Leaving),
            (push.clone(), "Unknown", false, ClusterState::NotReady),
            (push, "False", true, ClusterState::Terminating),
            (
                json!({"syncMode": "Push"}),
                "True",
                false,
                ClusterState::NoEndpoint,
            ),
            (
                json!({"syncMode": "Pull", "apiEndpoint": "https://a"}),
                "True",
                false,
                ClusterState::Pull,
            ),
        ] {
            assert_eq!(
                ClusterState::of(Some(&cluster(spec, ready, deleting))),
                expected
            );
        }
        assert_eq!(ClusterState::of(None), ClusterState::Deleted);
    }

    #[test]
    fn a_deletion_waits_for_a_member_that_may_recover() {
        let work = |deleting: bool, finalizer: bool, suspended: bool| -> Work {
            let mut work =
                json!({"metadata": {"name": "w"}, "spec": {"suspendDispatching": suspended}});
            if deleting {
                work["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            if finalizer {
                work["metadata"]["finalizers"] = json!([EXECUTION_FINALIZER]);
            }
            serde_json::from_value(work).unwrap()
        };
        let deleted = work(true, true, false);
        for (state, expected) in [
            (ClusterState::Ready, WorkAction::Delete),
            (ClusterState::Leaving, WorkAction::RequestDeletion),
            (ClusterState::NotReady, WorkAction::None),
            (ClusterState::Terminating, WorkAction::RemoveFinalizer),
            (ClusterState::Deleted, WorkAction::RemoveFinalizer),
            (ClusterState::NoEndpoint, WorkAction::RemoveFinalizer),
            (ClusterState::Pull, WorkAction::None),
        ] {
            assert_eq!(action_for(&deleted, state), expected, "{state:?}");
        }
        assert_eq!(
            action_for(&work(true, false, false), ClusterState::Ready),
            WorkAction::None
        );
        assert_eq!(
            action_for(&work(false, true, true), ClusterState::Ready),
            WorkAction::Observe
        );
        assert_eq!(
            action_for(&work(false, true, true), ClusterState::NotReady),
            WorkAction::Suspend
        );
        assert_eq!(
            action_for(&work(false, true, false), ClusterState::Ready),
            WorkAction::Apply
        );
        assert_eq!(
            action_for(&work(false, true, false), ClusterState::NotReady),
            WorkAction::AwaitMember
        );
        assert_eq!(
            action_for(&work(false, true, false), ClusterState::NoEndpoint),
            WorkAction::ReportNoEndpoint
        );
    }
}
