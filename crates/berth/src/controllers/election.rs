//! Leader election of `berth controllers`. The Lease is that of karmada-controller-manager, so that only one of the two
//! programs works at a time.

use berth_component_base::leader_election::{Candidate, LeaseOptions};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::leader_gate::LeaderGate;

/// The result of an election and of the work that the leader did.
#[derive(Debug)]
pub(super) enum Term<E> {
    /// The token was cancelled before this process became the leader.
    Never,
    /// The leader's work ended with this result.
    Worked(Result<(), E>),
    /// This process lost the leadership while it worked.
    Lost,
}

/// Waits for the leadership, then runs `work` until it ends or the leadership is lost.
///
/// `work` receives a gate and a token. The gate rejects writes after the leadership is lost. The token is cancelled
/// together with `cancel`, and `work` then has to end. When the leadership is lost, `work` is dropped.
pub(super) async fn lead<E, F>(
    client: Client,
    lease: LeaseOptions,
    cancel: &CancellationToken,
    work: impl FnOnce(LeaderGate, CancellationToken) -> F,
) -> Term<E>
where
    F: Future<Output = Result<(), E>>,
{
    let (mut candidate, leadership) = Candidate::new(client, lease);
    if !candidate.acquire(cancel).await {
        return Term::Never;
    }
    let ending = cancel.child_token();
    let mut working = Box::pin(work(LeaderGate::new(leadership), ending.clone()));
    let worked = tokio::select! {
        worked = working.as_mut() => Some(worked),
        is_still_leader = candidate.hold(&ending) => {
            if !is_still_leader {
                return Term::Lost;
            }
            None
        }
    };
    // The Lease is released after the running writes end.
    let worked = match worked {
        Some(worked) => worked,
        None => working.await,
    };
    candidate.release().await;
    Term::Worked(worked)
}
