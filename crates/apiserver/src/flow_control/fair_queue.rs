//! Fair queuing: each identity has its own queue, and free permits go to the queues in turn.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Limits, Rejection};

/// Maximum time that started work waits for a permit.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// A fixed number of permits, shared fairly between identities.
#[derive(Debug)]
pub(super) struct FairQueue {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_user: HashMap<Arc<str>, Queue>,
    /// Identities with queued requests, the next one first.
    order: VecDeque<Arc<str>>,
    working: usize,
    waiting: usize,
}

/// The requests of one identity.
#[derive(Debug, Default)]
struct Queue {
    working: usize,
    waiting: VecDeque<oneshot::Sender<Permit>>,
}

/// A permit, released when dropped.
#[derive(Debug)]
pub(super) struct Permit {
    /// `None` if the permit was never handed over.
    queue: Option<Arc<FairQueue>>,
    user: Arc<str>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            let mut state = queue.state.lock();
            state.finish(&self.user);
            queue.dispatch(&mut state);
        }
    }
}

/// A queued request, removed from the queue when dropped.
struct Queued<'a> {
    queue: &'a FairQueue,
    user: &'a Arc<str>,
    /// Closed before the queue is cleaned up.
    receiver: Option<oneshot::Receiver<Permit>>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        // Releases a permit that arrived at the last moment.
        drop(self.receiver.take());
        self.queue.state.lock().forget_closed(self.user);
    }
}

impl FairQueue {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(
        this: &Arc<Self>,
        user: &Arc<str>,
        timeout: Duration,
    ) -> Result<Permit, Rejection> {
        let receiver = {
            let mut state = this.state.lock();
            if this.has_room(&state, user) {
                state.start(user);
                return Ok(this.permit(user));
            }
            state.make_room(this.limits.waiting, user)?;
            let (sender, receiver) = oneshot::channel();
            state.enqueue(user, sender);
            receiver
        };
        let mut queued = Queued {
            queue: this,
            user,
            receiver: Some(receiver),
        };
        let Some(receiver) = &mut queued.receiver else {
            return Err(Rejection::Queue);
        };
        match tokio::time::timeout(timeout, receiver).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Rejection::Queue),
            Err(_) => Err(Rejection::TimeOut),
        }
    }

    /// Runs a future and holds a permit during each poll, not while the future is pending.
    pub(super) async fn run<T>(
        this: &Arc<Self>,
        user: &Arc<str>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            // Continues without a permit after the maximum wait.
            let permit = Self::acquire(this, user, MAX_WAIT).await;
            let polled = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(permit);
            if let Poll::Ready(result) = polled {
                return result;
            }
            // The work has registered the waker.
            let mut woken = false;
            poll_fn(|_| {
                if mem::replace(&mut woken, true) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        }
    }

    fn permit(self: &Arc<Self>, user: &Arc<str>) -> Permit {
        Permit {
            queue: Some(self.clone()),
            user: user.clone(),
        }
    }

    /// Reports whether a new request gets a permit at once: its identity has nothing queued, and a permit is free.
    fn has_room(&self, state: &State, user: &str) -> bool {
        let own = state.by_user.get(user);
        state.working < self.limits.requests
            && own.is_none_or(|own| {
                own.waiting.is_empty() && own.working < self.limits.identity.working
            })
    }

    /// Hands free permits to the queues in turn.
    fn dispatch(self: &Arc<Self>, state: &mut State) {
        let mut passed_over = 0;
        while state.working < self.limits.requests && passed_over < state.order.len() {
            let Some(user) = state.order.pop_front() else {
                return;
            };
            let Some(queue) = state.by_user.get_mut(&user) else {
                continue;
            };
            if queue.working >= self.limits.identity.working {
                state.order.push_back(user);
                passed_over += 1;
                continue;
            }
            let next = queue.waiting.pop_front();
            if !queue.waiting.is_empty() {
                state.order.push_back(user.clone());
            }
            let Some(next) = next else {
                continue;
            };
            state.waiting -= 1;
            passed_over = 0;
            state.start(&user);
            if let Err(mut undelivered) = next.send(self.permit(&user)) {
                // Its drop would take the lock, which is held here.
                undelivered.queue = None;
                state.finish(&user);
            }
        }
    }
}

impl State {
    fn start(&mut self, user: &Arc<str>) {
        self.working += 1;
        self.by_user.entry(user.clone()).or_default().working += 1;
    }

    fn finish(&mut self, user: &Arc<str>) {
        self.working -= 1;
        if let Some(queue) = self.by_user.get_mut(user) {
            queue.working -= 1;
            if queue.working == 0 && queue.waiting.is_empty() {
                self.by_user.remove(user);
            }
        }
    }

    /// Makes room in a full queue: rejects the newest request of the identity with the most queued requests, unless the new
    /// request is from that identity.
    fn make_room(&mut self, most: usize, user: &Arc<str>) -> Result<(), Rejection> {
        if self.waiting < most {
            return Ok(());
        }
        let own = self.by_user.get(user).map_or(0, |own| own.waiting.len());
        let longest = self
            .by_user
            .values_mut()
            .max_by_key(|queue| queue.waiting.len());
        match longest {
            Some(longest) if longest.waiting.len() > own + 1 => {
                drop(longest.waiting.pop_back());
                self.waiting -= 1;
                Ok(())
            }
            _ => Err(Rejection::Queue),
        }
    }

