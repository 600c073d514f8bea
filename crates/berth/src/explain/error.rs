//! Errors of `berth explain`.

use berth_component_base::kube_client::ConnectError;
use berth_plan::explain::ExplainError;
use berth_plan::scheduler_endpoint::SchedulerEndpointError;
use berth_scheduler::estimator::EstimatorOptionsError;

/// An error of `berth explain`.
#[derive(Debug, thiserror::Error)]
pub enum ExplainCommandError {
    /// The command cannot connect to the control plane.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The binding cannot be explained.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// The running scheduler cannot be queried.
    #[error(transparent)]
    Scheduler(#[from] SchedulerEndpointError),
    /// A flag of the estimators is invalid.
    #[error(transparent)]
    Estimators(#[from] EstimatorOptionsError),
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl ExplainCommandError {
    /// Reports whether the user must correct the command line.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Estimators(_) | Self::Explain(ExplainError::Configuration(_)) => true,
            Self::Scheduler(error) => error.is_usage(),
            _ => false,
        }
    }
}
