//! The watchdog, which detects stuck event loops and stuck workers of controllers. Each loop reports when it waits,
//! when it runs, and which workers it starts.
//!
//! The watchdog uses the monotonic clock. This module must not depend on the controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// Maximum duration of one turn of a loop, and of a wait while events are pending or the timer is due.
const TURN_LIMIT: Duration = Duration::from_mins(2);
/// Maximum duration of a worker. It is much longer than the time limits of the worker's requests.
const WORKER_LIMIT: Duration = Duration::from_mins(10);

/// The event loops of a process.
#[derive(Debug, Default)]
pub(super) struct Watchdog(Mutex<Vec<Weak<Heartbeat>>>);

impl Watchdog {
    /// Adds a loop. `pending` returns the number of events that wait for the loop.
    pub(super) fn add(
        &self,
        name: String,
        pending: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Arc<Heartbeat> {
        let heartbeat = Arc::new(Heartbeat {
            name,
            pending: Box::new(pending),
            state: Mutex::new(State {
                turn: Turn::Runs(Instant::now()),
                workers: BTreeMap::new(),
                tickets: 0,
            }),
        });
        let mut loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loops.retain(|known| known.strong_count() > 0);
        loops.push(Arc::downgrade(&heartbeat));
        heartbeat
    }

    /// Checks all loops. Returns an error that describes the stuck loops and workers.
    pub(super) fn check(&self) -> Result<(), String> {
        let loops = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let running: Vec<_> = loops.iter().filter_map(Weak::upgrade).collect();
        drop(loops);
        let problems = running.iter().filter_map(|one| one.problem(Instant::now()));
        let problems: Vec<String> = problems.collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems.join("; "))
        }
    }
}

/// The state of a loop.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The loop has been running since this time.
    Runs(Instant),
    /// The loop waits for events, or for its next timer.
    Waits {
        due: Option<Instant>,
        /// The time of the first check that found pending events.
        ignores_events_since: Option<Instant>,
    },
}

#[derive(Debug)]
struct State {
    turn: Turn,
    /// The start times of the workers by ticket. Tickets ascend, so the first worker is the oldest.
    workers: BTreeMap<u64, Instant>,
    tickets: u64,
}

/// The state that one loop reports to the watchdog. The watchdog forgets the loop when the heartbeat is dropped.
pub(crate) struct Heartbeat {
    name: String,
    pending: Box<dyn Fn() -> usize + Send + Sync>,
    state: Mutex<State>,
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeat").field(&self.name).finish()
    }
}

impl Heartbeat {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports that the loop waits for events, or for its next timer.
    pub(crate) fn waits(&self, due: Option<Instant>) {
        self.with(|state| {
            state.turn = Turn::Waits {
                due,
                ignores_events_since: None,
            };
        });
    }

    /// Reports that the loop runs.
    pub(crate) fn runs(&self) {
        self.with(|state| state.turn = Turn::Runs(Instant::now()));
    }

    /// Reports the start of a worker. The worker runs until the returned guard is dropped.
    pub(crate) fn worker(self: &Arc<Self>) -> WorkerGuard {
        let ticket = self.with(|state| {
            state.tickets += 1;
            state.workers.insert(state.tickets, Instant::now());
            state.tickets
        });
        WorkerGuard {
            heartbeat: Arc::clone(self),
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
            match &mut state.turn {
                Turn::Runs(since) => {
                    let seconds = stuck(*since, TURN_LIMIT)?;
                    Some(format!("{name}: the loop has been stuck for {seconds} s"))
                }
                Turn::Waits {
                    due,
                    ignores_events_since,
                } => {
                    if pending == 0 {
                        *ignores_events_since = None;
                    } else {
                        ignores_events_since.get_or_insert(now);
                    }
                    let ignored = [*due, *ignores_events_since].into_iter().flatten().min();
                    let seconds = stuck(ignored?, TURN_LIMIT)?;
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
    heartbeat: Arc<Heartbeat>,
    ticket: u64,
}

impl Drop for WorkerGuard {
    fn drop(&mut self) {
        self.heartbeat
            .with(|state| state.workers.remove(&self.ticket));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::advance;

    use super::*;

    const MOMENT: Duration = Duration::from_secs(1);

    fn fails(watchdog: &Watchdog) -> bool {
        let checked = watchdog.check();
        if let Err(reason) = &checked {
            assert!(reason.starts_with("binding-controller: "), "{reason}");
        }
        checked.is_err()
    }

    /// Returns a watchdog with one loop, the heartbeat of the loop, and the number of events that wait for the loop.
    fn scene() -> (Watchdog, Arc<Heartbeat>, Arc<AtomicUsize>) {
        let (watchdog, events) = (Watchdog::default(), Arc::new(AtomicUsize::new(0)));
        let pending = Arc::clone(&events);
        let name = "binding-controller".to_owned();
        let heartbeat = watchdog.add(name, move || pending.load(Ordering::Relaxed));
        (watchdog, heartbeat, events)
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_return_is_stuck() {
        let (watchdog, heartbeat, _) = scene();
        heartbeat.runs();
        advance(TURN_LIMIT).await;
        assert!(!fails(&watchdog));
        advance(MOMENT).await;
        assert!(fails(&watchdog));
        heartbeat.waits(None);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_loop_is_live() {
        let (watchdog, heartbeat, _) = scene();
        heartbeat.waits(Some(Instant::now() + 10 * TURN_LIMIT));
        advance(9 * TURN_LIMIT).await;
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_misses_its_timer_or_its_events_is_stuck() {
        let (watchdog, heartbeat, events) = scene();
        heartbeat.waits(Some(Instant::now()));
        advance(TURN_LIMIT + MOMENT).await;
        assert!(fails(&watchdog));

        heartbeat.waits(None);
        advance(TURN_LIMIT + MOMENT).await;
        // The events may have arrived immediately before the check.
        events.store(3, Ordering::Relaxed);
        assert!(!fails(&watchdog));
        advance(TURN_LIMIT + MOMENT).await;
        assert!(fails(&watchdog));
        events.store(0, Ordering::Relaxed);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_far_beyond_its_time_limits_is_stuck() {
        let (watchdog, heartbeat, _) = scene();
        heartbeat.waits(None);
        let worker = heartbeat.worker();
        advance(WORKER_LIMIT).await;
        assert!(!fails(&watchdog));
        advance(MOMENT).await;
        assert!(fails(&watchdog));
        drop(worker);
        assert!(!fails(&watchdog));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_ended_is_forgotten() {
        let (watchdog, heartbeat, _) = scene();
        heartbeat.runs();
        advance(2 * TURN_LIMIT).await;
        assert!(fails(&watchdog));
        drop(heartbeat);
        assert!(!fails(&watchdog));
    }
}
