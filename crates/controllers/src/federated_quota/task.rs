//! The tasks of the controllers of quotas, and their results.

use std::fmt;

use berth_apimachinery::api_error::{has_code, is_unreachable};

use super::enforcement::Recalculated;
use crate::owned_work::WriteError;
use crate::reconciler::log_key::LogKey;
use crate::reconciler::observe::ObjectName;
use crate::reconciler::work_queue::RetryableError;

/// One of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Sync,
    Status,
    Enforcement,
}

/// The work of one controller for one quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Task {
    pub(super) part: Part,
    pub(super) quota: ObjectName,
}

impl LogKey for Task {
    fn fmt_key(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota.fmt_key(f)
    }
}

/// The result of a task.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The objects are up to date.
    Done,
    /// The enforcement controller has recalculated a usage.
    Recalculated(Recalculated),
    /// The objects have changed, or cannot be written yet.
    Again,
    /// A request failed.
    Failed(QuotaError),
}

/// The error of a task.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct QuotaError(#[from] pub(super) WriteError);

impl RetryableError for QuotaError {
    fn is_stale(&self) -> bool {
        false
    }

    fn is_outage(&self) -> bool {
        match &self.0 {
            WriteError::Api(error) => is_unreachable(error),
            WriteError::Json(_) => false,
        }
    }
}

impl From<Result<Option<Recalculated>, kube::Error>> for Outcome {
    /// Without a recalculation, the quota was deleted.
    fn from(result: Result<Option<Recalculated>, kube::Error>) -> Self {
        match result {
            Ok(Some(recalculated)) => Self::Recalculated(recalculated),
            Ok(None) => Self::Done,
            Err(error) => error.into(),
        }
    }
}

impl From<kube::Error> for Outcome {
    /// Conflicts and missing objects are normal: the watch reports the new state.
    fn from(error: kube::Error) -> Self {
        if has_code(&error, 409) {
            Self::Again
        } else if has_code(&error, 404) {
            Self::Done
        } else {
            Self::Failed(QuotaError(error.into()))
        }
    }
}
