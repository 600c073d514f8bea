//! The threads on which scripts run. A caller waits for a limited time, so a script that does not return never holds
//! the caller's thread, which is often a thread of an async runtime.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Minimum number of scripts that may run at the same time, on a machine with few processors.
const MIN_RUNNING: usize = 4;
/// Maximum number of threads whose callers no longer wait. While there are this many, no script starts.
const MAX_ABANDONED: usize = 8;
/// Stack size of a thread, in bytes. Nested calls and patterns need it.
const STACK: usize = 8 << 20;

static SCRIPTS: LazyLock<Arc<Threads>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Threads::new(processors.max(MIN_RUNNING), MAX_ABANDONED))
});

/// The work of a thread. The argument is the sender of the thread's next jobs. Returns false if the thread must end.
struct Job(Box<Work>);

type Work = dyn FnOnce(&Sender<Job>) -> bool + Send;

/// The reason for which a job has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResult {
    /// The job did not end in time.
    Late,
    /// No thread became free in time, or too many abandoned jobs are still running.
    Busy,
    /// The job panicked, or its thread did not start.
    Failed,
}

/// A limited number of threads, which start when they are needed.
#[derive(Debug)]
struct Threads {
    max_running: usize,
    max_abandoned: usize,
    state: Mutex<State>,
    /// Notified when a job no longer counts as running.
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Sender<Job>>,
    /// The jobs whose callers wait.
    running: HashSet<u64>,
    /// The jobs whose callers have stopped waiting.
    abandoned: HashSet<u64>,
    last_job: u64,
}

/// Runs a job on a thread of its own, and waits at most `limit` for the result.
pub(super) fn run<T: Send + 'static>(
    limit: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoResult> {
    SCRIPTS.run(limit, job)
}

impl Threads {
    fn new(max_running: usize, max_abandoned: usize) -> Self {
        Self {
            max_running,
            max_abandoned,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    fn run<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let deadline = Instant::now() + limit;
        let (id, idle) = self.claim(deadline)?;
        let (sender, result) = mpsc::channel();
        let threads = Arc::clone(self);
        let job = Job(Box::new(move |thread: &Sender<Job>| {
            let outcome = catch_unwind(AssertUnwindSafe(job));
            let is_awaited = threads.finish(id, thread);
            if let Ok(outcome) = outcome {
                drop(sender.send(outcome));
            }
            is_awaited
        }));
        if !start(idle, job) {
            self.abandon(id);
            self.lock().abandoned.remove(&id);
            return Err(NoResult::Failed);
        }
        match result.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => Err(NoResult::Failed),
            Err(RecvTimeoutError::Timeout) if self.abandon(id) => Err(NoResult::Late),
            // The job ended at this moment, and sends its result next.
            Err(RecvTimeoutError::Timeout) => result.recv().map_err(|_| NoResult::Failed),
        }
    }

    /// Waits until one more job may run. Returns the id of the job, and an idle thread if there is one.
    fn claim(&self, deadline: Instant) -> Result<(u64, Option<Sender<Job>>), NoResult> {
        let mut state = self.lock();
        loop {
            if state.abandoned.len() >= self.max_abandoned {
                return Err(NoResult::Busy);
            }
            if state.running.len() < self.max_running {
                state.last_job += 1;
                let id = state.last_job;
                state.running.insert(id);
                return Ok((id, state.idle.pop()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoResult::Busy);
            }
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records the end of a job. Returns false if its caller has stopped waiting. In this case another thread may have
    /// taken the place of the job's thread, which ends.
    fn finish(&self, id: u64, thread: &Sender<Job>) -> bool {
        let mut state = self.lock();
        let is_awaited = state.running.remove(&id);
        if is_awaited {
            state.idle.push(thread.clone());
        } else {
            state.abandoned.remove(&id);
        }
        drop(state);
        self.freed.notify_one();
        is_awaited
    }

    /// Stops waiting for a job. Returns false if the job has ended.
    fn abandon(&self, id: u64) -> bool {
        let mut state = self.lock();
        let is_running = state.running.remove(&id);
        if is_running {
            state.abandoned.insert(id);
        }
        drop(state);
        self.freed.notify_one();
        is_running
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a job to an idle thread or to a new one. Returns false if no thread can be started.
fn start(idle: Option<Sender<Job>>, job: Job) -> bool {
    if let Some(thread) = idle {
        return thread.send(job).is_ok();
    }
    let thread = std::thread::Builder::new().name("lua".to_owned());
    let started = thread.stack_size(STACK).spawn(move || {
        let (own, jobs) = mpsc::channel();
        let mut next = Ok(job);
        while let Ok(job) = next {
            if !(job.0)(&own) {
                return;
            }
            next = jobs.recv();
        }
    });
    started.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn late_jobs_are_abandoned_up_to_a_limit_and_count_until_they_end() {
        let threads = Arc::new(Threads::new(1, 2));
        let stuck = || {
            let (end, ended) = mpsc::channel::<()>();
            let result = threads.run(SHORT, move || ended.recv().is_ok());
            assert_eq!(result, Err(NoResult::Late));
            end
        };
        let first = stuck();
        assert_eq!(threads.run(LONG, || 1), Ok(1));
        let second = stuck();
        assert_eq!(threads.run(LONG, || 1), Err(NoResult::Busy));
        drop(first);
        while threads.lock().abandoned.len() == 2 {
            std::thread::yield_now();
        }
        assert_eq!(threads.run(LONG, || 2), Ok(2));
        drop(second);
    }

    #[test]
    fn jobs_wait_for_a_free_thread_and_share_threads() {
        let threads = Arc::new(Threads::new(2, 2));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(threads.run(LONG, || 1), Ok(1)));
            }
        });
        let state = threads.lock();
        assert!(state.running.is_empty() && state.idle.len() <= 2);
    }

    #[test]
    fn a_panic_ends_only_its_job() {
        let threads = Arc::new(Threads::new(1, 1));
        let index = threads.lock().idle.len() + 7;
        let result = threads.run(LONG, move || [1, 2, 3].get(index).copied().unwrap());
        assert_eq!(result, Err(NoResult::Failed));
        assert_eq!(threads.run(LONG, || 1), Ok(1));
    }
}
