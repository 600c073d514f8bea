//! What has to be done with a Work, given its cluster.

use berth_api::cluster::SyncMode;
use berth_api::well_known::{CONDITION_READY, EXECUTION_FINALIZER};
use berth_api::{Cluster, Work};

use crate::condition;

/// What is known of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no such Cluster.
    Gone,
    /// An agent in the member does the work.
    Pull,
    /// It has no address: nothing can have been sent there.
    NoAddress,
    /// It answers.
    Ready,
    /// It does not answer.
    NotReady,
    /// It does not answer, and is being removed.
    Leaving,
}

impl Standing {
    /// The standing of a cluster.
    pub fn of(cluster: Option<&Cluster>) -> Self {
        let Some(cluster) = cluster else {
            return Self::Gone;
        };
        let conditions = cluster.status.as_ref().map(|status| &status.conditions[..]);
        let endpoint = cluster.spec.api_endpoint.as_deref();
        if cluster.spec.sync_mode == SyncMode::Pull {
            Self::Pull
        } else if endpoint.is_none_or(str::is_empty) {
            Self::NoAddress
        } else if conditions.is_some_and(|conditions| condition::holds(conditions, CONDITION_READY))
        {
            Self::Ready
        } else if cluster.metadata.deletion_timestamp.is_some() {
            Self::Leaving
        } else {
            Self::NotReady
        }
    }
}

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, for now or for ever.
    Nothing,
    /// Its manifests have to be in the member.
    Apply,
    /// Nothing is to be sent; the status is collected.
    Suspend,
    /// It is told that the member cannot be reached for now.
    Await,
    /// It is told that the cluster has no address.
    TellNoAddress,
    /// Its resources leave the member, or stay there as nobody's; then it goes.
    Withdraw,
    /// It goes, and nothing can be done in the member.
    Release,
}

impl Step {
    /// Whether the member has to be talked to.
    pub fn needs_member(self) -> bool {
        matches!(self, Self::Apply | Self::Withdraw)
    }
}

/// What has to be done with a Work.
pub fn step(work: &Work, standing: Standing) -> Step {
    let meta = &work.metadata;
    if standing == Standing::Pull {
        return Step::Nothing;
    }
    if meta.deletion_timestamp.is_some() {
        let finalizers = meta.finalizers.iter().flatten();
        if !finalizers.clone().any(|name| name == EXECUTION_FINALIZER) {
            return Step::Nothing;
        }
        return match standing {
            Standing::Ready => Step::Withdraw,
            Standing::Gone | Standing::NoAddress | Standing::Leaving => Step::Release,
            Standing::NotReady | Standing::Pull => Step::Nothing,
        };
    }
    if work.spec.suspend_dispatching == Some(true) {
        return Step::Suspend;
    }
    match standing {
        Standing::Ready => Step::Apply,
        Standing::NotReady | Standing::Leaving => Step::Await,
        Standing::NoAddress => Step::TellNoAddress,
        Standing::Gone | Standing::Pull => Step::Nothing,
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
    fn a_cluster_has_one_standing() {
        let push = json!({"syncMode": "Push", "apiEndpoint": "https://a"});
        for (spec, ready, deleting, expected) in [
            (push.clone(), "True", false, Standing::Ready),
            (push.clone(), "True", true, Standing::Ready),
            (push.clone(), "Unknown", false, Standing::NotReady),
            (push, "False", true, Standing::Leaving),
            (
                json!({"syncMode": "Push"}),
                "True",
                false,
                Standing::NoAddress,
            ),
            (
                json!({"syncMode": "Pull", "apiEndpoint": "https://a"}),
                "True",
                false,
                Standing::Pull,
            ),
        ] {
            assert_eq!(
                Standing::of(Some(&cluster(spec, ready, deleting))),
                expected
            );
        }
        assert_eq!(Standing::of(None), Standing::Gone);
    }

    #[test]
    fn a_deletion_waits_for_a_member_that_may_come_back() {
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
        let going = work(true, true, false);
        for (standing, expected) in [
            (Standing::Ready, Step::Withdraw),
            (Standing::NotReady, Step::Nothing),
            (Standing::Leaving, Step::Release),
            (Standing::Gone, Step::Release),
            (Standing::NoAddress, Step::Release),
            (Standing::Pull, Step::Nothing),
        ] {
            assert_eq!(step(&going, standing), expected, "{standing:?}");
        }
        assert_eq!(
            step(&work(true, false, false), Standing::Ready),
            Step::Nothing
        );
        assert_eq!(
            step(&work(false, true, true), Standing::Ready),
            Step::Suspend
        );
        assert_eq!(
            step(&work(false, true, false), Standing::Ready),
            Step::Apply
        );
        assert_eq!(
            step(&work(false, true, false), Standing::NotReady),
            Step::Await
        );
        assert_eq!(
            step(&work(false, true, false), Standing::NoAddress),
            Step::TellNoAddress
        );
    }
}
