//! Several `berth controllers`, of which one works at a time: flags as those of karmada-controller-manager, and its Lease,
//! so that ours and Karmada's never work side by side where both elect.

use std::time::Duration;

use berth_scheduler::go_duration::go_duration;
use berth_scheduler::lease::{Candidate, LeaseOptions, LeaseOptionsError};
use clap::Args;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::fence::Fence;

/// Flags of leader election.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "they are named after the flags")]
pub(super) struct ElectionArgs {
    /// Elect a leader among controllers of the same lease before working
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub leader_elect: bool,

    /// Name of the lease; that of karmada-controller-manager, so that the two never work side by side
    #[arg(
        long,
        value_name = "NAME",
        default_value = "karmada-controller-manager"
    )]
    pub leader_elect_resource_name: String,

    /// Namespace of the lease
    #[arg(long, value_name = "NAMESPACE", default_value = berth_api::well_known::NAMESPACE_SYSTEM)]
    pub leader_elect_resource_namespace: String,

    /// How long standbys wait before they take over from a leader that is not heard of
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew its lease before it gives up
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub leader_elect_renew_deadline: Duration,

    /// How often candidates try to take or renew the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub leader_elect_retry_period: Duration,
}

impl ElectionArgs {
    /// The lease; none where no leader is elected.
    ///
    /// # Errors
    /// When the durations make no sense together.
    pub(super) fn lease(self) -> Result<Option<LeaseOptions>, LeaseOptionsError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let lease = LeaseOptions {
            namespace: self.leader_elect_resource_namespace,
            name: self.leader_elect_resource_name,
            identity: LeaseOptions::new_identity(),
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        lease.check()?;
        Ok(Some(lease))
    }
}

/// How a term of office ended.
#[derive(Debug)]
pub(super) enum Term<E> {
    /// It never began: we were told to end before.
    Never,
    /// The work ended, as it did.
    Worked(Result<(), E>),
    /// Another one leads, or nobody knows who.
    Lost,
}

/// Waits until we lead, and then works until the work ends, the token is cancelled, or the office is lost. The work gets
/// a fence that lets writes through while we lead, and a token that says when to end. It is given up in the middle where
/// the office is lost.
pub(super) async fn lead<E, F>(
    client: Client,
    lease: LeaseOptions,
    cancel: &CancellationToken,
    work: impl FnOnce(Fence, CancellationToken) -> F,
) -> Term<E>
where
    F: Future<Output = Result<(), E>>,
{
    let (mut candidate, leadership) = Candidate::new(client, lease);
    if !candidate.acquire(cancel).await {
        return Term::Never;
    }
    let ending = cancel.child_token();
    let mut working = Box::pin(work(Fence::new(leadership), ending.clone()));
    let worked = tokio::select! {
        worked = working.as_mut() => Some(worked),
        held = candidate.hold(&ending) => {
            if !held {
                return Term::Lost;
            }
            None
        }
    };
    // The writes in flight are over before another one is let in.
    let worked = match worked {
        Some(worked) => worked,
        None => working.await,
    };
    candidate.release().await;
    Term::Worked(worked)
}
