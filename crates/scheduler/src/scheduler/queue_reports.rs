//! The state of a leader between two reports about ClusterQueues.

use std::time::Instant;

use tokio::task::JoinHandle;

/// The next report of a leader about the queues.
#[derive(Debug)]
pub(super) struct QueueReports {
    /// The time of the next report, or `None` if there are no queues.
    pub(super) due: Option<Instant>,
    /// The unfinished writes of the last report.
    pub(super) writing: Option<JoinHandle<()>>,
}

impl QueueReports {
    /// Creates the reports of a new leader.
    pub(super) fn starting(now: Instant) -> Self {
        Self {
            due: Some(now),
            writing: None,
        }
    }
}
