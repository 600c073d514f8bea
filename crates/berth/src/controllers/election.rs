//! Several `berth controllers`, of which one works at a time: with the Lease of karmada-controller-manager, so that ours
//! and Karmada's never work side by side where both elect.

use berth_scheduler::lease::{Candidate, LeaseOptions};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::fence::Fence;

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
