//! The watchdog, which detects stuck event loops and stuck workers of controllers. Each loop reports when it waits,
//! when it runs, and which workers it starts.
//!
//! The watchdog uses the monotonic clock. This module must not depend on the controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum duration of one iteration of a loop, and of a wait while events are pending or the timer is due.
const ITERATION_LIMIT: Duration = Duration::from_mins(2);
/// Maximum duration of a worker. It is much longer than the time limits of the worker's requests.
const WORKER_LIMIT: Duration = Duration::from_mins(10);

/// The event loops of a process.
#[derive(Debug, Default)]
pub(super) struct Watchdog(Mutex<Vec<Weak<LoopActivity>>>);

impl Watchdog {
    /// Adds a loop. `pending` returns the number of events that wait for the loop.
    pub(super) fn add(
        &self,
        name: String,
        pending: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Arc<LoopActivity> {
        let activity = Arc::new(LoopActivity {
            name,
            pending: Box::new(pending),
            state: Mutex::new(State {
                current: LoopState::Running(Instant::now()),
                workers: BTreeMap::new(),
                last_ticket: 0,
            }),
        });
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|watched| watched.strong_count() > 0);
        loops.push(Arc::downgrade(&activity));
        activity
    }

    /// Checks all loops. Returns an error that describes the stuck loops and workers.
    pub(super) fn check(&self) -> Result<(), String> {
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Vec<_> = loops.iter().filter_map(Weak::upgrade).collect();
        drop(loops);
        let now = Instant::now();
        let problems: Vec<String> = running.iter().filter_map(|it| it.problem(now)).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }
}

/// The state of a loop.
#[derive(Clone, Copy, Debug)]
enum LoopState {
    /// The loop has been running since this time.
    Running(Instant),
    /// The loop waits for events, or for its next timer.
    Waiting {
        due: Option<Instant>,
        /// The time of the first check that found pending events.
        ignores_events_since: Option<Instant>,
    },
}

#[derive(Debug)]
struct State {
    current: LoopState,
    /// The start times of the workers by ticket. Tickets ascend, so the first worker is the oldest.
    workers: BTreeMap<u64, Instant>,
    last_ticket: u64,
}

/// The activity that one loop reports to the watchdog. The watchdog forgets the loop when the activity is dropped.
pub(crate) struct LoopActivity {
    name: String,
    pending: Box<dyn Fn() -> usize + Send + Sync>,
    state: Mutex<State>,
}

impl fmt::Debug for LoopActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoopActivity").field(&self.name).finish()
    }
}

impl LoopActivity {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports that the loop waits for events, or for its next timer.
    pub(crate) fn set_waiting(&self, due: Option<Instant>) {
        self.with(|state| {
            state.current = LoopState::Waiting {
                due,
                ignores_events_since: None,
            };
        });
    }

    /// Reports that the loop runs.
    pub(crate) fn set_running(&self) {
        self.with(|state| state.current = LoopState::Running(Instant::now()));
    }

    /// Reports the start of a worker. The worker runs until the returned guard is dropped.
    pub(crate) fn start_worker(self: &Arc<Self>) -> WorkerGuard {
        let ticket = self.with(|state| {
            state.last_ticket += 1;
            state.workers.insert(state.last_ticket, Instant::now());
            state.last_ticket
        });
        WorkerGuard {
            activity: Arc::clone(self),
            ticket,
        }
    }

    fn problem(&self, now: Instant) -> Option<String> {
        let pending = (self.pending)();
        let (name, stuck) = (&self.name, |since: Instant, limit| {
            let age = now.saturating_duration_since(since);
            (age > limit).then_some(age.as_secs())
        });
        self.with(|state| {
            if let Some(seconds) = state
                .workers
                .first_key_value()
                .and_then(|(_, since)| stuck(*since, WORKER_LIMIT))
            {
                return Some(format!("{name}: a worker has been running for {seconds} s"));
            }
            match &mut state.current {
                LoopState::Running(since) => {
                    let seconds = stuck(*since, ITERATION_LIMIT)?;
                    Some(format!("{name}: the loop has been stuck for {seconds} s"))
                }
                LoopState::Waiting {
                    due,
                    ignores_events_since,
                } => {
                    if pending == 0 {
                        *ignores_events_since = None;
                    } else {
                        ignores_events_since.get_or_insert(now);
                    }
                    let ignored = [*due, *ignores_events_since].into_iter().flatten().min();
                    let seconds = stuck(ignored?, ITERATION_LIMIT)?;
                    Some(format!(
                        "{name}: the loop has not run for {seconds} s although it has work"
                    ))
                }
            }
        })
    }
}

/// A guard that represents a running worker.
#[derive(Debug)]
pub(crate) struct WorkerGuard {
    activity: Arc<LoopActivity>,
    ticket: u64,
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        self.activity
            .with(|state| state.workers.remove(&self.ticket));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::advance;

    use super::*;

    const ONE_SECOND: Duration = Duration::from_secs(1);

    fn fails(watchdog: &Watchdog) -> bool {
        let checked = watchdog.check();
        if let Err(reason) = &checked {
            assert!(reason.starts_with("binding-controller: "), "{reason}");
        }
        checked.is_err()
    }

    /// Returns a watchdog with one loop, the activity of the loop, and the number of events that wait for the loop.
    fn watched_loop() -> (Watchdog, Arc<LoopActivity>, Arc<AtomicUsize>) {
        let (watchdog, events) = (Watchdog::default(), Arc::new(AtomicUsize::new(0)));
        let pending = Arc::clone(&events);
        let name = "binding-controller".to_owned();
        let activity = watchdog.add(name, move || pending.load(Ordering::Relaxed));
        (watchdog, activity, events)
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_return_is_stuck() {
        let (watchdog, activity, _) = watched_loop();
        activity.set_running();
        advance(ITERATION_LIMIT).await;
        assert!(!fails(&watchdog));
        advance(ONE_SECOND).await;
        assert!(fails(&watchdog));
        activity.set_waiting(None);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_loop_is_live() {
        let (watchdog, activity, _) = watched_loop();
        activity.set_waiting(Some(Instant::now() + 10 * ITERATION_LIMIT));
        advance(9 * ITERATION_LIMIT).await;
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_misses_its_timer_or_its_events_is_stuck() {
        let (watchdog, activity, events) = watched_loop();
        activity.set_waiting(Some(Instant::now()));
        advance(ITERATION_LIMIT + ONE_SECOND).await;
        assert!(fails(&watchdog));

        activity.set_waiting(None);
        advance(ITERATION_LIMIT + ONE_SECOND).await;
        // The events may have arrived immediately before the check.
        events.store(3, Ordering::Relaxed);
        assert!(!fails(&watchdog));
        advance(ITERATION_LIMIT + ONE_SECOND).await;
        assert!(fails(&watchdog));
        events.store(0, Ordering::Relaxed);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_far_beyond_its_time_limits_is_stuck() {
        let (watchdog, activity, _) = watched_loop();
        activity.set_waiting(None);
        let worker = activity.start_worker();
        advance(WORKER_LIMIT).await;
        assert!(!fails(&watchdog));
        advance(ONE_SECOND).await;
        assert!(fails(&watchdog));
        drop(worker);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_ended_is_forgotten() {
        let (watchdog, activity, _) = watched_loop();
        activity.set_running();
        advance(2 * ITERATION_LIMIT).await;
        assert!(fails(&watchdog));
        drop(activity);
        assert!(!fails(&watchdog));
    }
}
