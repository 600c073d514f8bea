//! Leader election of `berth controllers`, with the Lease of karmada-controller-manager, so that only one of the two
//! programs works at a time.

use berth_scheduler::lease::{Candidate, LeaseOptions};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::leader_gate::LeaderGate;

/// The outcome of a leadership.
#[derive(Debug)]
pub(super) enum Term<E> {
    /// It never began: the token was cancelled before.
    Never,
    /// The work ended with this result.
    Worked(Result<(), E>),
    /// The leadership was lost.
    Lost,
}

/// Acquires the leadership, and works until the work ends, the token is cancelled, or the leadership is lost. The work gets
/// a gate for its writes and a token that stops it. It is abandoned when the leadership is lost.
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
        held = candidate.hold(&ending) => {
            if !held {
                return Term::Lost;
            }
            None
        }
    };
    // Writes in flight finish before the Lease is released.
    let worked = match worked {
        Some(worked) => worked,
        None => working.await,
    };
    candidate.release().await;
    Term::Worked(worked)
}