    fn enqueue(&mut self, user: &Arc<str>, sender: oneshot::Sender<Permit>) {
        let queue = self.by_user.entry(user.clone()).or_default();
        if queue.waiting.is_empty() {
            self.order.push_back(user.clone());
        }
        queue.waiting.push_back(sender);
        self.waiting += 1;
    }

    /// Removes the abandoned requests of an identity.
    fn forget_closed(&mut self, user: &Arc<str>) {
        let Some(queue) = self.by_user.get_mut(user) else {
            return;
        };
        let before = queue.waiting.len();
        queue.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting -= before - queue.waiting.len();
        if queue.waiting.is_empty() {
            if before > 0 {
                self.order.retain(|other| other != user);
            }
            if queue.working == 0 {
                self.by_user.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    use super::super::Share;
    use super::*;

    type Acquire = BoxFuture<'static, Result<Permit, Rejection>>;

    fn fair_queue(requests: usize, waiting: usize, working: usize) -> Arc<FairQueue> {
        Arc::new(FairQueue::new(Limits {
            requests,
            waiting,
            identity: Share {
                working,
                ..Share::default()
            },
            ..Limits::default()
        }))
    }

    /// Returns the result, or `None` if the request is queued.
    async fn poll(acquire: &mut Acquire) -> Option<Result<Permit, Rejection>> {
        match futures::poll!(acquire) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn acquire(queue: &Arc<FairQueue>, user: &str) -> Acquire {
        let (queue, user) = (queue.clone(), Arc::from(user));
        async move { FairQueue::acquire(&queue, &user, Duration::from_mins(1)).await }.boxed()
    }

    /// Returns a queued request.
    async fn queued(queue: &Arc<FairQueue>, user: &str) -> Acquire {
        let mut request = acquire(queue, user);
        assert!(poll(&mut request).await.is_none(), "{user} is not queued");
        request
    }

    async fn granted(request: &mut Acquire) -> Permit {
        poll(request).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn an_identity_with_few_requests_is_not_queued_behind_one_with_many() {
        let queue = fair_queue(1, 100, 100);
        let held = granted(&mut acquire(&queue, "a")).await;
        let mut many = Vec::new();
        for _ in 0..50 {
            many.push(queued(&queue, "a").await);
        }
        let mut one = queued(&queue, "b").await;
        drop(held);
        let first = granted(&mut many[0]).await;
        assert!(poll(&mut one).await.is_none());
        drop(first);
        drop(granted(&mut one).await);
        drop(granted(&mut many[1]).await);
        drop(many);
        let state = queue.state.lock();
        assert!(state.by_user.is_empty() && state.order.is_empty());
        assert_eq!((state.working, state.waiting), (0, 0));
    }

    #[tokio::test]
    async fn one_identity_cannot_hold_all_permits() {
        let queue = fair_queue(3, 100, 2);
        let held = [
            granted(&mut acquire(&queue, "a")).await,
            granted(&mut acquire(&queue, "a")).await,
        ];
        let mut third = queued(&queue, "a").await;
        drop(granted(&mut acquire(&queue, "b")).await);
        assert!(poll(&mut third).await.is_none());
        drop(held);
        drop(granted(&mut third).await);
    }

    #[tokio::test]
    async fn a_full_queue_rejects_the_newest_request_of_the_largest_identity() {
        let queue = fair_queue(1, 2, 100);
        let held = granted(&mut acquire(&queue, "a")).await;
        let mut first = queued(&queue, "a").await;
        let mut second = queued(&queue, "a").await;
        let mut other = queued(&queue, "b").await;
        let rejected = poll(&mut second).await.unwrap();
        assert_eq!(rejected.err(), Some(Rejection::Queue));
        let rejected = poll(&mut acquire(&queue, "a")).await.unwrap();
        assert_eq!(rejected.err(), Some(Rejection::Queue));
        drop(held);
        drop(granted(&mut first).await);
        drop(granted(&mut other).await);
    }

    #[tokio::test]
    async fn pending_work_holds_no_permit() {
        let queue = fair_queue(1, 100, 100);
        let (sender, receiver) = oneshot::channel();
        let user: Arc<str> = Arc::from("a");
        let mut work = pin!(FairQueue::run(&queue, &user, receiver));
        assert!(futures::poll!(work.as_mut()).is_pending());
        let held = granted(&mut acquire(&queue, "b")).await;
        sender.send(7).unwrap();
        assert!(
            futures::poll!(work.as_mut()).is_pending(),
            "b holds the permit"
        );
        drop(held);
        assert_eq!(work.await, Ok(7));
    }

    #[tokio::test]
    async fn a_permit_of_an_abandoned_request_goes_to_the_next() {
        let queue = fair_queue(1, 100, 100);
        let held = granted(&mut acquire(&queue, "a")).await;
        let gone = queued(&queue, "b").await;
        let mut next = queued(&queue, "c").await;
        drop(held);
        assert!(poll(&mut next).await.is_none(), "b is next");
        drop(gone);
        drop(granted(&mut next).await);
    }
}
