use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::log_key::LogKey;
use super::work_queue::{Priority, RetryableError, WorkQueue};
use super::*;

/// A reconciler that writes each received key. The first write of each key fails.
struct Echo {
    queue: WorkQueue<u32, ()>,
    written: mpsc::UnboundedSender<u32>,
    attempts: Vec<u32>,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl LogKey for u32 {
    fn fmt_key(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

impl RetryableError for Refused {
    fn is_stale(&self) -> bool {
        false
    }

    fn is_outage(&self) -> bool {
        false
    }
}

impl Reconciler for Echo {
    type Event = u32;
    type Outcome = (u32, Result<(), Refused>);

    fn handle_event(&mut self, key: u32, _: &mut Inputs<u32>) {
        self.queue.push(key, (), Priority::High);
    }

    fn handle_outcome(&mut self, (key, result): Self::Outcome, _: &mut Inputs<u32>) {
        match result {
            Ok(()) => {
                self.queue.finish(&key);
                self.written.send(key).unwrap();
            }
            Err(error) => self.queue.retry(&key, (), &error),
        }
    }

    fn timers(&mut self) -> Option<&mut dyn Timers> {
        Some(&mut self.queue)
    }

    fn dispatch(&mut self, workers: &mut Workers<Self::Outcome>) {
        while workers.has_free() {
            let Some((key, ())) = self.queue.next() else {
                return;
            };
            self.queue.start(key);
            let is_first = !self.attempts.contains(&key);
            self.attempts.push(key);
            let (running, most) = (self.running.clone(), self.most.clone());
            workers.start(async move {
                let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                (key, if is_first { Err(Refused) } else { Ok(()) })
            });
        }
    }
}

fn client() -> Client {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    Client::try_from(config).unwrap()
}

fn echo() -> (Echo, mpsc::UnboundedReceiver<u32>) {
    let (written, receiver) = mpsc::unbounded_channel();
    let echo = Echo {
        queue: WorkQueue::default(),
        written,
        attempts: Vec::new(),
        running: Arc::default(),
        most: Arc::default(),
    };
    (echo, receiver)
}

#[tokio::test(start_paused = true)]
async fn failed_writes_are_retried_by_a_bounded_number_of_workers() {
    let shutdown = CancellationToken::new();
    let mut runtime = Runtime::new(client(), "test", &Monitor::default(), &shutdown);
    runtime.inputs().spawn(|sender, stop| async move {
        for key in 0..20 {
            sender.send(key).await.unwrap();
        }
        stop.cancelled().await;
    });
    let (echo, mut written) = echo();
    let most = Arc::clone(&echo.most);
    let running = tokio::spawn(runtime.run("test", echo, 3));
    let mut keys = Vec::new();
    while keys.len() < 20 {
        keys.push(written.recv().await.unwrap());
    }
    keys.sort_unstable();
    assert_eq!(keys, (0..20).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::SeqCst), 3);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_panic_of_a_task_ends_the_controller() {
    let shutdown = CancellationToken::new();
    let mut runtime = Runtime::new(client(), "test", &Monitor::default(), &shutdown);
    runtime
        .inputs()
        .spawn(|_, _| async { panic!("on purpose") });
    let ended = runtime.run("test", echo().0, 1).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.starts_with("a task of the test failed: "), "{error}");
}

/// A reconciler that starts a job for each event and reports the finished jobs. The event is the job's duration in
/// milliseconds.
struct Slow {
    queued: Vec<u64>,
    started: mpsc::UnboundedSender<u64>,
    finished: mpsc::UnboundedSender<u64>,
}

impl Reconciler for Slow {
    type Event = u64;
    type Outcome = ();

    fn handle_event(&mut self, job: u64, _: &mut Inputs<u64>) {
        self.queued.push(job);
    }

    fn handle_outcome(&mut self, (): (), _: &mut Inputs<u64>) {}

    fn dispatch(&mut self, workers: &mut Workers<()>) {
        for job in self.queued.drain(..) {
            let finished = self.finished.clone();
            workers.start(async move {
                tokio::time::sleep(Duration::from_millis(job)).await;
                finished.send(job).unwrap();
            });
            self.started.send(job).unwrap();
        }
    }
}

/// Runs jobs, and waits until all of them have started. Returns the running reconciler and a channel of the finished
/// jobs.
async fn run_slow(
    jobs: &'static [u64],
    monitor: &Monitor,
    shutdown: &CancellationToken,
) -> (
    tokio::task::JoinHandle<Result<(), ControllerError>>,
    mpsc::UnboundedReceiver<u64>,
) {
    let mut runtime = Runtime::new(client(), "test", monitor, shutdown);
    runtime.inputs().spawn(|sender, stop| async move {
        for job in jobs {
            sender.send(*job).await.unwrap();
        }
        stop.cancelled().await;
    });
    let (started, mut starts) = mpsc::unbounded_channel();
    let (finished, ends) = mpsc::unbounded_channel();
    let slow = Slow {
        queued: Vec::new(),
        started,
        finished,
    };
    let running = tokio::spawn(runtime.run("test", slow, jobs.len()));
    for _ in jobs {
        starts.recv().await.unwrap();
    }
    (running, ends)
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_fast_jobs_and_abandons_slow_jobs() {
    let shutdown = CancellationToken::new();
    let (running, mut ends) = run_slow(&[300, 10_000], &Monitor::default(), &shutdown).await;
    let since = Instant::now();
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(since.elapsed(), DRAIN_TIMEOUT);
    assert_eq!(ends.recv().await, Some(300));
    assert_eq!(ends.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_liveness_error_of_a_stuck_worker_names_the_controller() {
    let (monitor, shutdown) = (Monitor::default(), CancellationToken::new());
    let (running, _ends) = run_slow(&[u64::MAX / 2_000_000], &monitor, &shutdown).await;
    assert_eq!(monitor.check_live(), Ok(()));
    tokio::time::advance(Duration::from_mins(11)).await;
    let reason = monitor.check_live().unwrap_err();
    assert_eq!(reason, "test: a worker has been running for 660 s");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(monitor.check_live(), Ok(()));
}
