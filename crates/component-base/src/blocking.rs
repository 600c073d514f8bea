//! Work that may hold a thread of the async runtime for a long time.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs work that may take long or wait. The other tasks of this thread of the runtime continue on another thread, so
/// that probes and signals are still handled.
pub fn without_blocking_the_runtime<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => block_in_place(work),
        // A runtime with one thread has no other thread for its tasks.
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_continue_meanwhile() {
        let (sender, receiver) = mpsc::channel();
        let work = tokio::spawn(async move {
            without_blocking_the_runtime(|| receiver.recv().unwrap_or_default())
        });
        tokio::spawn(async move { sender.send(1) })
            .await
            .unwrap()
            .unwrap();
        assert_eq!(work.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_runs_the_work_directly() {
        assert_eq!(without_blocking_the_runtime(|| 1), 1);
    }
}
