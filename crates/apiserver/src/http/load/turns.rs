//! The places at which requests are worked on, shared fairly: each identity has a queue of its own, and the queues get
//! free places in turn.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{Limits, Refusal};

/// Longer than any work waits for its turn.
const LONGEST: Duration = Duration::from_hours(1);

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Turns {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_user: HashMap<Arc<str>, Queue>,
    /// The identities with waiting requests, the next one first.
    order: VecDeque<Arc<str>>,
    working: usize,
    waiting: usize,
}

/// The requests of one identity.
#[derive(Debug, Default)]
struct Queue {
    working: usize,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A place, free again when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    /// None if it was never handed over.
    turns: Option<Arc<Turns>>,
    user: Arc<str>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            let mut state = turns.state.lock();
            state.finish(&self.user);
            turns.dispatch(&mut state);
        }
    }
}

/// Leaves the queue when the request does not wait any more.
struct Waiting<'a> {
    turns: &'a Turns,
    user: &'a Arc<str>,
    /// Closed before the queue is looked at.
    turn: Option<oneshot::Receiver<Turn>>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A turn that was handed over at the last moment is given back by this.
        drop(self.turn.take());
        self.turns.state.lock().forget_closed(self.user);
    }
}

impl Turns {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Takes a place, if need be after some waiting.
    pub(super) async fn take(
        this: &Arc<Self>,
        user: &Arc<str>,
        patience: Duration,
    ) -> Result<Turn, Refusal> {
        let receiver = {
            let mut state = this.state.lock();
            if this.has_room(&state, user) {
                state.start(user);
                return Ok(this.turn(user));
            }
            state.make_room(this.limits.waiting, user)?;
            let (sender, receiver) = oneshot::channel();
            state.enqueue(user, sender);
            receiver
        };
        let mut waiting = Waiting {
            turns: this,
            user,
            turn: Some(receiver),
        };
        let Some(turn) = &mut waiting.turn else {
            return Err(Refusal::Waiting);
        };
        match tokio::time::timeout(patience, turn).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) => Err(Refusal::Waiting),
            Err(_) => Err(Refusal::TimeOut),
        }
    }

    /// Runs some work that is polled at a place only, and holds none while it waits for something.
    pub(super) async fn run<T>(
        this: &Arc<Self>,
        user: &Arc<str>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            // After all that time it goes ahead without one.
            let turn = Self::take(this, user, LONGEST).await;
            let polled = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
            drop(turn);
            if let Poll::Ready(result) = polled {
                return result;
            }
            // The work has taken the waker.
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

    fn turn(self: &Arc<Self>, user: &Arc<str>) -> Turn {
        Turn {
            turns: Some(self.clone()),
            user: user.clone(),
        }
    }

    /// Reports whether a new request may go ahead: nothing of its identity waits, and there is a place for it.
    fn has_room(&self, state: &State, user: &str) -> bool {
        let own = state.by_user.get(user);
        state.working < self.limits.requests
            && own.is_none_or(|own| {
                own.waiting.is_empty() && own.working < self.limits.identity.working
            })
    }

    /// Hands free places to the queues in turn.
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
            if let Err(mut unwanted) = next.send(self.turn(&user)) {
                // The lock is held: it must not give the place back by itself.
                unwanted.turns = None;
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

    /// Refuses a request that would wait, unless another identity has more requests waiting: then its newest is refused.
    fn make_room(&mut self, most: usize, user: &Arc<str>) -> Result<(), Refusal> {
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
            _ => Err(Refusal::Waiting),
        }
    }

    fn enqueue(&mut self, user: &Arc<str>, sender: oneshot::Sender<Turn>) {
        let queue = self.by_user.entry(user.clone()).or_default();
        if queue.waiting.is_empty() {
            self.order.push_back(user.clone());
        }
        queue.waiting.push_back(sender);
        self.waiting += 1;
    }

    /// Removes the requests of an identity that do not wait any more.
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

    type Asked = BoxFuture<'static, Result<Turn, Refusal>>;

    fn turns(requests: usize, waiting: usize, working: usize) -> Arc<Turns> {
        Arc::new(Turns::new(Limits {
            requests,
            waiting,
            identity: Share {
                working,
                ..Share::default()
            },
            ..Limits::default()
        }))
    }

    /// The result, unless the request waits.
    async fn now(asked: &mut Asked) -> Option<Result<Turn, Refusal>> {
        match futures::poll!(asked) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    fn ask(turns: &Arc<Turns>, user: &str) -> Asked {
        let (turns, user) = (turns.clone(), Arc::from(user));
        async move { Turns::take(&turns, &user, Duration::from_mins(1)).await }.boxed()
    }

    /// A request that waits.
    async fn waits(turns: &Arc<Turns>, user: &str) -> Asked {
        let mut asked = ask(turns, user);
        assert!(now(&mut asked).await.is_none(), "{user} does not wait");
        asked
    }

    async fn granted(asked: &mut Asked) -> Turn {
        now(asked).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn who_asks_little_does_not_wait_behind_who_asks_much() {
        let turns = turns(1, 100, 100);
        let held = granted(&mut ask(&turns, "a")).await;
        let mut many = Vec::new();
        for _ in 0..50 {
            many.push(waits(&turns, "a").await);
        }
        let mut one = waits(&turns, "b").await;
        drop(held);
        let first = granted(&mut many[0]).await;
        assert!(now(&mut one).await.is_none());
        drop(first);
        drop(granted(&mut one).await);
        drop(granted(&mut many[1]).await);
        drop(many);
        let state = turns.state.lock();
        assert!(state.by_user.is_empty() && state.order.is_empty());
        assert_eq!((state.working, state.waiting), (0, 0));
    }

    #[tokio::test]
    async fn one_identity_leaves_places_to_others() {
        let turns = turns(3, 100, 2);
        let held = [
            granted(&mut ask(&turns, "a")).await,
            granted(&mut ask(&turns, "a")).await,
        ];
        let mut third = waits(&turns, "a").await;
        drop(granted(&mut ask(&turns, "b")).await);
        assert!(now(&mut third).await.is_none());
        drop(held);
        drop(granted(&mut third).await);
    }

    #[tokio::test]
    async fn a_full_line_refuses_the_newest_of_the_longest_queue() {
        let turns = turns(1, 2, 100);
        let held = granted(&mut ask(&turns, "a")).await;
        let mut first = waits(&turns, "a").await;
        let mut second = waits(&turns, "a").await;
        let mut other = waits(&turns, "b").await;
        let refused = now(&mut second).await.unwrap();
        assert_eq!(refused.err(), Some(Refusal::Waiting));
        let refused = now(&mut ask(&turns, "a")).await.unwrap();
        assert_eq!(refused.err(), Some(Refusal::Waiting));
        drop(held);
        drop(granted(&mut first).await);
        drop(granted(&mut other).await);
    }

    #[tokio::test]
    async fn work_that_waits_for_something_leaves_its_place_to_others() {
        let turns = turns(1, 100, 100);
        let (sender, receiver) = oneshot::channel();
        let user: Arc<str> = Arc::from("a");
        let mut work = pin!(Turns::run(&turns, &user, receiver));
        assert!(futures::poll!(work.as_mut()).is_pending());
        let held = granted(&mut ask(&turns, "b")).await;
        sender.send(7).unwrap();
        assert!(futures::poll!(work.as_mut()).is_pending(), "b is at work");
        drop(held);
        assert_eq!(work.await, Ok(7));
    }

    #[tokio::test]
    async fn a_turn_that_comes_too_late_goes_to_the_next() {
        let turns = turns(1, 100, 100);
        let held = granted(&mut ask(&turns, "a")).await;
        let gone = waits(&turns, "b").await;
        let mut next = waits(&turns, "c").await;
        drop(held);
        assert!(now(&mut next).await.is_none(), "it is the turn of b");
        drop(gone);
        drop(granted(&mut next).await);
    }
}
